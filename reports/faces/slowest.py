"""``python -m reports slowest RUN``: the slowest requests, with the names that gateways log."""

import argparse
import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from metrics.run_files import REQUESTS_PARQUET
from metrics.trace_context import trace_id
from reports.elsewhere import elsewhere_lines, kept_elsewhere
from reports.faces.stage_csv import cell
from reports.load import SavedRun, load_run
from reports.model import ExitCode
from reports.parquet import read_parquet

BY = ("ttft_s", "user_ttft_s", "e2e_latency_s", "user_latency_s", "tpot_s", "max_gap_s")
_MEASURED = (
    *("stage", "phase", "outcome", "status", "attempts"),
    *("ttft_s", "e2e_latency_s", "user_latency_s", "completion_tokens"),
)
_KEY = ["worker", "sequence"]
_NAMES = ["started_at", "served_by", "request_id"]
"""No figure is read from these, so that a loaded run is without them."""


def slowest(run: SavedRun, by: str, most: int) -> pd.DataFrame:
    """The ``most`` requests with the greatest ``by``, one of ``BY``, the slowest first.

    ``run`` was loaded with its whole rows. Requests that were never sent are left out.
    ``trace_id`` is the one of their ``traceparent``, and is missing where none was sent.

    Raises:
        RunFileError: the rows cannot be read.
    """
    records = run.records
    sent = records[records[by].notna() & (records["attempts"] > 0)]
    found = sent.sort_values(by, ascending=False, kind="stable").head(most)
    measured = found[[*_KEY, *dict.fromkeys((*_MEASURED, by))]]
    told = measured.merge(_names(run), on=_KEY, how="left")
    ids = [trace_id(name) if pd.notna(name) else None for name in told["request_id"]]
    told["trace_id"] = ids if _traced(run.meta) else None
    return told[["started_at", *(n for n in told.columns if n != "started_at")]]


def _traced(meta: Mapping[str, Any]) -> bool:
    """Whether requests bore a ``traceparent`` of ours; runs of before it did not."""
    settings = meta.get("settings") or {}
    given = {str(name).lower() for name in settings.get("header") or ()}
    return settings.get("traceparent", "off") != "off" and "traceparent" not in given


def _names(run: SavedRun) -> pd.DataFrame:
    wanted = [*_KEY, *_NAMES]
    if run.unread is not None:
        names = run.unread.select(["served_by", "request_id"]).to_pandas()
        return run.records[[*_KEY, "started_at"]].join(names)
    table = read_parquet(run.folder / REQUESTS_PARQUET, wanted)
    here = table.select([name for name in wanted if name in table.column_names])
    return here.to_pandas().reindex(columns=wanted).astype({"sequence": "Int64"})


def slowest_command(words: list[str], out: TextIO | None = None) -> int:
    """The command line; CSV, because it is made to be joined with other logs.

    Raises:
        RunFileError: the folder holds no run.
    """
    parser = argparse.ArgumentParser(
        prog="python -m reports slowest",
        description="The slowest requests of a saved run as CSV, with the X-Request-Id and the "
        "trace id under which gateways and servers logged them (docs/observability.md).",
    )
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--by", choices=BY, default="ttft_s", help="what slow means (ttft_s)")
    parser.add_argument("--most", type=_count, default=20, help="how many (20)")
    options = parser.parse_args(words)
    run = load_run(options.run, whole_rows=True)
    if kept := kept_elsewhere(run):
        print("\n".join(elsewhere_lines(run, kept)), file=sys.stderr)
        return int(ExitCode.INVALID)
    table = slowest(run, options.by, options.most)
    lines = csv.writer(out or sys.stdout, lineterminator="\n")
    lines.writerow(table.columns)
    lines.writerows(
        [cell(None if pd.isna(value) else _plain(value)) for value in row]
        for row in table.itertuples(index=False)
    )
    return int(ExitCode.OK)


def _plain(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write a whole number from 1 on")
    return number
