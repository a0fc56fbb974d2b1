"""The report on a terminal, or as plain text in a log: the answer first, then what it rests on."""

from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.text import Text

from reports.console import console_of
from reports.cost import COST_COLUMNS, cost_table
from reports.faces.terminal_tables import (
    failure_table,
    plain_table,
    shown,
    stage_table,
    validity_table,
)
from reports.ledger_text import SHORT_COLUMNS, short_table
from reports.model import ExitCode, RunReport

_LABELS = {
    ExitCode.ERROR: "ERROR",
    ExitCode.INVALID: "INVALID",
    ExitCode.SLO_MISSED: "SLO MISSED",
}
_STYLES = {
    ExitCode.ERROR: "bold red",
    ExitCode.INVALID: "bold red",
    ExitCode.SLO_MISSED: "bold yellow",
}


def print_report(report: RunReport, out: TextIO, folder: Path) -> None:
    """The answer, the tables, what speaks against it, and where the files are.

    Colours only where ``out`` is a terminal and ``NO_COLOR`` is not set; every verdict is a word.
    """
    console = console_of(out)
    meta = report.meta
    console.print(
        shown(f"Swarmgauge: {meta.get('name')}, {meta.get('model')} at {meta.get('url')}")
    )
    _print_verdict(console, report)
    for sentence in report.headline:
        console.print(shown(sentence))
    _print_tables(console, report)
    for sentence in report.client_sentences:
        console.print(shown(f"client: {sentence}"))
    for notice in report.notices:
        console.print(shown(f"note: {notice}"))
    if report.validity:
        console.print(validity_table(report))
    for verdict in report.verdicts:
        reason = shown(f"{_LABELS[verdict.code]}: {verdict.text}")
        console.print(reason, style=_STYLES[verdict.code])
    console.print(Text(f"report: {folder / 'report.html'}", no_wrap=True), soft_wrap=True)
    console.print(Text(f"figures: {folder / 'summary.json'}", no_wrap=True), soft_wrap=True)


def _print_verdict(console: Console, report: RunReport) -> None:
    """One line; the reasons are all told at the end, where a terminal leaves its reader."""
    worst = report.exit_code
    if worst is ExitCode.OK:
        console.print(Text("VALID: nothing speaks against these figures", "bold green"))
        return
    reasons = len(report.verdicts)
    text = f"{_LABELS[worst]}: {reasons} reason{'' if reasons == 1 else 's'}, told below"
    console.print(Text(text, _STYLES[worst]))


def _print_tables(console: Console, report: RunReport) -> None:
    table, hidden = stage_table(console, report)
    console.print(table)
    if hidden:
        text = f"left out for this width of {console.width}: {', '.join(hidden)}"
        console.print(Text(text))
    if any({"p95:few", "p99:few"} & set(row.ttft.flags) for row in report.stages):
        console.print(Text("* fewer samples than it needs: 72 for a p95, 368 for a p99"))
    if report.totals.attempts != report.totals.sent or report.totals.cancelled:
        console.print(plain_table("ledger", SHORT_COLUMNS, short_table(report.ledger)))
    if report.cost is not None:
        console.print(plain_table("cost", COST_COLUMNS, cost_table(report.cost)))
    if report.failures:
        console.print(failure_table(report))
