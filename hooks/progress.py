"""The line that tells how far a headless run is; pure, from the figures of the live view."""

from dataclasses import dataclass

from hooks.live.points import Point
from metrics.stage import Phase
from metrics.statistics import samples_needed
from shapes.plan import Directive

_DOING = {
    Phase.IDLE: "waiting idle",
    Phase.RAMP: "changing users",
    Phase.SETTLE: "settling",
    Phase.HOLD: "measuring",
    Phase.DRAIN: "draining",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressFigures:
    """What a line is made of; None where a figure is not known."""

    directive: Directive | None
    """What the plan wants now; None before its first word."""
    stages: int | None
    """How many there will be; None for a search."""
    users: int
    in_flight: int | None
    recent: Point | None
    """The last seconds."""
    ok: int
    failed: int
    rate_limited: int
    """Attempts answered 429, of the whole run."""
    elapsed_s: float
    expected_s: float | None
    """How long the plan takes; None for a search."""


def progress_text(seen: ProgressFigures) -> str:
    """One line without an end; what is not known is left out, the most telling comes first."""
    parts = [
        _stage(seen),
        _load(seen),
        _ttft(seen.recent),
        _tokens(seen.recent),
        f"{seen.rate_limited:,} x 429",
        f"{seen.failed:,} failed",
        f"{seen.ok:,} ok",
        None if seen.in_flight is None else f"{seen.in_flight:,} in flight",
        _time(seen),
    ]
    return ", ".join(part for part in parts if part)


def _stage(seen: ProgressFigures) -> str:
    directive = seen.directive
    if directive is None:
        return "starting"
    if directive.phase is Phase.DRAIN or directive.stage.kind == "cold":
        return "cold start" if directive.stage.kind == "cold" else _DOING[Phase.DRAIN]
    of_stages = "" if seen.stages is None else f"/{seen.stages}"
    return f"stage {directive.stage.id + 1}{of_stages} {_DOING[directive.phase]}"


def _load(seen: ProgressFigures) -> str:
    if seen.directive is not None and seen.directive.stage.rate_rps is not None:
        return seen.directive.stage.load
    return f"{seen.users} user{'' if seen.users == 1 else 's'}"


def _ttft(recent: Point | None) -> str | None:
    """TTFT p95 of held successes; ``*`` where it has fewer samples than a p95 needs."""
    ttft_s = recent.percentile("ttft_s", 0.95) if recent is not None else None
    if recent is None or ttft_s is None:
        return None
    few = "*" if recent.histograms["ttft_s"].n < samples_needed(0.95) else ""
    return f"TTFT p95 {1000 * ttft_s:,.0f} ms{few}"


def _tokens(recent: Point | None) -> str | None:
    if recent is None or recent.length_s <= 0:
        return None
    if recent.ok and not recent.tokens:
        return "tokens not told"  # an endpoint without usage: that is not 0
    return f"{recent.tokens / recent.length_s:,.0f} tokens/s"


def _time(seen: ProgressFigures) -> str:
    if seen.expected_s is None:
        return f"{duration(seen.elapsed_s)} so far"
    left_s = seen.expected_s - seen.elapsed_s
    return f"about {duration(left_s)} left" if left_s >= 1 else "about to end"


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes and seconds: 0:05, 12:30, 1:02:03."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    start = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{start}:{whole % 60:02}"
