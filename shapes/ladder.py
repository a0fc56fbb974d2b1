"""A ladder: one level of users after the other, each held for the same time, then a drain."""

import itertools
from collections.abc import Sequence

from metrics.stage import Phase, Stage
from shapes.plan import Directive, Observation, ramp_limit_s


class LadderPlan:
    """Levels in the order given: ramp until the users are there, settle, hold; then drain.

    ``hold_s`` None holds the last level until the run is stopped. ``drain_limit_s`` bounds the
    wait for answers under way at the end.
    """

    def __init__(
        self,
        levels: Sequence[int],
        hold_s: float | None,
        settle_s: float,
        spawn_rate: float,
        drain_limit_s: float,
        kind: str = "level",
    ) -> None:
        self._stages = [Stage(number, kind, users) for number, users in enumerate(levels)]
        self._drain = Stage(len(levels), "drain", 0)
        self._hold_s = hold_s
        self._settle_s = settle_s
        self._spawn_rate = spawn_rate
        self._drain_limit_s = drain_limit_s
        self._position = 0
        self._phase = Phase.RAMP
        self._since_s: float | None = None
        self._began_with = 0
        self._not_reached: set[int] = set()

    @property
    def not_reached(self) -> frozenset[int]:
        """The ids of levels whose users never all ran."""
        return frozenset(self._not_reached)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The levels and the drain, in order."""
        return (*self._stages, self._drain)

    @property
    def expected_s(self) -> float | None:
        """Ramps, settling and holds together, without the drain."""
        if self._hold_s is None:
            return None
        users = [0, *(stage.target_users for stage in self._stages)]
        ramps_s = sum(abs(b - a) / self._spawn_rate for a, b in itertools.pairwise(users))
        return ramps_s + len(self._stages) * (self._settle_s + self._hold_s)

    def next(self, seen: Observation) -> Directive | None:
        """The directive from now on; None when the drain is over."""
        if self._since_s is None:
            self._enter(Phase.RAMP, seen)
        if self._position < len(self._stages):
            self._move_on(seen)
        elif seen.users == 0 or seen.now_s - self._begun_s >= self._drain_limit_s:
            return None
        return Directive(self.stages[self._position], self._phase, self._spawn_rate)

    @property
    def _begun_s(self) -> float:
        return self._since_s if self._since_s is not None else 0.0

    def _move_on(self, seen: Observation) -> None:
        stage = self._stages[self._position]
        for_s = seen.now_s - self._begun_s
        if self._phase is Phase.RAMP:
            if seen.users == stage.target_users:
                self._enter(Phase.SETTLE if self._settle_s > 0 else Phase.HOLD, seen)
            elif for_s > ramp_limit_s(stage.target_users - self._began_with, self._spawn_rate):
                self._not_reached.add(stage.id)
                self._next_stage(seen)
        elif self._phase is Phase.SETTLE and for_s >= self._settle_s:
            self._enter(Phase.HOLD, seen)
        elif self._phase is Phase.HOLD and self._hold_s is not None and for_s >= self._hold_s:
            self._next_stage(seen)

    def _next_stage(self, seen: Observation) -> None:
        self._position += 1
        last = self._position == len(self._stages)
        self._enter(Phase.DRAIN if last else Phase.RAMP, seen)

    def _enter(self, phase: Phase, seen: Observation) -> None:
        self._phase = phase
        self._since_s = seen.now_s
        if phase is Phase.RAMP:
            self._began_with = seen.users


def constant_plan(
    users: int, hold_s: float | None, settle_s: float, spawn_rate: float, drain_limit_s: float
) -> LadderPlan:
    """One level: Locust's own users, spawn rate and run time, with a window and a drain."""
    return LadderPlan([users], hold_s, settle_s, spawn_rate, drain_limit_s, kind="constant")
