"""A cold start before any plan: nobody asks for a while, then a few single requests do."""

from metrics.stage import COLD_REQUESTS, COLD_STAGE, Phase, Stage
from shapes.plan import Directive, Observation, Plan
from shapes.plan_parts import WrappingPlan

PROBE_LIMIT_S = 120.0


class ColdStartPlan(WrappingPlan):
    """Waits ``idle_s`` without load, has one user ask three times, then follows another plan.

    The probe's stage has a number that no plan reaches, so that the other stages keep theirs.
    """

    def __init__(self, plan: Plan, idle_s: float) -> None:
        super().__init__(plan)
        self._idle_s = idle_s
        self._idle = Stage(COLD_STAGE, "cold", 0)
        self._probe = Stage(COLD_STAGE, "cold", 1)
        self._began_s: float | None = None
        self._probing_since_s: float | None = None
        self._answered_before = 0
        self._over = False

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The other plan's stages, its drain, and the probe."""
        return (*self._plan.stages, self._probe)

    @property
    def expected_s(self) -> float | None:
        """The other plan's time and the idle time; the probe's answers are not known."""
        expected_s = self._plan.expected_s
        return None if expected_s is None else expected_s + self._idle_s

    def next(self, seen: Observation) -> Directive | None:
        """Idle, then the probe, then the other plan's directives."""
        if self._over:
            return self._plan.next(seen)
        if self._began_s is None:
            self._began_s = seen.now_s
        if self._probing_since_s is None:
            if seen.now_s - self._began_s < self._idle_s:
                return Directive(self._idle, Phase.IDLE, 1.0)
            self._probing_since_s, self._answered_before = seen.now_s, seen.finished
        answered = seen.finished - self._answered_before
        waited_s = seen.now_s - self._probing_since_s
        if answered >= COLD_REQUESTS or waited_s >= PROBE_LIMIT_S:
            self._over = True
            return self._plan.next(seen)
        return Directive(self._probe, Phase.COLD, 1.0)
