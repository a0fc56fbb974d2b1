"""Stages: the named pieces of a run's load plan, and when each worker saw them begin.

A shape announces each phase of a stage; every worker notes the announcement on its own clock. A
request belongs to the stage and phase in which it was started, on that worker.
"""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What part of a stage a request was started in. Only ``HOLD`` counts in the figures."""

    RAMP = "ramp"
    """Users are still being added or removed."""
    SETTLE = "settle"
    """All users are up, the load is still finding its level."""
    HOLD = "hold"
    """The held window: the only phase that counts."""
    DRAIN = "drain"
    """No users are wanted; answers under way are finished."""
    IDLE = "idle"
    """Nobody asks, so that the endpoint may grow cold."""
    COLD = "cold"
    """A few single requests after that: reported apart, never a level or a baseline."""
    WARMUP = "warmup"
    """Of a record alone: one of the run's first requests, left out by ``--warmup-requests``."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One level of the load plan.

    ``id`` counts from 0 in the order of the run; ``kind`` names the shape's reason for it
    (``level``, ``constant``, ``soak``, ``base``, ``burst``, ``after``, ``rate``, ``cold``,
    ``drain``); ``target_users`` is the closed-loop population wanted, in an open loop the number of
    workers. ``rate_rps`` is the open loop's rate over the fleet, in requests/s. Where nominal
    tokens set the pace, ``rate_tokens_per_s`` is the rate and ``rate_rps`` the mean that follows.
    """

    id: int
    kind: str
    target_users: int
    rate_rps: float | None = None
    rate_tokens_per_s: float | None = None

    @property
    def load(self) -> str:
        """What the stage offers, in words: users, requests/s or tokens/min."""
        return load_text(self.target_users, self.rate_rps, self.rate_tokens_per_s)


def load_text(users: int, rate_rps: float | None, tokens_per_s: float | None = None) -> str:
    """A load in words, in the unit that it was asked for."""
    if tokens_per_s is not None:
        return f"{60 * tokens_per_s:,.0f} tokens/min"
    if rate_rps is not None:
        return f"{rate_rps:g} requests/s"
    return f"{users:,} user" + ("" if users == 1 else "s")


ASIDE = (Phase.COLD, Phase.WARMUP)
"""Requests of these are counted and in no other figure."""

WITHOUT_WINDOW = frozenset({"cold", "drain"})
"""Kinds of stages that are never held."""

NOT_LEVELS = WITHOUT_WINDOW | {"base", "burst", "after", "rate"}
"""Kinds of stage that are no level of users in a steady state: no knee is read from them."""


COLD_STAGE = 9_999
"""The number of the cold start's stage: more than any plan has stages."""
COLD_REQUESTS = 3
"""One after the other: the first meets the cold endpoint, the others show whether it is warm."""


@dataclass(frozen=True, slots=True)
class PhaseMark:
    """A phase of a stage began on one worker.

    ``at_s`` is that worker's clock: seconds since it joined the run, the same clock as
    ``RequestRecord.started_s``. ``users`` is the fleet's user count the shape saw at that moment.
    """

    worker: str
    stage: Stage
    phase: Phase
    at_s: float
    users: int
