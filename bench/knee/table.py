"""The accuracy table and the sentence on its bars."""

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from bench.knee.kinds import Kind
from bench.knee.world import Found
from metrics.knee import KneeStatus

NEAR = 0.10
_REQUESTS_BAR, _KNEES_UP_TO = 3_500, 100


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of server: the truth and what each search found."""

    kind: Kind
    truth: float | None
    found: tuple[Found, ...]

    def verdict_counts(self) -> str:
        """Each verdict and how often it was given, the frequent ones first."""
        counts = Counter(f.estimate.status.value for f in self.found).most_common()
        return ", ".join(f"{name} {n}" for name, n in counts)

    def errors(self) -> list[float]:
        """Relative error of each search that named a number."""
        if self.truth is None:
            return []
        return [f.estimate.users / self.truth - 1 for f in self.found if f.estimate.users]

    def near(self) -> int:
        """Searches within 10 %; one that named no number is not."""
        return sum(abs(error) <= NEAR for error in self.errors())

    def covered(self) -> int:
        """Searches whose interval holds the truth."""
        pairs = [(f.estimate.low, f.estimate.high) for f in self.found]
        return sum(
            low is not None and high is not None and low <= (self.truth or 0.0) <= high
            for low, high in pairs
        )

    def named(self) -> int:
        """Searches with a verdict that is right for the kind."""
        return sum(f.estimate.status in self.kind.verdicts for f in self.found)

    def requests(self) -> float:
        """Median requests spent, warm-up included."""
        return median(f.requests for f in self.found)


def table(rows: Sequence[Row]) -> str:
    """One line for each kind, in Markdown."""
    lines = [
        "| server | true knee | bias | within 10 % | interval covers "
        "| requests | minutes | verdicts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(row) for row in rows]
    return "\n".join(lines)


def _line(row: Row) -> str:
    n, minutes = len(row.found), median(f.seconds for f in row.found) / 60
    figures = ["none", "", "", ""]
    if row.truth is not None:
        errors = row.errors()
        bias = f"{100 * mean(errors):+.1f} %" if errors else ""
        figures = [f"{row.truth:.1f}", bias, f"{row.near()}/{n}", f"{row.covered()}/{n}"]
    cells = [row.kind.name, *figures, f"{row.requests():,.0f}", f"{minutes:.1f}"]
    return f"| {' | '.join(cells)} | {row.verdict_counts()} |"


def bars(rows: Sequence[Row], seeds: int) -> str:
    """What the table comes to."""
    knees = [row for row in rows if row.kind.precise and row.truth is not None]
    none = [row for row in rows if row.kind.deep_users is None]
    plain = [row for row in none if KneeStatus.NO_KNEE in row.kind.verdicts]
    limited = [row for row in none if row not in plain]
    small = [row for row in knees if (row.truth or 0.0) <= _KNEES_UP_TO]
    false = sum(f.estimate.users is not None for row in none for f in row.found)
    parts = (
        f"{seeds} searches of each kind. Kinds with a knee that TTFT shows: within 10 % in",
        f"{_part([row.near() for row in knees], knees)}, the interval covers the truth in",
        f"{_part([row.covered() for row in knees], knees)}. Kinds without one: a knee was named in",
        f"{false} of {sum(len(row.found) for row in none)} searches. Limits called by their name:",
        f"{_part([row.named() for row in limited], limited)}. Median requests for knees up to",
        f"{_KNEES_UP_TO}: {median(f.requests for row in small for f in row.found):,.0f}, for the",
        f"dearest such kind {max(row.requests() for row in small):,.0f} (wanted: at most",
        f"{_REQUESTS_BAR:,}).",
    )
    return textwrap.fill(" ".join(parts), 100, break_on_hyphens=False)


def _part(counts: Sequence[int], rows: Sequence[Row]) -> str:
    whole = sum(len(row.found) for row in rows)
    return f"{sum(counts)} of {whole} ({100 * sum(counts) / whole:.1f} %)" if whole else "none"
