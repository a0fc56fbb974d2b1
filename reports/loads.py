"""The load that a stage asked for, as a number and in words, in the unit it was asked for in."""

from collections.abc import Iterable, Mapping

from metrics.run_files import stage_from_wire
from metrics.stage import Stage, load_text
from reports.load import SavedRun
from reports.model import StageRow

DIGITS = 4
"""Of a rate that a search has found: more say nothing."""


def plan_of(run: SavedRun) -> Mapping[int, Stage]:
    """The stages of the plan by their numbers; none where the run did not save it."""
    return {stage.id: stage for stage in map(stage_from_wire, run.meta.get("stage_plan") or ())}


def rates_of(plan: Mapping[int, Stage], stage: int) -> tuple[float | None, float | None]:
    """A stage's requests/s and nominal tokens/s; None where it has none."""
    found = plan.get(stage)
    return (None, None) if found is None else (found.rate_rps, found.rate_tokens_per_s)


def load_name(users: int, rate_rps: float | None, tokens_per_s: float | None = None) -> str:
    """``4 users``, ``2.5 requests/s`` or ``6,000 tokens/min``."""
    return load_text(users, None if rate_rps is None else _short(rate_rps), tokens_per_s)


def load_words(stage: Stage | StageRow) -> str:
    """What a stage asked for, in words."""
    return load_name(stage.target_users, stage.rate_rps, stage.rate_tokens_per_s)


def load_cell(users: int, rate_rps: float | None, tokens_per_s: float | None) -> str:
    """The same for a narrow column: ``4``, ``2.5/s`` or ``6,000 tokens/min``."""
    if tokens_per_s is not None or rate_rps is None:
        return str(users) if rate_rps is None else load_name(users, rate_rps, tokens_per_s)
    return f"{_short(rate_rps):g}/s"


def load_size(users: int, rate_rps: float | None, tokens_per_s: float | None = None) -> float:
    """Users, requests/s or tokens/min, as a number."""
    if tokens_per_s is not None:
        return 60 * tokens_per_s
    return users if rate_rps is None else _short(rate_rps)


def load_mark(users: int, rate_rps: float | None, tokens_per_s: float | None) -> str:
    """The number alone, to be written into a plot whose axis has the unit."""
    size = load_size(users, rate_rps, tokens_per_s)
    return f"{size:g}" if tokens_per_s is None else f"{size:,.0f}"


def mark_text(stage: Stage) -> str:
    """The number of a stage that a plot marks."""
    return load_mark(stage.target_users, stage.rate_rps, stage.rate_tokens_per_s)


def axis_name(rates: Iterable[tuple[float | None, float | None]]) -> str:
    """What an axis of loads is called, by each stage's requests/s and tokens/s."""
    known = list(rates)
    if any(tokens_per_s is not None for _, tokens_per_s in known):
        return "offered rate (tokens/min)"
    if any(rate_rps is not None for rate_rps, _ in known):
        return "offered rate (requests/s)"
    return "concurrent users"


def _short(rate: float) -> float:
    return float(f"{rate:.{DIGITS}g}")
