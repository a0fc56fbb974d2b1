"""The command ``python -m reports compat``: a run as other tools would tell it."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reports.console import console_of
from reports.elsewhere import elsewhere_lines, kept_elsewhere
from reports.faces.compat import Figure, View, compat_values, held_stage, views_of, whole_run
from reports.load import load_run
from reports.model import ExitCode

_COLUMNS = ("figure", "unit", "n", "mean", "p50", "p95", "p99", "remarks")


def compat_command(words: Sequence[str]) -> int:
    """``compat``; 0 when the figures were printed, 4 when the records are not all there.

    Raises:
        RunFileError: the folder is not a run that can be read.
    """
    parser = argparse.ArgumentParser(
        prog="python -m reports compat",
        description="A run under the definitions of vLLM bench serve, GuideLLM and AIPerf, from "
        "the same records. docs/compatibility.md says where they differ.",
        epilog="example: python -m reports compat runs/20260102T030405Z-ladder --stage 3",
    )
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument(
        "--stage", type=int, help="only requests of this stage's held window, counted from 1"
    )
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    options = parser.parse_args(words)
    run = load_run(options.run)
    if kept := kept_elsewhere(run):
        print("\n".join(elsewhere_lines(run, kept)), file=sys.stderr)
        return int(ExitCode.INVALID)
    try:
        stretch = whole_run(run) if options.stage is None else held_stage(run, options.stage - 1)
    except ValueError as error:
        parser.error(f"--stage: {error}")
    if options.json:
        values = compat_values(run.meta.get("run_id"), stretch)
        print(json.dumps(values, allow_nan=False, indent=1))
        return int(ExitCode.OK)
    console = console_of(sys.stdout)
    console.print(Text(f"{run.folder.name}: {stretch.title}"))
    for view in views_of(stretch):
        _print_view(console, view)
    return int(ExitCode.OK)


def _print_view(console: Console, view: View) -> None:
    table = Table(
        box=None,
        pad_edge=False,
        title=f"as {view.tool} defines it",
        title_justify="left",
        title_style="bold",
    )
    for name in _COLUMNS:
        words = name in ("figure", "unit", "remarks")
        table.add_column(name, justify="left" if words else "right", no_wrap=name != "remarks")
    for figure in view.figures:
        table.add_row(*map(Text, _cells(figure)))
    console.print()
    console.print(table)
    for note in view.notes:
        console.print(Text(f"note: {note}"))


def _cells(figure: Figure) -> tuple[str, ...]:
    if figure.missing:
        return (figure.name, figure.unit, "", "", "", "", "", f"missing: {figure.missing}")
    values = figure.values
    return (
        figure.name,
        figure.unit,
        f"{figure.n:,}",
        _number(values.get("mean", values.get("value"))),
        *(_number(values[name]) if name in values else "" for name in ("p50", "p95", "p99")),
        figure.differs,
    )


def _number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
