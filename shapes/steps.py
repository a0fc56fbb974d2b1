"""A plan of steps: each ramps until its users are there, settles, and is held; then a drain."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metrics.stage import Phase, Stage
from shapes.plan import Directive, Observation, ramp_limit_s


@dataclass(frozen=True, slots=True)
class Step:
    """One stage and how long it settles and is held, in seconds; ``hold_s`` None holds for ever."""

    stage: Stage
    settle_s: float
    hold_s: float | None


class StepPlan:
    """Follows its steps in order, by the users that are seen.

    ``drain_limit_s`` bounds the wait for answers under way: at the end, and beside a ramp's own
    limit when users leave, because each finishes its answer first.
    """

    def __init__(self, steps: Sequence[Step], spawn_rate: float, drain_limit_s: float) -> None:
        self._steps = tuple(steps)
        self._drain = Stage(len(self._steps), "drain", 0)
        self._spawn_rate = spawn_rate
        self._drain_limit_s = drain_limit_s
        self._position = 0
        self._phase = Phase.RAMP
        self._since_s: float | None = None
        self._began_with = 0
        self._not_reached: set[int] = set()

    @property
    def not_reached(self) -> frozenset[int]:
        """The ids of stages whose users never all ran."""
        return frozenset(self._not_reached)

    @property
    def void_reasons(self) -> Mapping[int, str]:
        """None is set aside."""
        return {}

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The steps' stages and the drain, in order."""
        return (*(step.stage for step in self._steps), self._drain)

    @property
    def stage_count(self) -> int:
        """How many steps there are."""
        return len(self._steps)

    @property
    def expected_s(self) -> float | None:
        """Ramps, settling and holds together, without the drain."""
        users = [0, *(step.stage.target_users for step in self._steps)]
        total_s = sum(abs(b - a) / self._spawn_rate for a, b in itertools.pairwise(users))
        for step in self._steps:
            if step.hold_s is None:
                return None
            total_s += step.settle_s + step.hold_s
        return total_s

    @property
    def ended_by(self) -> None:
        """No bound ends it: its steps do."""
        return None

    def next(self, seen: Observation) -> Directive | None:
        """The directive from now on; None when the drain is over."""
        if self._since_s is None:
            self._enter(Phase.RAMP, seen)
        if self._position < len(self._steps):
            self._move_on(seen)
        elif seen.users == 0 or seen.now_s - self._begun_s >= self._drain_limit_s:
            return None
        return Directive(self.stages[self._position], self._phase, self._spawn_rate)

    def _ends_early(self, seen: Observation) -> bool:
        """Whether no more load shall come; asked while a step settles or is held."""
        return False

    @property
    def _begun_s(self) -> float:
        return self._since_s if self._since_s is not None else 0.0

    def _move_on(self, seen: Observation) -> None:
        step = self._steps[self._position]
        for_s = seen.now_s - self._begun_s
        if self._phase is Phase.RAMP:
            if seen.users == step.stage.target_users:
                self._enter(Phase.SETTLE if step.settle_s > 0 else Phase.HOLD, seen)
            elif for_s > ramp_limit_s(
                step.stage.target_users - self._began_with, self._spawn_rate, self._drain_limit_s
            ):
                self._not_reached.add(step.stage.id)
                self._next_step(seen)
        elif self._ends_early(seen):
            self._position = len(self._steps)
            self._enter(Phase.DRAIN, seen)
        elif self._phase is Phase.SETTLE and for_s >= step.settle_s:
            self._enter(Phase.HOLD, seen)
        elif self._phase is Phase.HOLD and step.hold_s is not None and for_s >= step.hold_s:
            self._next_step(seen)

    def _next_step(self, seen: Observation) -> None:
        self._position += 1
        last = self._position == len(self._steps)
        self._enter(Phase.DRAIN if last else Phase.RAMP, seen)
        if not last and seen.users == self._steps[self._position].stage.target_users:
            # Nothing to ramp: a tick without a phase of its own would be a gap in an open loop.
            self._move_on(seen)

    def _enter(self, phase: Phase, seen: Observation) -> None:
        self._phase = phase
        self._since_s = seen.now_s
        if phase is Phase.RAMP:
            self._began_with = seen.users
