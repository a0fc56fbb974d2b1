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


@dataclass(frozen=True, slots=True)
class Stage:
    """One level of the load plan.

    ``id`` counts from 0 in the order of the run; ``kind`` names the shape's reason for it
    (``level``, ``constant``, ``drain``); ``target_users`` is the closed-loop population wanted.
    """

    id: int
    kind: str
    target_users: int


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
