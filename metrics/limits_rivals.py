"""Kinds that explain the 429s about as well, told apart by what they do without any slack."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from metrics.limits_attempts import Attempts, Floats
from metrics.limits_models import (
    bucket_fill,
    fixed_fill,
    in_flight_fill,
    opened_begins,
    sliding_fill,
    window_begins,
)
from metrics.limits_result import Charge, LimiterKind
from metrics.limits_search import Fit
from metrics.limits_threshold import Threshold, best_threshold
from metrics.limits_trail import Trail, trail_of

KEPT_SHARE = 0.01
"""Share of the judged with which a kind may disagree more than the best and is still looked at."""
WORSE = 1.25
"""Disagreements of both kinds, against the best's, up to which a kind explains as well."""
STEPS = 9
RATES = 41


@dataclass(frozen=True, slots=True)
class Shape:
    """All of a limiter but its limit."""

    kind: LimiterKind
    charge: Charge | None
    window_s: float | None = None
    phase_s: float | None = None
    opened: bool = False
    per_s: float | None = None
    """Refill of a bucket."""


def fill_of(trail: Trail, shape: Shape) -> tuple[Floats, Floats] | None:
    """How full it was at each judged attempt; None when the tokens are not known."""
    if shape.kind in (LimiterKind.CONCURRENCY, LimiterKind.OVERLOAD):
        return in_flight_fill(trail)
    ledger = next((one for one in trail.ledgers if one.charge is shape.charge), None)
    if ledger is None:
        return None
    if shape.per_s is not None:
        return bucket_fill(trail, ledger, shape.per_s)
    if shape.window_s is None:
        return None
    if shape.phase_s is None:
        return sliding_fill(trail, ledger, shape.window_s)
    begins = opened_begins if shape.opened else window_begins
    return fixed_fill(trail, ledger, begins(trail, shape.window_s, shape.phase_s))


def shape_of(fit: Fit) -> Shape:
    """A fit without its limit."""
    bucket = fit.kind in (LimiterKind.REQUESTS_BUCKET, LimiterKind.TOKENS_BUCKET)
    per_s = fit.figure / 60 if bucket else None
    return Shape(fit.kind, fit.charge, fit.window_s, fit.phase_s, fit.opened, per_s)


def rivals_of(attempts: Attempts, trail: Trail, fits: Sequence[Fit]) -> list[Fit]:
    """Those of the fits that explain the attempts as well as the best, the best first."""
    least, size = min(fit.errors for fit in fits), trail.accepted.size
    kept = [fit for fit in fits if fit.errors <= 1.5 * least + 2 + KEPT_SHARE * size]
    sharp = trail_of(attempts, slack_s=0.0)
    scored = []
    for fit in kept:
        exact, errors = _sharpened(trail, sharp, fit)
        scored.append((fit.errors + errors, exact))
    scored.sort(key=lambda one: one[0])
    return [fit for score, fit in scored if score <= WORSE * scored[0][0]]


def _errors(sharp: Trail, shape: Shape) -> Threshold:
    fill = fill_of(sharp, shape)
    assert fill is not None
    return best_threshold(sharp.accepted, *fill)


def _sharpened(trail: Trail, sharp: Trail, fit: Fit) -> tuple[Fit, int]:
    """The fit with phase or rate where it disagrees least without slack, and how much it does."""
    shape = shape_of(fit)
    if shape.per_s is not None:
        return _rate(sharp, fit, shape)
    shapes = [shape]
    if fit.phase_s is not None:
        shifts = trail.slack_s * np.linspace(-1, 1, STEPS)
        shapes += [replace(shape, phase_s=fit.phase_s + float(shift)) for shift in shifts]
    tried = [(_errors(sharp, one).errors, place, one) for place, one in enumerate(shapes)]
    errors, _, best = min(tried)
    return replace(fit, phase_s=best.phase_s), errors


def _rate(sharp: Trail, fit: Fit, shape: Shape) -> tuple[Fit, int]:
    """The rate within the interval that slack leaves; what is about as good is the interval."""
    pad = 0.02 * (fit.high - fit.low) + 1e-4 * fit.figure
    low, high = max(fit.low - pad, 1e-6), fit.high + pad
    rates = np.linspace(low, high, RATES)
    found: dict[float, Threshold] = {}
    for _ in range(2):
        for rate in rates:
            found.setdefault(float(rate), _errors(sharp, replace(shape, per_s=float(rate) / 60)))
        best = min(found, key=lambda rate: found[rate].errors)
        step = (rates[-1] - rates[0]) / (RATES - 1)
        rates = np.linspace(max(best - step, low), best + step, STEPS)
    errors = found[best].errors
    near = sorted(r for r, one in found.items() if one.errors <= errors + 1 + 2 * np.sqrt(errors))
    middle = sorted(r for r, one in found.items() if one.errors == errors)
    figure = middle[len(middle) // 2]
    one = found[figure]
    whole = fit.charge is Charge.REQUEST
    burst = round(one.low) if whole else (one.low + min(one.high, 2 * one.low)) / 2
    return replace(fit, figure=figure, low=near[0], high=near[-1], burst=float(burst)), errors
