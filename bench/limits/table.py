"""What the search for limits said of each generated limiter, as tables."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.limits.kinds import LOOPS, Kind, World
from bench.limits.others import Other
from metrics.limits import limits_found
from metrics.limits_attempts import Attempts
from metrics.limits_result import LimiterKind, LimitEstimate

ENOUGH_REFUSED = 20
"""429s, in as many runs of them as below, from which a run is evidence enough."""
ENOUGH_RUNS = 3
RIGHT = 0.1


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of one run."""

    seed: int
    enough: bool
    figure: float | None
    quantity_right: bool
    off: float | None
    """Relative difference from the true figure."""
    covered: bool
    """The true figure is in the interval, within half a percent."""
    evidence: str

    @property
    def right(self) -> bool:
        """The right quantity, and within a tenth of the figure."""
        return self.quantity_right and self.off is not None and self.off <= RIGHT


def judged(world: World, attempts: Attempts, seed: int) -> Said:
    """Hold the estimate of one run against the truth."""
    estimate: LimitEstimate = limits_found(attempts)[0]
    figure, off, covered = estimate.figure, None, False
    if figure is not None:
        off = abs(figure - world.figure) / world.figure
        low, high = estimate.low or 0.0, estimate.high or np.inf
        covered = 0.995 * low <= world.figure <= 1.005 * high
    quantity_right = estimate.kind.quantity == world.quantity
    return Said(seed, enough(attempts), figure, quantity_right, off, covered, estimate.evidence)


def enough(attempts: Attempts) -> bool:
    """Whether the limit was met often enough to be told."""
    order = np.argsort(attempts.sent_s)
    limited = attempts.limited[order]
    runs = int((limited[1:] & ~limited[:-1]).sum()) + int(limited[0])
    return int(limited.sum()) >= ENOUGH_REFUSED and runs >= ENOUGH_RUNS


def kinds_table(rows: Sequence[tuple[Kind, Sequence[Said]]]) -> str:
    """One line per limiter and traffic, and the bars below."""
    lines = [
        "| limiter | traffic | runs | says a figure | right quantity | within 10 % "
        "| median error | in the interval | unknown |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, said in rows:
        figures = [one for one in said if one.figure is not None]
        offs = [one.off for one in figures if one.off is not None]
        median = f"{100 * float(np.median(offs)):.2f} %" if offs else ""
        lines.append(
            f"| {kind.name} | {LOOPS[kind.loop]} | {len(said)} | {len(figures)} "
            f"| {sum(one.quantity_right for one in figures)} | {sum(one.right for one in figures)} "
            f"| {median} | {sum(one.covered for one in figures)} | {len(said) - len(figures)} |"
        )
    return "\n".join(lines)


def bars(rows: Sequence[tuple[Kind, Sequence[Said]]]) -> str:
    """The figures over all kinds."""
    every = [one for _, said in rows for one in said]
    figures = [one for one in every if one.figure is not None]
    plenty = [one for one in every if one.enough]
    silent = sum(one.figure is None for one in plenty)
    right = sum(one.right for one in figures)
    quantity = sum(one.quantity_right for one in figures)
    return (
        f"Of {len(every)} runs {len(figures)} say a figure. "
        f"{_share(quantity, len(figures))} of them name the right quantity, "
        f"{_share(right, len(figures))} are within 10 % of the true figure "
        f"(bar: 95 % each). "
        f"Of the {len(plenty)} runs with evidence enough (at least {ENOUGH_REFUSED} 429s in at "
        f"least {ENOUGH_RUNS} runs of them) {_share(silent, len(plenty))} say unknown (bar: 5 %)."
    )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def others_table(rows: Sequence[tuple[Other, Sequence[LimiterKind]]]) -> str:
    """What was said of causes that are no rate limit, and of too little evidence."""
    lines = ["| cause | to be said | said |", "|---|---|---|"]
    for other, kinds in rows:
        counts = Counter(kind.value.replace("_", " ") for kind in kinds)
        said = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        lines.append(f"| {other.name} | {other.expected.value.replace('_', ' ')} | {said} |")
    return "\n".join(lines)
