"""Writes every face of a run's report into its folder."""

import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

from metrics.run_files import (
    JUNIT_XML,
    METRICS_PROM,
    PLOTS_FOLDER,
    REPORT_HTML,
    REQUESTS_JSONL,
    REQUESTS_PARQUET,
    SUMMARY_CSV,
    SUMMARY_JSON,
    SUMMARY_MD,
)
from reports.analyse import analyse
from reports.elsewhere import elsewhere_lines, kept_elsewhere
from reports.faces.junit import junit
from reports.faces.markdown import summary_markdown
from reports.faces.open_metrics import open_metrics
from reports.faces.progress import Progress
from reports.faces.stage_csv import summary_csv
from reports.faces.summary import summary_json
from reports.faces.terminal import print_report
from reports.load import SavedRun, load_run
from reports.memory import give_back
from reports.model import ExitCode, RunReport
from reports.page import page
from reports.parquet import keep_as_parquet
from reports.plots import PLOTS, draw
from reports.whole_files import write_whole

LONG_ROWS_BYTES = 50e6
"""Reading more of them takes seconds, which is told before it begins."""
TEXTS: Mapping[str, Callable[[RunReport], str]] = {
    SUMMARY_JSON: summary_json,
    SUMMARY_CSV: summary_csv,
    SUMMARY_MD: summary_markdown,
    JUNIT_XML: junit,
    METRICS_PROM: open_metrics,
}
"""The faces that are a text of the report alone."""


def render_run(folder: Path, out: TextIO, slo: str | None = None, quiet: bool = False) -> int:
    """Render everything anew; the exit code of the run's verdicts.

    The figures are written first and the page last, and what cannot be written is said and does
    not keep the rest from being written.

    Raises:
        RunFileError: the folder is not a run that can be read.
        ValueError: ``slo`` cannot be read.
    """
    with Progress(sys.stderr, len(PLOTS) + 4, quiet) as progress:
        progress.step("reading the rows", long=_rows_bytes(folder) > LONG_ROWS_BYTES)
        run = load_run(folder, whole_rows=True)
        if kept := kept_elsewhere(run):
            if not quiet:
                print("\n".join(elsewhere_lines(run, kept)), file=out)
            return int(ExitCode.INVALID)
        progress.step("rows")
        failed = _attempt("rows", lambda: _keep_rows(folder, run))
        run = replace(run, unread=None)
        progress.step("figures")
        report = analyse(run, slo)
        give_back()
        failed |= _write_all(folder, run, report, progress)
    if not quiet:
        failed |= _attempt("table", lambda: print_report(report, out, folder))
    if failed and not quiet:
        again = f"python -m reports {folder}"
        print(f"not all of it could be written; with room for it, run: {again}", file=out)
    return int(ExitCode.ERROR) if failed else int(report.exit_code)


def _write_all(folder: Path, run: SavedRun, report: RunReport, progress: Progress) -> bool:
    """Whether anything could not be written."""
    faults = [
        _attempt(name, partial(_write_face, folder / name, face, report))
        for name, face in TEXTS.items()
    ]
    drawings: dict[str, str] = {}
    for name in PLOTS:
        progress.step(f"plot {name}")
        if PLOTS[name].missing(report, run) is None:
            faults.append(
                _attempt(f"plot {name}", partial(_plot, name, folder, report, run, drawings))
            )
    progress.step("page")
    faults.append(
        _attempt("page", lambda: write_whole(folder / REPORT_HTML, page(report, run, drawings)))
    )
    return any(faults)


def _rows_bytes(folder: Path) -> int:
    files = (folder / REQUESTS_PARQUET, folder / REQUESTS_JSONL)
    return sum(path.stat().st_size for path in files if path.exists())


def _write_face(path: Path, face: Callable[[RunReport], str], report: RunReport) -> None:
    write_whole(path, face(report))


def _keep_rows(folder: Path, run: SavedRun) -> None:
    # A run that still goes on, or was killed, may get more rows.
    if run.unread is not None and run.meta.get("ended_at"):
        keep_as_parquet(folder, run.records, run.unread)


def _plot(
    name: str, folder: Path, report: RunReport, run: SavedRun, drawings: dict[str, str]
) -> None:
    plots = folder / PLOTS_FOLDER
    plots.mkdir(exist_ok=True)
    drawings[name] = draw(name, report, run, plots)


def _attempt(what: str, write: Callable[[], None]) -> bool:
    try:
        write()
    except OSError as error:
        print(f"swarmgauge: the {what} could not be written: {error}", file=sys.stderr)
        return True
    except Exception:
        print(f"swarmgauge: the {what} could not be written:", file=sys.stderr)
        traceback.print_exc()
        return True
    return False
