"""``report.html``: one file, nothing fetched from anywhere, every text escaped."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import wording
from reports.cost import COST_COLUMNS, cost_table
from reports.ledger_text import LEDGER_COLUMNS, ledger_table
from reports.limits_text import (
    FOUND_COLUMNS,
    LOAD_COLUMNS,
    found_table,
    limit_sentences,
    load_table,
)
from reports.load import SavedRun
from reports.loads import load_cell
from reports.model import RunReport
from reports.plots import title_of
from reports.rate_limits import RateLimits
from reports.verdicts import validity_rows

_TEMPLATES = Path(__file__).resolve().parent / "templates"

DEFINITIONS = {
    "offered": "requests that users wanted in the held window; sent: those that can have reached "
    "the server; completed: those that succeeded",
    "TTFT": "first chunk with generated output (text, reasoning, tool call) after the send; "
    "role chunks, comments and usage do not count",
    "TPOT": "(last output − first output) / (completion tokens − 1), one value for each request",
    "tokens/s": "completion tokens of successes, credited to the window by the time they arrived",
    "in flight": "requests sent and not ended, as a time-weighted mean",
    "queue share": "share of each request's cycle spent waiting for its first token beyond what "
    "it waits at low load; the knee is users × (1 − queue share)",
    "429s": "attempts that were answered 429",
    "late": "event loop: how much later than asked a sleeper of 20 ms woke up; first token: how "
    "long after the kernel had it the client read it",
    "GC": "pauses in which Python's garbage collector stops a whole worker",
    "merged reads": "reads that held several output chunks: their chunks bear the last one's time",
    "*": "fewer samples than the percentile needs (p95 72, p99 368, p99.9 3,688)",
}


def page(report: RunReport, run: SavedRun, drawings: Mapping[str, str]) -> str:
    """The page, complete. ``drawings`` are SVG texts by the plot's name, made by us."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ms=wording.time_ms,
        number=wording.number,
        percent=_percent,
        fine_percent=_fine_percent,
        text=_text,
    )
    template = environment.get_template("report.html.j2")
    return template.render(
        report=report,
        meta=report.meta,
        plots=[(title_of(name, report), Markup(svg)) for name, svg in drawings.items()],
        definitions=DEFINITIONS,
        share=wording.share,
        load_cell=load_cell,
        label=_label(report),
        validity=validity_rows(report.validity),
        cost_columns=COST_COLUMNS,
        cost_rows=cost_table(report.cost),
        ledger_columns=LEDGER_COLUMNS,
        ledger_rows=ledger_table(report.ledger),
        ledger_faults=report.ledger.faults,
        **_limits(report.rate_limits),
    )


def _limits(limits: RateLimits | None) -> dict[str, Any]:
    return {
        "limits_sentences": limit_sentences(limits) if limits else (),
        "limits_load_columns": LOAD_COLUMNS,
        "limits_loads": load_table(limits) if limits else (),
        "limits_found_columns": FOUND_COLUMNS,
        "limits_found": found_table(limits) if limits else (),
        "limits_clock_note": limits.clock_note if limits else None,
    }


def _label(report: RunReport) -> str:
    if not report.verdicts:
        return "VALID"
    names = {"ERROR": "FAILED", "INVALID": "INVALID", "SLO_MISSED": "OBJECTIVE MISSED"}
    return names[report.exit_code.name]


def _percent(value: float | None) -> str:
    return wording.MISSING if value is None else f"{value:.1%}"


def _fine_percent(value: float | None) -> str:
    return wording.MISSING if value is None else f"{value:.3%}"


def _text(value: object) -> str:
    """Settings as they are shown: lists joined, nothing for None."""
    if value is None or value == "":
        return "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "–"
    return str(value)
