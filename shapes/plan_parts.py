"""What several plans have in common: what a search answers while it is open, and what a plan that
wraps another one passes on."""

from collections.abc import Mapping

from metrics.stage import Stage
from shapes.plan import Plan


class SearchedPlan:
    """The part of a plan whose stages come one by one, until a search knows enough."""

    def __init__(self) -> None:
        self._stages: list[Stage] = []
        self._not_reached: set[int] = set()

    @property
    def not_reached(self) -> frozenset[int]:
        """The ids of stages whose users never all ran."""
        return frozenset(self._not_reached)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages so far; the drain once it has begun."""
        return tuple(self._stages)

    @property
    def stage_count(self) -> None:
        """Still open: the search ends when it knows enough."""
        return None

    @property
    def expected_s(self) -> None:
        """Still open, for the same reason."""
        return None


class WrappingPlan:
    """The part of a plan that is as another plan has it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @property
    def not_reached(self) -> frozenset[int]:
        """The ids of stages whose users never all ran."""
        return self._plan.not_reached

    @property
    def void_reasons(self) -> Mapping[int, str]:
        """Why the search set stages aside while it ran, by their ids."""
        return self._plan.void_reasons

    @property
    def stage_count(self) -> int | None:
        """How many stages there will be, the drain left out; None when that is still open."""
        return self._plan.stage_count

    @property
    def expected_s(self) -> float | None:
        """Roughly how long the plan takes, in seconds; None when it runs until it is stopped."""
        return self._plan.expected_s

    @property
    def ended_by(self) -> str | None:
        """The bound that ended a search before it knew enough, as a sentence; else None."""
        return self._plan.ended_by
