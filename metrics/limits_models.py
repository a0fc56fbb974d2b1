"""How full each kind of limiter was when it decided, were it that kind.

Every function gives two arrays, the least and the most that the judged attempts may have found,
their own units included. An attempt passes when that is at most the limit.
"""

import numpy as np

from metrics.limits_attempts import Floats
from metrics.limits_trail import Ledger, Trail


def window_begins(trail: Trail, window_s: float, phase_s: float) -> Floats:
    """When fixed windows begin that follow one another; one begins at ``phase_s``."""
    first_s = phase_s - np.ceil((phase_s - trail.first_s) / window_s + 1) * window_s
    return np.arange(first_s, trail.last_s + 2 * window_s, window_s)


def opened_begins(trail: Trail, window_s: float, first_s: float) -> Floats:
    """When fixed windows begin that the first accepted request opens; one at ``first_s``."""
    begins = [first_s]
    taken_s = trail.begins_s
    while True:
        place = int(np.searchsorted(taken_s, begins[-1] + window_s - trail.slack_s))
        if place >= taken_s.size:
            break
        begins.append(float(taken_s[place]))
    back = np.arange(first_s - window_s, trail.first_s - 2 * window_s, -window_s)
    # Past its end a window counts nothing, although the next one is opened only later.
    ends = np.array(begins) + window_s
    return np.unique(np.concatenate((back, begins, ends)))


def fixed_fill(trail: Trail, ledger: Ledger, begins_s: Floats) -> tuple[Floats, Floats]:
    """Units charged since the window's begin."""
    # What was charged right at a begin may belong to either window.
    least_base = ledger.total[np.searchsorted(ledger.at_s, begins_s + trail.slack_s)]
    most_base = ledger.total[np.searchsorted(ledger.at_s, begins_s - trail.slack_s)]
    window = np.searchsorted(begins_s, trail.judged_s - trail.slack_s, side="right") - 1
    early = ledger.early - least_base[np.maximum(window, 0)]
    late = ledger.late - most_base[np.maximum(window, 0)]
    window = np.searchsorted(begins_s, trail.judged_s + trail.slack_s, side="right") - 1
    early = np.minimum(early, ledger.early - least_base[np.maximum(window, 0)])
    late = np.maximum(late, ledger.late - most_base[np.maximum(window, 0)])
    return np.maximum(early, 0.0) + ledger.own, np.maximum(late, 0.0) + ledger.own


def sliding_fill(trail: Trail, ledger: Ledger, window_s: float) -> tuple[Floats, Floats]:
    """Units charged in the last ``window_s``."""
    left_s = trail.judged_s - window_s
    late_left = ledger.total[np.searchsorted(ledger.at_s, left_s + trail.slack_s, side="right")]
    early_left = ledger.total[np.searchsorted(ledger.at_s, left_s - trail.slack_s)]
    least = np.maximum(ledger.early - late_left, 0.0) + ledger.own
    return least, ledger.late - early_left + ledger.own


def bucket_fill(trail: Trail, ledger: Ledger, per_s: float) -> tuple[Floats, Floats]:
    """Units charged and not yet refilled at ``per_s``; the bucket was full before the first."""
    if not ledger.at_s.size or not np.isfinite(ledger.at_s[0]):
        return ledger.own, ledger.own
    at_s = np.where(np.isfinite(ledger.at_s), ledger.at_s, trail.last_s + 1e6)
    previous = np.maximum(ledger.before - 1, 0)
    # The waiting time of a queue with one server, as a running minimum instead of a loop; wanted
    # only where an attempt is judged, so the least of each stretch between these is enough.
    places, place_of = np.unique(previous, return_inverse=True)
    until = int(places[-1]) + 1
    before_own = ledger.total[:until] - per_s * at_s[:until]
    stretches = np.concatenate(([0], places[:-1] + 1))
    lowest = np.minimum.accumulate(np.minimum.reduceat(before_own, stretches))
    debt = ledger.total[places + 1] - per_s * at_s[places] - lowest
    drained = per_s * (trail.judged_s - at_s[previous])
    owed = np.where(ledger.before > 0, np.maximum(debt[place_of] - drained, 0.0), 0.0)
    spread = per_s * trail.slack_s
    charged = ledger.total[ledger.before]
    least = np.maximum(owed - (charged - ledger.early) - spread, 0.0) + ledger.own
    return least, owed + (ledger.late - charged) + spread + ledger.own


def in_flight_fill(trail: Trail) -> tuple[Floats, Floats]:
    """Accepted requests under way, and this one."""
    taken = np.where(trail.accepted, 1, 0)
    early_begun = np.searchsorted(trail.begins_s, trail.judged_s - trail.slack_s)
    begun = np.minimum(trail.begun_before, early_begun)
    late_begun = np.searchsorted(trail.begins_s, trail.judged_s + trail.slack_s, side="right")
    most_begun = np.maximum(trail.begun_before, late_begun - taken)
    early_ended = np.searchsorted(trail.ends_s, trail.judged_s - trail.slack_s)
    late_ended = np.searchsorted(trail.ends_s, trail.judged_s + trail.slack_s, side="right")
    least = np.maximum(begun - late_ended, 0) + 1.0
    return least, np.maximum(most_begun - early_ended, 0) + 1.0
