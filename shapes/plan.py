"""What a load plan is: told what is seen, it says what is wanted next.

A plan knows no clock and no Locust; it is asked about once a second. It goes by the users it is
told are there, never by planned times alone: adding users takes as long as it takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from metrics.knee_level import Level
from metrics.limits_attempts import Attempts
from metrics.stage import Phase, Stage

RAMP_GRACE_S = 15.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What has come in of one stage so far, over the whole fleet.

    Workers report once a second, so it is up to that much behind.
    """

    warm_users: int
    """Users who have finished a request that they sent at this stage."""
    ok: int
    """Successes that ended since the hold began."""
    failed: int
    """Failures since then, refusals included; what was cancelled or never sent is none."""
    ended: int = 0
    """Requests of the stage that have ended, from its beginning on."""
    mean_latency_s: float = 0.0
    """Of the successes; 0 without one."""
    spoilt: bool = False
    """Whether nothing more can come of the stage: it need not be held any longer."""
    rate_limited: int = 0
    """429s among the failed."""


class Measured(Protocol):
    """What the workers have reported; stages are known by their ids."""

    def progress(self, stage: int) -> Progress:
        """How far a stage is."""

    def level(self, stage: Stage, held_s: float) -> Level:
        """What a stage measured until now, as the search for the knee takes it."""

    def attempts(self, stage: int | None = None) -> Attempts:
        """What is known of the attempts of a stage, or of the whole run; one clock for all."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the shape sees: seconds on its clock, and the users of the whole fleet that run.

    ``measured`` is None for plans that go by time and users alone.
    """

    now_s: float
    users: int
    measured: Measured | None = None
    in_flight: int | None = None
    """Requests of the fleet sent and not answered, from the workers' last reports."""
    finished: int = 0
    """Logical requests of the run that are over and reported."""


@dataclass(frozen=True, slots=True)
class Directive:
    """What is wanted now. ``spawn_rate`` is in users per second."""

    stage: Stage
    phase: Phase
    spawn_rate: float
    reason: str = ""
    """Why this stage, for whoever watches; an adaptive plan has one."""

    @property
    def target_users(self) -> int:
        """How many users the stage wants; a drain and a pause want none."""
        return 0 if self.phase in (Phase.DRAIN, Phase.IDLE) else self.stage.target_users


class Plan(Protocol):
    """A load plan; one instance serves one run."""

    @property
    def not_reached(self) -> frozenset[int]:
        """The ids of stages whose users never all ran, so that nothing was held."""

    @property
    def void_reasons(self) -> Mapping[int, str]:
        """Why a search set stages aside while it ran, by their ids; none for other plans."""

    def next(self, seen: Observation) -> Directive | None:
        """The directive from now on; None ends the run."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages so far, in order; those of a fixed plan are known from the start."""

    @property
    def stage_count(self) -> int | None:
        """How many stages there will be, the drain left out; None when that is still open."""

    @property
    def expected_s(self) -> float | None:
        """Roughly how long the plan takes, in seconds; None when it runs until it is stopped."""

    @property
    def ended_by(self) -> str | None:
        """The bound that ended a search before it knew enough, as a sentence; else None."""


def ramp_limit_s(change: int, spawn_rate: float, drain_limit_s: float) -> float:
    """How many seconds a ramp may take before its stage is given up as not reached.

    ``change`` is in users. Those that leave finish their answers first, for which they have
    ``drain_limit_s`` more.
    """
    limit_s = 2 * abs(change) / spawn_rate + RAMP_GRACE_S
    return limit_s + drain_limit_s if change < 0 else limit_s
