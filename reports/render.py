"""Writes every face of a run's report into its folder."""

import os
import sys
import traceback
from collections.abc import Callable
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
from reports.plots import draw_all
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
    faults.append(_attempt("plots", lambda: drawings.update(_plots(folder, report, run))))
    faults.append(
        _attempt("page", lambda: _write(folder / REPORT_HTML, page(report, run, drawings)))
    )
    if not quiet:
        print_report(report, out, folder)
    return 1 if any(faults) else int(report.exit_code)


def _keep_rows(folder: Path, run: SavedRun) -> None:
    # A run that still goes on, or was killed, may get more rows.
    if run.meta.get("ended_at"):
        keep_as_parquet(folder, run.records)


def _plots(folder: Path, report: RunReport, run: SavedRun) -> dict[str, str]:
    plots = folder / PLOTS_FOLDER
    plots.mkdir(exist_ok=True)
    return draw_all(report, run, plots)


def _attempt(what: str, write: Callable[[], None]) -> bool:
    try:
        write()
    except Exception:
        print(f"swarmgauge: the {what} could not be written:", file=sys.stderr)
        traceback.print_exc()
        return True
    return False


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="")
    os.replace(partial, path)
