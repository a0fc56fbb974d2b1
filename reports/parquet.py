"""The lasting form of the request rows."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from metrics.record import FIELD_NAMES
from metrics.run_files import REQUESTS_JSONL, REQUESTS_PARQUET, REQUESTS_SCHEMA, check_schema
from reports.row_columns import ROW_TYPES

SCHEMA_KEY = b"schema"
"""Of the file's metadata; files of the first versions have none."""
AT_ONCE = 50_000
"""Rows that are written together."""


def keep_as_parquet(folder: Path, records: pd.DataFrame, unread: pa.Table) -> None:
    """Write the rows as Parquet; the lines go only when the new file reads back whole.

    ``unread`` has the fields that ``records`` lacks, of the same rows.

    Raises:
        OSError: the file cannot be written; the lines stay as they are.
    """
    if (folder / REQUESTS_PARQUET).exists():
        return

    def part(rows: slice) -> pa.Table:
        some, others = records.iloc[rows], unread.slice(rows.start, AT_ONCE)
        arrays = [
            others.column(name).cast(kind)
            if name in others.column_names
            else pa.array(some[name], type=kind, from_pandas=True)
            for name, kind in zip(_SCHEMA.names, _SCHEMA.types, strict=True)
        ]
        return pa.table(arrays, schema=_SCHEMA)

    _replace(folder, len(records), part)
    (folder / REQUESTS_JSONL).unlink(missing_ok=True)


def replace_parquet(folder: Path, rows: pa.Table) -> None:
    """Write the rows as Parquet, in place of what there is only when the new file is whole.

    Raises:
        OSError: the file cannot be written; what there was stays.
    """
    rows = rows.select(_SCHEMA.names)
    _replace(folder, rows.num_rows, lambda at: rows.slice(at.start, AT_ONCE).cast(_SCHEMA))


def _replace(folder: Path, count: int, part: Callable[[slice], pa.Table]) -> None:
    target = folder / REQUESTS_PARQUET
    partial = target.with_suffix(".partial")
    try:
        with pq.ParquetWriter(partial, _SCHEMA) as writer:
            for begin in range(0, max(1, count), AT_ONCE):
                writer.write_table(part(slice(begin, begin + AT_ONCE)))
        if pq.read_metadata(partial).num_rows != count:
            raise OSError(f"{partial}: not all rows were written")
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    os.replace(partial, target)


def _schema() -> pa.Schema:
    """The types on disk, with what pandas needs to give whole numbers back as such."""
    kinds = {pa.int64(): "Int64", pa.float64(): "float64", pa.bool_(): "bool"}
    empty = pd.DataFrame(
        {
            name: pd.Series([], dtype=object if pa.types.is_list(kind) else kinds.get(kind, "str"))
            for name, kind in ROW_TYPES.items()
        }
    )
    plain = pa.schema(
        pa.field(name, pa.string() if pa.types.is_dictionary(kind) else kind)
        for name, kind in ROW_TYPES.items()
    )
    metadata = pa.Schema.from_pandas(empty, preserve_index=False).metadata
    return plain.with_metadata({**metadata, SCHEMA_KEY: REQUESTS_SCHEMA.encode()})


_SCHEMA = _schema()


def read_parquet(path: Path, names: Sequence[str] = FIELD_NAMES) -> pa.Table:
    """Those of the named columns that the file has.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no Parquet file.
        RunFileError: it was written by a newer version.
    """
    # Not by way of data sets, whose modules alone are some 20 MB.
    with pq.ParquetFile(path) as file:
        return _read(file, path, names)


def _read(file: pq.ParquetFile, path: Path, names: Sequence[str]) -> pa.Table:
    schema = file.schema_arrow
    found = (schema.metadata or {}).get(SCHEMA_KEY)
    if found is not None:
        check_schema(found.decode("utf-8", "replace"), REQUESTS_SCHEMA, str(path))
    return file.read([name for name in names if name in schema.names], use_threads=False)
