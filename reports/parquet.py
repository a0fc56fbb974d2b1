"""The lasting form of the request rows."""

import os
from pathlib import Path

import pandas as pd

from metrics.record import FIELD_NAMES
from metrics.run_files import REQUESTS_JSONL, REQUESTS_PARQUET


def keep_as_parquet(folder: Path, records: pd.DataFrame) -> None:
    """Write the rows as Parquet; the lines go only when the new file reads back whole.

    Raises:
        OSError: the file cannot be written; the lines stay as they are.
    """
    if (folder / REQUESTS_PARQUET).exists():
        return
    replace_parquet(folder, records)
    (folder / REQUESTS_JSONL).unlink(missing_ok=True)


def replace_parquet(folder: Path, records: pd.DataFrame) -> None:
    """Write the rows as Parquet, in place of what there is only when the new file is whole.

    Raises:
        OSError: the file cannot be written; what there was stays.
    """
    target = folder / REQUESTS_PARQUET
    partial = target.with_suffix(".partial")
    records[list(FIELD_NAMES)].to_parquet(partial, index=False)
    if len(pd.read_parquet(partial, columns=["sequence"])) != len(records):
        raise OSError(f"{partial}: not all rows were written")
    os.replace(partial, target)
