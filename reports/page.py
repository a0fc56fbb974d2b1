"""``report.html``: one file, nothing fetched from anywhere, every text escaped."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import wording
from reports.answer import facts_of
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
from reports.plot_style import css_variables
from reports.plots import PLOTS, missing_plots
from reports.rate_limits import RateLimits
from reports.repeat import command_line, command_notes
from reports.stage_state import MEANING, StageState, states_of
from reports.verdicts import VERDICT_WORDS, validity_rows

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufdd0-\ufdef\ufffe\uffff]"
)
"""Characters that no page may hold, or that turn the text after them round; a server's message may
have them."""
MARKS: Mapping[StageState, str] = {
    StageState.USABLE: "●",
    StageState.VOID: "✕",
    StageState.NOT_REACHED: "✕",
    StageState.CLIENT_LIMITED: "▼",
    StageState.RATE_LIMITED: "◆",
}
"""The shapes that the plots mark the states with."""

DEFINITIONS = {
    "offered": "requests that users wanted in the held window; sent: those that can have reached "
    "the server; completed: those that succeeded",
    "TTFT": "time to first token: first chunk with generated output (text, reasoning, tool call) "
    "after the send; role chunks, comments and usage do not count",
    "TPOT": "time per output token: (last output − first output) / (completion tokens − 1), one "
    "value for each request",
    "gap": "time between two output chunks, of all streams that were read chunk by chunk together",
    "ttfa_s": "time to the first visible text, which reasoning and tool calls are not",
    "user_ttft_s, user_latency_s": "the same, from when the user wanted the answer; client_wait_s: "
    "from then to the send, less connecting",
    "E2E": "end-to-end latency: last output after the send; the body's end when not streamed",
    "tokens/s": "completion tokens of successes, credited to the window by the time they arrived; "
    "per user: the same for each user",
    "goodput": "requests/s that were completed within every objective; n/a without objectives",
    "in flight": "requests sent and not ended, as a time-weighted mean",
    "knee": "the number of concurrent streams from which on requests queue",
    "queue share": "share of each request's cycle spent waiting for its first token beyond what "
    "it waits at low load; the knee is users × (1 − queue share)",
    "429s": "attempts that were answered 429",
    **{f"state: {state.value}": meaning for state, meaning in MEANING.items()},
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
        moment=wording.moment,
        number=wording.number,
        percent=_percent,
        fine_percent=_fine_percent,
        text=_text,
        capitalised=lambda text: text[:1].upper() + text[1:],
    )
    template = environment.get_template("report.html.j2")
    text = template.render(
        report=report,
        meta=report.meta,
        facts=facts_of(report),
        plots=[
            (PLOTS[name].title(report), PLOTS[name].sentence(report, run), Markup(svg))
            for name, svg in drawings.items()
        ],
        not_drawn=missing_plots(report, run),
        plot_colours=Markup(css_variables()),
        states=states_of(report),
        marks=MARKS,
        definitions=DEFINITIONS,
        share=wording.share,
        load_cell=load_cell,
        label=VERDICT_WORDS[report.exit_code],
        validity=validity_rows(report.validity),
        command=command_line(report.meta),
        command_notes=tuple(command_notes(report.meta)),
        cost_columns=COST_COLUMNS,
        cost_rows=cost_table(report.cost),
        ledger_columns=LEDGER_COLUMNS,
        ledger_rows=ledger_table(report.ledger),
        ledger_faults=report.ledger.faults,
        **_limits(report.rate_limits),
    )
    return _FORBIDDEN.sub("\ufffd", text)


def _limits(limits: RateLimits | None) -> dict[str, Any]:
    return {
        "limits_sentences": limit_sentences(limits) if limits else (),
        "limits_load_columns": LOAD_COLUMNS,
        "limits_loads": load_table(limits) if limits else (),
        "limits_found_columns": FOUND_COLUMNS,
        "limits_found": found_table(limits) if limits else (),
        "limits_clock_note": limits.clock_note if limits else None,
    }


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
