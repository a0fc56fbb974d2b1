"""The report on a terminal, or as plain text in a log."""

from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reports.cost import COST_COLUMNS, cost_table
from reports.ledger_text import SHORT_COLUMNS, short_table
from reports.loads import load_cell
from reports.model import ExitCode, RunReport, StageRow
from reports.verdicts import validity_rows
from reports.wording import number, share, time_ms

PLAIN_WIDTH = 150
_STAGE_COLUMNS = (
    "held s",
    "offered",
    "sent",
    "completed",
    "TTFT p50",
    "p95",
    "p99",
    "TPOT p50",
    "tokens/s",
    "in flight",
    "429s",
    "failed",
    "queue share",
    "remarks",
)
_LABELS = {
    ExitCode.ERROR: "ERROR",
    ExitCode.INVALID: "INVALID",
    ExitCode.SLO_MISSED: "SLO MISSED",
}


def print_report(report: RunReport, out: TextIO, folder: Path) -> None:
    """The stage table, the answer, what speaks against it, and where the files are."""
    if isinstance(out, TextIOWrapper):
        out.reconfigure(errors="replace")  # the endpoint's words may be beyond the terminal's
    console = Console(file=out, highlight=False)
    if not console.is_terminal:
        console = Console(file=out, highlight=False, width=PLAIN_WIDTH, color_system=None)
    meta = report.meta
    console.print(Text(f"Swarmgauge: {meta.get('name')}, {meta.get('model')} at {meta.get('url')}"))
    console.print(_stage_table(report))
    if any({"p95:few", "p99:few"} & set(row.ttft.flags) for row in report.stages):
        console.print(Text("* fewer samples than it needs: 72 for a p95, 368 for a p99"))
    if report.totals.attempts != report.totals.sent or report.totals.cancelled:
        console.print(_table("ledger", SHORT_COLUMNS, short_table(report.ledger)))
    if report.cost is not None:
        console.print(_table("cost", COST_COLUMNS, cost_table(report.cost)))
    if report.failures:
        console.print(_failure_table(report))
    for sentence in report.headline:
        console.print(Text(sentence))
    for sentence in report.client_sentences:
        console.print(Text(f"client: {sentence}"))
    for notice in report.notices:
        console.print(Text(f"note: {notice}"))
    _print_validity(console, report)
    console.print(Text(f"report: {folder / 'report.html'}", no_wrap=True), soft_wrap=True)
    console.print(Text(f"figures: {folder / 'summary.json'}", no_wrap=True), soft_wrap=True)


def _print_validity(console: Console, report: RunReport) -> None:
    if report.validity:
        console.print(_validity_table(report))
    for verdict in report.verdicts:
        console.print(Text(f"{_LABELS[verdict.code]}: {verdict.text}", style="bold"))
    if not report.verdicts:
        console.print(Text("VALID: nothing speaks against these figures", style="bold"))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose first column and remarks are words, and all others figures."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for position, name in enumerate(columns):
        words = position == 0 or name in ("paid by", "remarks")
        table.add_column(name, justify="left" if words else "right")
    for cells in rows:
        table.add_row(*map(Text, cells))
    return table


def _stage_table(report: RunReport) -> Table:
    table = Table(box=None, pad_edge=False)
    load = "users" if all(row.rate_rps is None for row in report.stages) else "rate"
    for name in (load, *_STAGE_COLUMNS):
        table.add_column(name, justify="left" if name == "remarks" else "right")
    for row in report.stages:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    return table


def _cells(row: StageRow) -> tuple[str, ...]:
    users = load_cell(row.target_users, row.rate_rps, row.rate_tokens_per_s)
    if not row.reached and row.users_seen is not None:
        users = f"{row.users_seen}/{row.target_users}"
    return (
        users,
        number(row.window_s),
        str(row.offered),
        str(row.sent),
        str(row.completed),
        time_ms(row.ttft.p50),
        time_ms(row.ttft.p95) + ("*" if "p95:few" in row.ttft.flags else ""),
        time_ms(row.ttft.p99) + ("*" if "p99:few" in row.ttft.flags else ""),
        time_ms(row.tpot.p50),
        number(row.output_tokens_per_s, 0),
        number(row.in_flight),
        str(row.rate_limited_attempts),
        f"{row.failed} ({share(row.failed, row.offered)})" if row.failed else "0",
        "n/a" if row.queue_share is None else f"{row.queue_share:.0%}",
        ", ".join(row.remarks),
    )


def _validity_table(report: RunReport) -> Table:
    table = Table(box=None, pad_edge=False, title="validity", title_justify="left")
    for name in ("rule", "severity", "stage", "evidence", "advice"):
        table.add_column(name)
    for row in validity_rows(report.validity):
        cells = (row.rule, row.severity.value, row.stages, row.evidence, row.advice)
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _failure_table(report: RunReport) -> Table:
    table = Table(box=None, pad_edge=False, title="failures", title_justify="left")
    for name in ("outcome", "status", "code", "count", "p50", "p99", "for example"):
        table.add_column(name, justify="right" if name in ("count", "p50", "p99") else "left")
    for row in report.failures:
        cells = (
            row.outcome,
            "" if row.status is None else str(row.status),
            row.error_code or "",
            str(row.count),
            time_ms(row.latency.p50),
            time_ms(row.latency.p99),
            row.sample or "",
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table
