"""What a search for a rate limit found out: the bracket of its steps, and its first sentence."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from metrics.limits_result import LimiterKind, LimitEstimate
from metrics.rate_bracket import LimitStep, RateBracket, limit_rps, limit_step, rate_bracket
from metrics.stage import Stage
from reports.attempts import for_search, limited
from reports.load import SavedRun
from reports.loads import load_name, plan_of
from reports.windows import held_windows

WHOLE_REQUESTS = 80
"""Of a step that was not cut short by the end of the search, at least."""
WHOLE_SHARE = 0.9
FITS = 0.1
"""How far outside the bracket a limit that the traffic explains may lie: clocks jitter."""
_PER_MINUTE = re.compile(r"/\s*(min|h)")
_NAMED = {"requests": "requests/min", "tokens": "tokens/min", "concurrency": "requests at once"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitAnswer:
    """What the steps of a search show together."""

    bracket: RateBracket
    steps: tuple[LimitStep, ...]
    of_tokens: bool
    """Rates are nominal tokens/s, else requests/s."""
    per_minute: bool
    """They were asked for by the minute or the hour."""
    below: tuple[int, int]
    """429s and all attempts of the step that is the lower end; nothing without one."""
    limit: LimitEstimate | None
    """The limit that explains the traffic, where it agrees with the bracket."""

    def sentence(self) -> str:
        """What the endpoint lets through, for people."""
        low, high = self.bracket.low, self.bracket.high
        if high is None:
            return self._no_limit()
        refused = f"refused from {self._text(high)} on"
        if low is not None:
            refused += f", {self._refused_below()} at {self._number(low)}"
        if self.limit is not None and self.limit.figure is not None:
            named = _NAMED[str(self.limit.kind.quantity)]
            counted = ""
            if named == "tokens/min":
                counted = " by its own count"
                refused = refused.replace(named, f"nominal {named}")
            return (
                f"The endpoint lets through {self.limit.figure:,.0f} {named}{counted}: {refused}."
            )
        if low is None:
            return (
                f"The endpoint lets through less than {self._text(high)}: {refused}, and no rate "
                "below that was seen to pass for long."
            )
        between = f"between {self._number(low)} and {self._text(high)}"
        return f"The endpoint lets through {between}: {refused}."

    def values(self) -> dict[str, Any]:
        """Plain values: rates per second in ``unit``."""
        return {
            **asdict(self.bracket),
            "unit": "tokens/s" if self.of_tokens else "requests/s",
            "narrow": self.bracket.narrow,
            "steps": [asdict(step) for step in self.steps],
            "sentence": self.sentence(),
        }

    def _no_limit(self) -> str:
        passed = [step.rate for step in self.steps if step.attempts]
        if not passed:
            return "No limit found: nothing was let through."
        return f"No limit found up to {self._text(max(passed))}: no step was refused for long."

    def _refused_below(self) -> str:
        refused, attempts = self.below
        return f"{refused:,} of {attempts:,}" if refused else "none"

    def _text(self, rate: float) -> str:
        if self.of_tokens:
            return load_name(0, None, rate)
        return f"{self._number(rate)} requests/min" if self.per_minute else load_name(0, rate)

    def _number(self, rate: float) -> str:
        if self.of_tokens or self.per_minute:
            return f"{60 * rate:,.0f}"
        return f"{float(f'{rate:.4g}'):g}"


def opening_sentences(answer: LimitAnswer | None, meta: Mapping[str, Any]) -> tuple[str, ...]:
    """What a search is answered with first of all, and why it ended before it knew more."""
    if answer is None:
        return ()
    why = str(meta.get("search_ended") or "").partition(": ")[2]
    ended = (f"The search ended before the limit was narrowed down: {why}.",) if why else ()
    return (answer.sentence(), *ended)


def limit_answer(
    run: SavedRun, rows: pd.DataFrame, found: Sequence[LimitEstimate]
) -> LimitAnswer | None:
    """The answer of a search from all its attempts; None when no step was begun."""
    plan = [stage for stage in plan_of(run).values() if stage.rate_rps]
    if not plan:
        return None
    steps = tuple(_step(run, rows, stage, last=stage is plan[-1]) for stage in plan)
    bracket = rate_bracket(steps)
    of_tokens = plan[-1].rate_tokens_per_s is not None
    settings: Mapping[str, Any] = run.meta.get("settings") or {}
    return LimitAnswer(
        bracket=bracket,
        steps=steps,
        of_tokens=of_tokens,
        per_minute=bool(_PER_MINUTE.search(str(settings.get("rate") or ""))),
        below=_below(rows, plan, steps, bracket.low),
        limit=_fitting(rows, found, bracket, plan[-1]),
    )


def _step(run: SavedRun, rows: pd.DataFrame, stage: Stage, last: bool) -> LimitStep:
    rate_rps = stage.rate_rps or 0.0
    own = for_search(rows[rows["stage"] == stage.id])
    whole = not last or _whole(run, stage.id, rate_rps)
    return limit_step(stage.rate_tokens_per_s or rate_rps, rate_rps, own, whole)


def _below(
    rows: pd.DataFrame, plan: Sequence[Stage], steps: Sequence[LimitStep], low: float | None
) -> tuple[int, int]:
    """Of the whole step, as the tables have it: the bracket leaves out how it began."""
    for stage, step in zip(plan, steps, strict=True):
        if not step.limited and step.passed_rate == low:
            own = rows[rows["stage"] == stage.id]
            return int(limited(own).sum()), len(own)
    return 0, 0


def _whole(run: SavedRun, stage: int, rate_rps: float) -> bool:
    """Whether the last step was held on: the search may have ended in its midst."""
    if run.meta.get("complete") and not run.meta.get("search_ended"):
        return True
    windows = held_windows(run.marks, run.records).get(stage, ())
    held_s = max((window.length_s for window in windows), default=0.0)
    return held_s >= WHOLE_SHARE * WHOLE_REQUESTS / rate_rps


def _fitting(
    rows: pd.DataFrame, found: Sequence[LimitEstimate], bracket: RateBracket, stage: Stage
) -> LimitEstimate | None:
    """The lowest of the limits found, unless it contradicts what the steps show."""
    if bracket.high is None:
        return None
    attempts = for_search(rows)
    rated = [
        (rps, one)
        for one in found
        if one.kind is not LimiterKind.OVERLOAD and (rps := limit_rps(one, attempts)) is not None
    ]
    if not rated:
        return None
    rps, limit = min(rated, key=lambda pair: pair[0])
    per_request = 1.0
    if stage.rate_tokens_per_s is not None and stage.rate_rps:
        per_request = stage.rate_tokens_per_s / stage.rate_rps
    fits = (1 - FITS) * (bracket.low or 0.0) <= rps * per_request <= (1 + FITS) * bracket.high
    return limit if fits else None
