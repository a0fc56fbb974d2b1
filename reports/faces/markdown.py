"""``summary.md``: what a reader of a pull request needs, and no more."""

from collections.abc import Iterator

from reports.answer import facts_of
from reports.loads import load_cell
from reports.model import RunReport, StageRow
from reports.stage_state import StageState, states_of
from reports.verdicts import VERDICT_WORDS
from reports.wording import markdown_text, number, time_ms

MOST_REASONS = 5
MOST_STAGES = 12
_COLUMNS = ("load", "ok", "failed", "TTFT p50", "p95", "TPOT p50", "tokens/s", "429s", "state")
_WORD_COLUMNS = {"load", "state"}


def summary_markdown(report: RunReport) -> str:
    """Verdict, answer, stage table and a link to the page, which lies in the same folder."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: RunReport) -> Iterator[str]:
    meta = report.meta
    yield f"### Load test: {VERDICT_WORDS[report.exit_code]}"
    yield ""
    for fact in facts_of(report):
        detail = f" ({markdown_text(fact.detail)})" if fact.detail else ""
        yield f"- **{markdown_text(fact.term)}:** {markdown_text(fact.value)}{detail}"
    model, url = (markdown_text(str(meta.get(name))) for name in ("model", "url"))
    yield f"- **Endpoint:** {model} at {url}"
    yield ""
    yield from _reasons(report)
    yield from _table(report)
    yield f"Run {markdown_text(str(meta.get('run_id')))}: [report.html](report.html)"


def _reasons(report: RunReport) -> Iterator[str]:
    for verdict in report.verdicts[:MOST_REASONS]:
        yield f"> **{verdict.code.name.replace('_', ' ')}:** {markdown_text(verdict.text)}"
        yield ">"
    if len(report.verdicts) > MOST_REASONS:
        yield f"> and {len(report.verdicts) - MOST_REASONS} more, in the report"
    if report.verdicts:
        yield ""


def _table(report: RunReport) -> Iterator[str]:
    if not report.stages:
        return
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"|{'|'.join('---' if name in _WORD_COLUMNS else '---:' for name in _COLUMNS)}|"
    states = states_of(report)
    for row in report.stages[:MOST_STAGES]:
        yield f"| {' | '.join(_cells(row, states[row.stage]))} |"
    yield ""
    if len(report.stages) > MOST_STAGES:
        yield f"{len(report.stages) - MOST_STAGES} further stages are in the report."
        yield ""


def _cells(row: StageRow, state: StageState) -> tuple[str, ...]:
    few = "" if "p95:few" not in row.ttft.flags else " (few samples)"
    return (
        load_cell(row.target_users, row.rate_rps, row.rate_tokens_per_s),
        f"{row.completed:,}",
        f"{row.failed:,}",
        time_ms(row.ttft.p50),
        time_ms(row.ttft.p95) + few,
        time_ms(row.tpot.p50),
        number(row.output_tokens_per_s, 0),
        f"{row.rate_limited_attempts:,}",
        state.value,
    )
