"""Attempts made ready for the models: when the limiter decided, what it had charged by then.

The limiter's own clock is not seen. It decides half a round trip after the sending, and the round
trip is that of the quickest answers there are: its own 429s.
"""

from dataclasses import dataclass

import numpy as np

from metrics.limits_attempts import Attempts, Bools, Floats, Indices
from metrics.limits_result import Charge

SLACK_S = (0.002, 0.05)
"""Least and most uncertainty of the moment of a decision."""
RUN_JUDGED = 5
"""429s judged of a run without an accepted request: they all say the same."""
JUDGED_MAX = 3_600
"""Attempts judged in all."""
NEAR = 100
"""Accepted attempts this near to a 429 are judged first."""
MISSING_MAX = 0.1
"""Share of accepted requests without tokens, up to which a token limit is looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """What was charged when, and where each judged attempt stands in it."""

    charge: Charge
    at_s: Floats
    """When something was charged, in order."""
    total: Floats
    """Units charged before the n-th of them; one entry more than ``at_s``."""
    own: Floats
    """Units each judged attempt asked for."""
    before: Indices
    """Charges before each judged attempt."""
    early: Floats
    late: Floats
    """Units charged before a judged attempt, had it been earlier or later by the slack."""


@dataclass(frozen=True, slots=True, eq=False)
class Trail:
    """The judged attempts and the ledgers."""

    judged_s: Floats
    accepted: Bools
    slack_s: float
    half_trip_s: float
    begins_s: Floats
    """Accepted requests' decisions, in order."""
    ends_s: Floats
    """Their ends at the limiter, in order."""
    begun_before: Indices
    """Accepted requests that had begun before each judged attempt."""
    resumed_s: Floats
    """Accepted attempts that came first after a run of 429s, those after the longest runs first."""
    first_refused_s: float
    last_refused_s: float
    first_s: float
    last_s: float
    runs: int
    """Runs of 429s without an accepted request between them."""
    ledgers: tuple[Ledger, ...]
    accepted_weight: int = 1
    """How much an accepted attempt without room weighs against a 429 with room."""


def trail_of(attempts: Attempts, *, every: bool = False, slack_s: float | None = None) -> Trail:
    """Prepare attempts of which at least one was accepted and one limited.

    ``every`` attempt is judged when asked for, else as many as tell the limiters apart. The slack
    is that of the 429s' round trips unless it is given.
    """
    decided = attempts.accepted | attempts.limited
    half_s, seen_s = _trip(attempts)
    slack_s = seen_s if slack_s is None else slack_s
    order = np.flatnonzero(decided)[np.argsort(attempts.sent_s[decided], kind="stable")]
    at_s = attempts.sent_s[order] + half_s
    accepted = attempts.accepted[order]
    run = np.cumsum(accepted, dtype=np.intp)
    judged = np.arange(order.size) if every else _judged(accepted, run)
    refused_s = at_s[~accepted]
    ends_s = attempts.ended_s[order][accepted]
    ends_s = np.where(np.isfinite(ends_s), np.maximum(ends_s - half_s, at_s[accepted]), np.inf)
    ledgers = [
        ledger
        for charge in Charge
        if (ledger := _ledger(charge, attempts, order, at_s, ends_s, judged, slack_s)) is not None
    ]
    return Trail(
        judged_s=at_s[judged],
        accepted=accepted[judged],
        slack_s=slack_s,
        half_trip_s=half_s,
        begins_s=at_s[accepted],
        ends_s=np.sort(ends_s),
        begun_before=(run - accepted)[judged],
        resumed_s=_resumed(at_s, accepted),
        first_refused_s=float(refused_s[0]),
        last_refused_s=float(refused_s[-1]),
        first_s=float(at_s[0]),
        last_s=float(at_s[-1]),
        runs=int(np.unique(run[~accepted]).size),
        ledgers=tuple(ledgers),
    )


def _trip(attempts: Attempts) -> tuple[float, float]:
    """Half the round trip, and how uncertain a decision's moment is, in seconds."""
    trips_s = (attempts.ended_s - attempts.sent_s)[attempts.limited]
    trips_s = trips_s[np.isfinite(trips_s)]
    if not trips_s.size:
        return 0.0, SLACK_S[0]
    tenth, middle, ninth = np.quantile(trips_s, (0.1, 0.5, 0.9))
    return float(middle) / 2, float(np.clip(ninth - tenth, *SLACK_S))


def _judged(accepted: Bools, run: Indices) -> Indices:
    """Rows to judge: a few 429s of each run, and accepted ones around the changes."""
    refused = np.flatnonzero(~accepted)
    _, first, length = np.unique(run[refused], return_index=True, return_counts=True)
    place = np.arange(refused.size) - np.repeat(first, length)
    whole = np.repeat(length, length)
    # The first, the last, and some evenly between.
    step = np.maximum(1, (whole - 1) / (RUN_JUDGED - 1))
    keep = (whole <= RUN_JUDGED) | (np.floor(place / step) > np.floor((place - 1) / step))
    keep |= (place == 0) | (place == whole - 1)
    refused = refused[keep]
    taken = np.flatnonzero(accepted)
    if taken.size > JUDGED_MAX // 2:
        # Those next to a change say most.
        next_change = np.searchsorted(refused, taken)
        after = refused[np.minimum(next_change, refused.size - 1)] - taken
        before = taken - refused[np.maximum(next_change - 1, 0)]
        after, before = (
            np.where(after < 0, taken.size, after),
            np.where(before < 0, taken.size, before),
        )
        near = np.minimum(after, before) <= NEAR
        taken = np.union1d(_thinned(taken[near], 3), _thinned(taken, 6))
    return np.union1d(_thinned(refused, 2), taken)


def _thinned(rows: Indices, part: int) -> Indices:
    most = JUDGED_MAX // part
    if rows.size <= most:
        return rows
    return rows[np.linspace(0, rows.size - 1, most).astype(np.intp)]


def _resumed(at_s: Floats, accepted: Bools) -> Floats:
    change = np.flatnonzero(accepted[1:] & ~accepted[:-1]) + 1
    if not change.size:
        return np.empty(0)
    taken = np.flatnonzero(accepted)
    place = np.searchsorted(taken, change)
    last_taken_s = np.where(place > 0, at_s[taken[np.maximum(place - 1, 0)]], at_s[0])
    return at_s[change][np.argsort(-(at_s[change] - last_taken_s), kind="stable")]


def _ledger(
    charge: Charge,
    attempts: Attempts,
    order: Indices,
    at_s: Floats,
    ends_s: Floats,
    judged: Indices,
    slack_s: float,
) -> Ledger | None:
    accepted = attempts.accepted[order]
    cost = _cost(charge, attempts, order)
    if cost is None:
        return None
    judged_s, own = at_s[judged], cost[judged]
    if charge is Charge.USED:
        finished = np.argsort(ends_s, kind="stable")
        charged_s, amount = ends_s[finished], cost[accepted][finished]
        own = np.zeros(judged.size)
        before = np.searchsorted(charged_s, judged_s)
    else:
        charged_s, amount = at_s[accepted], cost[accepted]
        before = (np.cumsum(accepted) - accepted)[judged]
    total = np.concatenate(([0.0], np.cumsum(amount)))
    early = total[np.minimum(before, np.searchsorted(charged_s, judged_s - slack_s))]
    after = np.searchsorted(charged_s, judged_s + slack_s, side="right")
    own_charged = 0.0 if charge is Charge.USED else np.where(accepted[judged], own, 0.0)
    late = np.maximum(total[before], total[after] - own_charged)
    return Ledger(charge, charged_s, total, own, before, early, late)


def _cost(charge: Charge, attempts: Attempts, order: Indices) -> Floats | None:
    """Units of each attempt; None when too few are known."""
    if charge is Charge.REQUEST:
        return np.ones(order.size)
    second = attempts.asked_max_tokens if charge is Charge.ASKED else attempts.completion_tokens
    if attempts.prompt_tokens is None or second is None:
        return None
    cost = (attempts.prompt_tokens + second)[order]
    known = np.isfinite(cost)
    accepted = attempts.accepted[order]
    if known[accepted].mean() < 1 - MISSING_MAX:
        return None
    # A 429 carries no usage: let a large request be the reason.
    large, usual = np.quantile(cost[accepted & known], (0.9, 0.5))
    return np.where(known, cost, np.where(accepted, usual, large))
