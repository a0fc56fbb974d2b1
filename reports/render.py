"""Writes every face of a run's report into its folder."""

import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TextIO

from metrics.run_files import (
    PLOTS_FOLDER,
    REPORT_HTML,
    SUMMARY_CSV,
    SUMMARY_JSON,
)
from reports.analyse import analyse
from reports.load import SavedRun, load_run
from reports.model import RunReport
from reports.page import page
from reports.parquet import keep_as_parquet
from reports.plot_limits import LIMIT_PLOTS
from reports.plots import PLOTS, draw
from reports.summary import summary_csv, summary_json
from reports.terminal import print_report


def render_run(folder: Path, out: TextIO, slo: str | None = None, quiet: bool = False) -> int:
    """Render everything anew; the exit code of the run's verdicts.

    The figures are written first and the page last, and what cannot be written is said and does
    not keep the rest from being written.

    Raises:
        RunFileError: the folder is not a run that can be read.
        ValueError: ``slo`` cannot be read.
    """
    run = load_run(folder)
    report = analyse(run, slo)
    faults = [
        _attempt("figures", lambda: _write(folder / SUMMARY_JSON, summary_json(report))),
        _attempt("figures", lambda: _write(folder / SUMMARY_CSV, summary_csv(report))),
        _attempt("rows", lambda: _keep_rows(folder, run)),
    ]
    drawings: dict[str, str] = {}
    for name in PLOTS:
        if name in LIMIT_PLOTS and report.rate_limits is None:
            continue
        faults.append(_attempt(f"plot {name}", partial(_plot, name, folder, report, run, drawings)))
    faults.append(
        _attempt("page", lambda: _write(folder / REPORT_HTML, page(report, run, drawings)))
    )
    if not quiet:
        faults.append(_attempt("table", lambda: print_report(report, out, folder)))
    return 1 if any(faults) else int(report.exit_code)


def _keep_rows(folder: Path, run: SavedRun) -> None:
    # A run that still goes on, or was killed, may get more rows.
    if run.meta.get("ended_at"):
        keep_as_parquet(folder, run.records)


def _plot(
    name: str, folder: Path, report: RunReport, run: SavedRun, drawings: dict[str, str]
) -> None:
    plots = folder / PLOTS_FOLDER
    plots.mkdir(exist_ok=True)
    drawings[name] = draw(name, report, run, plots)


def _attempt(what: str, write: Callable[[], None]) -> bool:
    try:
        write()
    except Exception:
        print(f"swarmgauge: the {what} could not be written:", file=sys.stderr)
        traceback.print_exc()
        return True
    return False


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(path.name + ".partial")
    # A name from a server may hold half a surrogate pair, which UTF-8 cannot say.
    unfinished.write_bytes(text.encode("utf-8", "replace"))
    os.replace(unfinished, path)
