"""Every kind of limiter, tried on the attempts: which figures would explain them, and how well."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from metrics.limits_attempts import Floats
from metrics.limits_models import (
    bucket_fill,
    fixed_fill,
    in_flight_fill,
    opened_begins,
    sliding_fill,
    window_begins,
)
from metrics.limits_result import Charge, LimiterKind
from metrics.limits_threshold import Threshold, best_threshold
from metrics.limits_trail import Ledger, Trail

WINDOWS_S = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Lengths of windows that are tried."""
PHASES = 12
"""Phases of a fixed window tried evenly; beside them those at which requests passed again."""
RESUMED = 12
PROMISING = 0.25
"""Share of disagreement from which a window's phase is not looked at closer."""
RATES = 17
"""Refill rates tried in each round."""
ROUNDS = 4
TIMES_MIN = 1.5
"""Lengths of a window that the attempts must span for it to be tried."""


_Tried = tuple[Threshold, float, bool]


@dataclass(frozen=True, slots=True)
class Fit:
    """One kind with its best figures."""

    kind: LimiterKind
    charge: Charge | None
    threshold: Threshold
    figure: float
    low: float
    high: float
    burst: float | None = None
    window_s: float | None = None
    phase_s: float | None = None
    opened: bool = False

    @property
    def errors(self) -> int:
        """Attempts that disagree."""
        return self.threshold.errors


def all_fits(trail: Trail) -> list[Fit]:
    """The best fit of every kind, charge and length of window, fewest disagreements first."""
    fits = [_concurrency(trail)]
    span_s = trail.last_s - trail.first_s
    for ledger in trail.ledgers:
        for window_s in WINDOWS_S:
            if window_s * TIMES_MIN <= span_s:
                fits.append(_fixed(trail, ledger, window_s))
                fits.append(_sliding(trail, ledger, window_s))
        bucket = _bucket(trail, ledger)
        if bucket is not None:
            fits.append(bucket)
    return sorted(fits, key=lambda fit: fit.errors)


def _threshold(trail: Trail, fill: tuple[Floats, Floats]) -> Threshold:
    return best_threshold(trail.accepted, *fill, trail.accepted_weight)


def _concurrency(trail: Trail) -> Fit:
    threshold = _threshold(trail, in_flight_fill(trail))
    figure = threshold.low
    return Fit(
        LimiterKind.CONCURRENCY,
        None,
        threshold,
        figure,
        threshold.wide_low,
        max(figure, threshold.wide_high - 1),
    )


def _windowed(
    kinds: tuple[LimiterKind, LimiterKind],
    ledger: Ledger,
    threshold: Threshold,
    window_s: float,
    phase_s: float | None,
    opened: bool,
) -> Fit:
    requests = ledger.charge is Charge.REQUEST
    # Requests are whole: the limit is what was let in. Tokens lie anywhere up to a refusal.
    middle = (threshold.low + threshold.high) / 2
    whole = threshold.low if threshold.high <= threshold.low + 1 else middle
    limit = whole if requests else middle
    less = 1.0 if requests else 0.0
    per = 60.0 / window_s
    return Fit(
        kinds[0] if requests else kinds[1],
        ledger.charge,
        threshold,
        limit * per,
        min(threshold.wide_low, limit) * per,
        max(threshold.wide_high - less, limit) * per,
        limit,
        window_s,
        phase_s,
        opened,
    )


def _sliding(trail: Trail, ledger: Ledger, window_s: float) -> Fit:
    threshold = _threshold(trail, sliding_fill(trail, ledger, window_s))
    kinds = (LimiterKind.REQUESTS_SLIDING, LimiterKind.TOKENS_SLIDING)
    return _windowed(kinds, ledger, threshold, window_s, None, False)


def _fixed(trail: Trail, ledger: Ledger, window_s: float) -> Fit:
    def tried(phase_s: float, opened: bool) -> _Tried:
        begins_s = (opened_begins if opened else window_begins)(trail, window_s, phase_s)
        return _threshold(trail, fixed_fill(trail, ledger, begins_s)), phase_s, opened

    def best(of: Iterable[tuple[float, bool]], found: _Tried | None = None) -> _Tried:
        for phase_s, opened in of:
            if found is not None and not found[0].errors:
                break
            one = tried(phase_s, opened)
            if found is None or one[0].errors < found[0].errors:
                found = one
        assert found is not None
        return found

    resumed_s = trail.resumed_s[:RESUMED] - trail.slack_s
    even_s = trail.first_s + window_s * np.arange(PHASES) / PHASES
    found = best((float(at_s), False) for at_s in (*resumed_s, *even_s))
    firsts_s = (float(trail.begins_s[0]), *trail.resumed_s[:3].tolist())
    found = best(((at_s, True) for at_s in firsts_s), found)
    step_s = window_s / PHASES
    if found[0].errors <= PROMISING * trail.judged_s.size and not found[2]:
        while step_s > trail.slack_s:
            near = found[1] + step_s * np.linspace(-1, 1, 9)
            found = best(((float(at_s), False) for at_s in near), found)
            step_s /= 4
    kinds = (LimiterKind.REQUESTS_FIXED, LimiterKind.TOKENS_FIXED)
    return _windowed(kinds, ledger, found[0], window_s, found[1], found[2])


def _bucket(trail: Trail, ledger: Ledger) -> Fit | None:
    """The rate is about what passed between refusals; the depth follows from it."""
    span_s = trail.last_refused_s - trail.first_refused_s
    ends = np.searchsorted(ledger.at_s, (trail.first_refused_s, trail.last_refused_s))
    passed = float(ledger.total[ends[1]] - ledger.total[ends[0]])
    if span_s <= 0 or passed <= 0:
        return None
    tried: dict[float, tuple[Threshold, float]] = {}

    def errors(per_s: float) -> float:
        if per_s not in tried:
            least, most = bucket_fill(trail, ledger, per_s)
            threshold = _threshold(trail, (least, most))
            tried[per_s] = threshold, _overlap(trail, ledger, least, most)
        return float(tried[per_s][0].errors)

    def overlap(per_s: float) -> float:
        errors(per_s)
        return tried[per_s][1]

    first = np.unique(np.concatenate((np.geomspace(0.7, 1.8, 25), np.linspace(0.9, 1.1, 41))))
    # Disagreements are flat away from the rate, the overlap leads towards it.
    for measures in ((errors,) * ROUNDS, (overlap, overlap, errors, errors)):
        rates = passed / span_s * first
        for measure in measures:
            best = int(np.argmin([measure(float(rate)) for rate in rates]))
            near = rates[max(best - 1, 0)], rates[min(best + 1, rates.size - 1)]
            rates = np.linspace(*near, RATES)
    return _bucket_fit(ledger, {rate: threshold for rate, (threshold, _) in tried.items()})


def _overlap(trail: Trail, ledger: Ledger, least: Floats, most: Floats) -> float:
    """How far the fills at refusals are spread, against their distance from the others'."""
    refused, taken = most[~trail.accepted], least[trail.accepted]
    apart = float(refused.mean() - taken.mean())
    unit = float(ledger.total[-1]) / max(1, ledger.at_s.size)
    return (float(refused.std()) + 0.1 * unit) / apart if apart > 0 else float("inf")


def _bucket_fit(ledger: Ledger, tried: dict[float, Threshold]) -> Fit:
    rates = np.array(sorted(tried))
    counts = np.array([tried[float(rate)].errors for rate in rates])
    best = rates[counts == counts.min()]
    rate = float(best[best.size // 2])
    near = rates[counts <= counts.min() + 1]
    requests = ledger.charge is Charge.REQUEST
    threshold = tried[rate]
    depth = threshold.low if requests else (threshold.low + threshold.high) / 2
    return Fit(
        LimiterKind.REQUESTS_BUCKET if requests else LimiterKind.TOKENS_BUCKET,
        ledger.charge,
        threshold,
        rate * 60,
        float(near[0]) * 60,
        float(near[-1]) * 60,
        depth,
    )
