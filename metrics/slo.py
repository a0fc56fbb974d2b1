"""Service level objectives: limits on a metric's percentile or on a ratio, and whether they hold.

Grammar: limits separated by commas, each ``METRIC_STATISTIC<LIMIT`` or ``RATIO>LIMIT``, for
example ``ttft_p95<500ms,tpot_p95<50ms,ok>99%``.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from metrics.record import RequestRecord

LATENCIES = {
    "ttft": "ttft_s",
    "ttfa": "ttfa_s",
    "tpot": "tpot_s",
    "chunk_gap": "chunk_gap_s",
    "e2e_latency": "e2e_latency_s",
    "user_ttft": "user_ttft_s",
    "user_latency": "user_latency_s",
}
RATIOS = {
    "ok": "ok_ratio",
    "failed": "failed_ratio",
    "rate_limited": "rate_limited_ratio",
    "good": "good_ratio",
}
RATES = {"output_tokens_per_s": "output_tokens_per_s", "completed_rps": "completed_rps"}
STATISTICS = ("p50", "p90", "p95", "p99", "p999", "mean", "max")

_LIMIT = re.compile(
    r"(?P<name>[a-z0-9_]+)\s*(?P<sign><=?|>=?)\s*(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>\S*)"
)
_SECONDS = {"ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class SloLimit:
    """One limit: ``metric`` is a field's name, ``statistic`` None for ratios and rates.

    ``limit`` is in seconds, as a ratio in 0-1, or per second. ``below`` means that smaller is
    better.
    """

    text: str
    metric: str
    statistic: str | None
    below: bool
    limit: float

    def met_by(self, value: float) -> bool:
        """Whether the measured value holds the limit."""
        return value <= self.limit if self.below else value >= self.limit


@dataclass(frozen=True, slots=True)
class SloVerdict:
    """A limit beside what was measured; ``value`` None when nothing was, which counts as missed."""

    limit: SloLimit
    value: float | None
    met: bool


def parse_slo(text: str) -> tuple[SloLimit, ...]:
    """Read a list of limits; an empty text has none.

    Raises:
        ValueError: says which part is wrong and what may stand there.
    """
    return tuple(_parse_limit(part.strip()) for part in text.split(",") if part.strip())


def _parse_limit(part: str) -> SloLimit:
    match = _LIMIT.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is not a limit; write for example ttft_p95<500ms or ok>99%")
    name, value = match["name"], float(match["value"])
    below = match["sign"].startswith("<")
    if name in RATIOS:
        ratio = value / 100 if match["unit"] == "%" else value
        if match["unit"] not in ("", "%") or not 0 <= ratio <= 1:
            raise ValueError(f"{part!r}: a ratio is 0 to 1 or 0% to 100%")
        return SloLimit(part, RATIOS[name], None, below, ratio)
    if name in RATES:
        if match["unit"] not in ("", "/s"):
            raise ValueError(f"{part!r}: a rate is a number per second, without a unit or with /s")
        return SloLimit(part, RATES[name], None, below, value)
    stem, _, statistic = name.rpartition("_")
    if stem not in LATENCIES or statistic not in STATISTICS:
        raise ValueError(
            f"{part!r}: no metric {name!r}; there are {', '.join(f'{m}_p95' for m in LATENCIES)} "
            f"(statistics {', '.join(STATISTICS)}), {', '.join(RATIOS)}, {', '.join(RATES)}"
        )
    if match["unit"] not in _SECONDS:
        raise ValueError(f"{part!r}: a time needs its unit, ms or s")
    return SloLimit(part, LATENCIES[stem], statistic, below, value * _SECONDS[match["unit"]])


def judge(
    limits: tuple[SloLimit, ...], measured: Callable[[str, str | None], float | None]
) -> tuple[SloVerdict, ...]:
    """Hold each limit against ``measured(metric, statistic)``."""
    verdicts = []
    for limit in limits:
        value = measured(limit.metric, limit.statistic)
        verdicts.append(SloVerdict(limit, value, value is not None and limit.met_by(value)))
    return tuple(verdicts)


def request_is_good(record: RequestRecord, limits: tuple[SloLimit, ...]) -> bool:
    """Whether a successful request is within every latency limit (the test of goodput).

    A percentile's limit is applied to the single request; a metric that the request does not have
    (TPOT of one token) does not count against it.
    """
    for limit in limits:
        if limit.statistic is None or limit.metric == "chunk_gap_s":
            continue
        value = getattr(record, limit.metric)
        if value is not None and not limit.met_by(value):
            return False
    return True
