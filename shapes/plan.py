"""What a load plan is: told what is seen, it says what is wanted next.

A plan knows no clock and no Locust; it is asked about once a second. It goes by the users it is
told are there, never by planned times alone: adding users takes as long as it takes.
"""

from dataclasses import dataclass
from typing import Protocol

from metrics.stage import Phase, Stage

RAMP_GRACE_S = 15.0


@dataclass(frozen=True, slots=True)
class Observation:
    """What the shape sees: seconds on its clock, and the users of the whole fleet that run."""

    now_s: float
    users: int


@dataclass(frozen=True, slots=True)
class Directive:
    """What is wanted now. ``spawn_rate`` is in users per second."""

    stage: Stage
    phase: Phase
    spawn_rate: float

    @property
    def target_users(self) -> int:
        """How many users the stage wants; a drain wants none."""
        return 0 if self.phase is Phase.DRAIN else self.stage.target_users


class Plan(Protocol):
    """A load plan; one instance serves one run."""

    @property
    def not_reached(self) -> frozenset[int]:
        """The ids of stages whose users never all ran, so that nothing was held."""

    def next(self, seen: Observation) -> Directive | None:
        """The directive from now on; None ends the run."""

    @property
    def expected_s(self) -> float | None:
        """Roughly how long the plan takes, in seconds; None when it runs until it is stopped."""


def ramp_limit_s(users_to_add: int, spawn_rate: float) -> float:
    """How long a ramp may take before its stage is given up as not reached."""
    return 2 * abs(users_to_add) / spawn_rate + RAMP_GRACE_S
