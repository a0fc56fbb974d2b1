"""What a comparison says: the values that every face of it reads, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from metrics.compare import Better, Interval, Scale, Verdict
from metrics.knee import KneeEstimate

COMPARE_SCHEMA = "swarmgauge.compare/1"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure that is compared. ``unit`` is ``s``, ``/s``, ``share``, ``money`` or ``users``."""

    name: str
    label: str
    family: str
    unit: str
    scale: Scale
    better: Better


def _latency(stem: str, label: str, quantiles: tuple[str, ...]) -> tuple[Metric, ...]:
    return tuple(
        Metric(f"{stem}_{q}_s", f"{label} {q}", label, "s", Scale.RATIO, Better.LOWER)
        for q in quantiles
    )


def _share(name: str, label: str, better: Better) -> Metric:
    return Metric(name, label, label, "share", Scale.POINTS, better)


METRICS: tuple[Metric, ...] = (
    *_latency("ttft", "TTFT", ("p50", "p95", "p99")),
    *_latency("tpot", "TPOT", ("p50", "p95", "p99")),
    *_latency("longest_gap", "longest gap", ("p50", "p95")),
    *_latency("chunk_gap", "chunk gap", ("p50", "p99")),
    *_latency("e2e_latency", "latency", ("p50", "p95", "p99")),
    Metric("output_tokens_per_s", "tokens/s", "tokens/s", "tokens/s", Scale.RATIO, Better.HIGHER),
    Metric("completed_rps", "requests/s", "requests/s", "/s", Scale.RATIO, Better.HIGHER),
    _share("failed_ratio", "failures", Better.LOWER),
    _share("rate_limited_ratio", "429s", Better.LOWER),
    _share("cached_ratio", "cached prompt tokens", Better.NEITHER),
    Metric("cost_per_m_tokens", "cost per M output", "cost", "money", Scale.RATIO, Better.LOWER),
    Metric(
        "cost_per_m_gpu", "GPU cost per M output", "GPU cost", "money", Scale.RATIO, Better.LOWER
    ),
)
KNEE = Metric("knee_users", "knee", "knee", "users", Scale.RATIO, Better.HIGHER)
BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in (*METRICS, KNEE)}
ALL_LOADS = "all loads"
"""The load of a row that is the mean over all matched loads."""
WHOLE_RUN = "run"
"""The load of the knee's row."""


class Weight(StrEnum):
    """What a difference in how two runs were made does to their comparison."""

    REFUSED = "refused"
    """They are not compared, unless forced."""
    UNKNOWN = "unknown"
    """One of the runs does not tell."""
    SAID = "said"
    """It may be what is compared."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One field in which two runs differ: both values as text, and what to do about it."""

    field: str
    a: str
    b: str
    weight: Weight
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one run at one load; ``n`` requests, or blocks of time for rates."""

    value: float | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of both runs at one load.

    ``interval`` and the verdict are those of the change from A to B; ``why`` says why there is
    none. ``at_risk`` says that a change for the worse beyond the margin is not ruled out.
    """

    metric: Metric
    load: str
    a: Figure
    b: Figure
    interval: Interval | None
    verdict: Verdict
    why: str | None = None
    at_risk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSummary:
    """One of the runs, as it is named and linked."""

    label: str
    folder: str
    run_id: str
    url: str
    model: str
    started_at: str
    seed: str
    valid: bool
    knee: KneeEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The base A against one other run.

    ``left_out`` says of each load that is not compared why. ``refusals`` is not empty only in a
    forced comparison or in one that has no rows.
    """

    a: SideSummary
    b: SideSummary
    mismatches: tuple[Mismatch, ...]
    left_out: tuple[str, ...]
    rows: tuple[Row, ...]
    sentences: tuple[str, ...]

    @property
    def refusals(self) -> tuple[Mismatch, ...]:
        """What speaks against comparing the two at all."""
        return tuple(m for m in self.mismatches if m.weight is Weight.REFUSED)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The base and all others; ``margin`` is the change that matters, as a share."""

    pairs: tuple[Pair, ...]
    margin: float
    forced: bool

    @property
    def refused(self) -> bool:
        """Whether a pair was not compared."""
        return any(pair.refusals and not self.forced for pair in self.pairs)
