"""A plan that can be ended from outside: for a budget, or because going on makes no sense."""

from dataclasses import dataclass
from enum import StrEnum

from metrics.stage import Phase, Stage
from shapes.plan import Directive, Observation, Plan
from shapes.plan_parts import WrappingPlan

_DRAIN_SPAWN_RATE = 100.0


class EndKind(StrEnum):
    """Why a plan was ended before its own end."""

    BUDGET = "budget"
    """The load has cost what it may."""
    QUOTA = "quota"
    """The endpoint's quota is used up: no request can succeed any more."""
    REQUESTS = "requests"
    """All requests that were asked for are sent."""
    DISK = "disk"
    """Records can be kept no longer."""


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """An order to end, and the sentence that says why."""

    kind: EndKind
    reason: str


class BoundedPlan(WrappingPlan):
    """Follows another plan until it is told to end; then there is only a drain."""

    def __init__(self, plan: Plan, drain_limit_s: float) -> None:
        super().__init__(plan)
        self._drain_limit_s = drain_limit_s
        self._begun: list[Stage] = []
        self._drain: Stage | None = None
        self._drain_since_s = 0.0
        self.ended_early: EarlyEnd | None = None
        """The order to end that was given; None while the plan goes its own way."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """As the plan has them; after an early end those that had begun, and the drain."""
        return self._plan.stages if self._drain is None else (*self._begun, self._drain)

    @property
    def ended_by(self) -> str | None:
        """The bound that ended a search before it knew enough, as a sentence; else None."""
        if self.ended_early is not None and self._plan.stage_count is None:
            return self.ended_early.reason
        return super().ended_by

    def end(self, order: EarlyEnd) -> None:
        """Ask for no more load from the next turn on; the first order stays."""
        if self.ended_early is None:
            self.ended_early = order

    def next(self, seen: Observation) -> Directive | None:
        """The directive from now on; None when the plan, or the drain of an early end, is over."""
        if self.ended_early is None:
            return self._follow(seen)
        if self._drain is None:
            ids = [stage.id for stage in self._begun if stage.kind != "cold"]
            self._begun = [stage for stage in self._begun if stage.kind != "drain"]
            self._drain = Stage(max(ids, default=-1) + 1, "drain", 0)
            self._drain_since_s = seen.now_s
        elif seen.users == 0 or seen.now_s - self._drain_since_s >= self._drain_limit_s:
            return None
        reason = self.ended_early.reason
        return Directive(self._drain, Phase.DRAIN, _DRAIN_SPAWN_RATE, reason)

    def _follow(self, seen: Observation) -> Directive | None:
        directive = self._plan.next(seen)
        if directive is not None and directive.stage not in self._begun[-1:]:
            self._begun.append(directive.stage)
        return directive
