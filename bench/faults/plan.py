"""Which faults a run gets, and when: drawn from its seed alone."""

import random
from dataclasses import dataclass
from enum import StrEnum

WORKERS = 3
STAGES = (3, 6, 9, 6)
HOLD_S = 5
SPAN_S = HOLD_S * len(STAGES)
"""Faults come within this time after the first window began."""
START_UP_S = 6.0
"""What a worker takes to join, at least; a later one would find no run."""
NOTICED_S = 7.0
"""Locust's master misses a worker after 4 to 5 s without a heartbeat."""
FEWEST, MOST = 5, 8


class Kind(StrEnum):
    """What is done."""

    KILL = "kill -9 a worker"
    TERMINATE = "SIGTERM to a worker"
    BLINK = "pause a worker, up to 3 s"
    PAUSE = "pause a worker, 5 to 9 s"
    CUT = "cut a worker off, up to 4 s"
    LONG_CUT = "cut a worker off, 4 to 9 s"
    CUT_OFF = "cut a worker off for good"
    JOIN = "start a worker"
    KILL_MASTER = "kill -9 the master"


PAUSES = frozenset({Kind.BLINK, Kind.PAUSE})
CUTS = frozenset({Kind.CUT, Kind.LONG_CUT, Kind.CUT_OFF})
_LASTS_S = {
    Kind.BLINK: (0.3, 3.0),
    Kind.PAUSE: (5.0, 9.0),
    Kind.CUT: (0.5, 4.0),
    Kind.LONG_CUT: (4.0, 9.0),
}
_MAY_END_A_WORKER = frozenset({Kind.KILL, Kind.TERMINATE, Kind.CUT_OFF, Kind.LONG_CUT})
_WEIGHTS = {
    Kind.KILL: 5,
    Kind.TERMINATE: 3,
    Kind.BLINK: 3,
    Kind.PAUSE: 4,
    Kind.CUT: 4,
    Kind.LONG_CUT: 3,
    Kind.CUT_OFF: 2,
    Kind.JOIN: 6,
}
_MASTER_DIES = 0.25
_MAY_LOSE_ALL = 0.15


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault. ``at_s`` from the first window's beginning; ``pick`` (0 to 1) says which of the
    workers that are there then; ``lasts_s`` is None for what is not taken back."""

    kind: Kind
    at_s: float
    pick: float
    lasts_s: float | None = None


def plan_faults(seed: int, most: int = MOST) -> tuple[Injection, ...]:
    """The faults of one run in their order, at most ``most``."""
    chance = random.Random(seed)
    times_s = sorted(chance.uniform(0.3, SPAN_S) for _ in range(chance.randint(FEWEST, MOST)))
    master_dies = chance.random() < _MASTER_DIES
    may_lose_all = chance.random() < _MAY_LOSE_ALL
    workers = WORKERS
    found = []
    for at_s in times_s[:most]:
        weights = dict(_WEIGHTS)
        if at_s > SPAN_S - START_UP_S:
            del weights[Kind.JOIN]
        if workers < 2 and not may_lose_all:
            for kind in _MAY_END_A_WORKER:
                del weights[kind]
        (kind,) = chance.choices(list(weights), list(weights.values()))
        if master_dies and at_s == times_s[-1]:
            kind = Kind.KILL_MASTER
        workers += (kind is Kind.JOIN) - (kind in _MAY_END_A_WORKER)
        lasts_s = chance.uniform(*_LASTS_S[kind]) if kind in _LASTS_S else None
        found.append(Injection(kind, at_s, chance.random(), lasts_s))
    return tuple(found)
