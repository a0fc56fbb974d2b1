"""A plan that is followed by somebody else too: each directive is told as it is given."""

from collections.abc import Callable

from metrics.stage import Stage
from shapes.plan import Directive, Observation, Plan
from shapes.plan_parts import WrappingPlan

Note = Callable[[Directive], None]


class FollowedPlan(WrappingPlan):
    """The plan as it is; ``note`` hears each directive."""

    def __init__(self, plan: Plan, note: Note) -> None:
        super().__init__(plan)
        self._note = note

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages so far, in order."""
        return self._plan.stages

    def next(self, seen: Observation) -> Directive | None:
        """The plan's own directive; None ends the run."""
        directive = self._plan.next(seen)
        if directive is not None:
            self._note(directive)
        return directive
