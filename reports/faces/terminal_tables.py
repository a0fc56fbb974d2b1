"""The tables of the terminal's report; a narrow terminal gets fewer columns, never broken ones."""

import re
from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from reports.loads import load_cell
from reports.model import RunReport, StageRow
from reports.verdicts import validity_rows
from reports.wording import number, share, time_ms

STAGE_COLUMNS = (
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
FIRST_TO_GO = (
    "sent",
    "held s",
    "offered",
    "in flight",
    "p99",
    "remarks",
    "TPOT p50",
    "completed",
    "429s",
    "TTFT p50",
    "queue share",
)
"""The order in which columns are left out until the table fits."""
REMARK_CHARS = 16
"""A column of longer remarks is not narrower."""
_GAP_CHARS = 2
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What moves the cursor, colours the screen or turns text round; a server's words may have it."""


def shown(text: object) -> Text:
    """One line of text that a terminal shows and does not obey."""
    return Text(_CONTROL.sub("\ufffd", str(text)))


def plain_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table whose first column and remarks are words, and all others figures."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for position, name in enumerate(columns):
        words = position == 0 or name in ("paid by", "remarks")
        table.add_column(name, justify="left" if words else "right")
    for cells in rows:
        table.add_row(*map(shown, cells))
    return table


def stage_table(console: Console, report: RunReport) -> tuple[Table, tuple[str, ...]]:
    """The table of stages, and the columns that were left out because they do not fit."""
    hidden: list[str] = []
    for name in FIRST_TO_GO:
        if _width(console, report, hidden) <= console.width:
            break
        hidden.append(name)
    return _stages(report, hidden), tuple(hidden)


def _width(console: Console, report: RunReport, hidden: Sequence[str]) -> int:
    """The characters that the table needs: remarks are prose and may wrap, figures may not."""
    figures = _stages(report, [*hidden, "remarks"])
    wide = console.options.update(width=10_000)
    spare = 0
    if "remarks" not in hidden:
        longest = max((len(", ".join(row.remarks)) for row in report.stages), default=0)
        spare = _GAP_CHARS + max(len("remarks"), min(REMARK_CHARS, longest))
    return Measurement.get(console, wide, figures).maximum + spare


def _stages(report: RunReport, hidden: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    load = "users" if all(row.rate_rps is None for row in report.stages) else "rate"
    names = [name for name in STAGE_COLUMNS if name not in hidden]
    for name in (load, *names):
        table.add_column(name, justify="left" if name == "remarks" else "right")
    for row in report.stages:
        first, *others = _cells(row)
        cells = dict(zip(STAGE_COLUMNS, others, strict=True))
        table.add_row(shown(first), *(shown(cells[name]) for name in names))
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


def validity_table(report: RunReport) -> Table:
    """Every finding with its evidence and advice."""
    table = Table(box=None, pad_edge=False, title="validity", title_justify="left")
    for name in ("rule", "severity", "stage", "evidence", "advice"):
        table.add_column(name)
    for row in validity_rows(report.validity):
        cells = (row.rule, row.severity.value, row.stages, row.evidence, row.advice)
        table.add_row(*(shown(cell) for cell in cells))
    return table


def failure_table(report: RunReport) -> Table:
    """Failures by kind, with how long they took and one example each."""
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
        table.add_row(*(shown(cell) for cell in cells))
    return table
