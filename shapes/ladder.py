"""A ladder: one level of users after the other, each held for the same time, then a drain."""

from collections.abc import Sequence

from metrics.stage import Stage
from shapes.steps import Step, StepPlan


class LadderPlan(StepPlan):
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
        steps = [
            Step(Stage(number, kind, users), settle_s, hold_s)
            for number, users in enumerate(levels)
        ]
        super().__init__(steps, spawn_rate, drain_limit_s)


def constant_plan(
    users: int, hold_s: float | None, settle_s: float, spawn_rate: float, drain_limit_s: float
) -> LadderPlan:
    """One level: Locust's own users, spawn rate and run time, with a window and a drain."""
    return LadderPlan([users], hold_s, settle_s, spawn_rate, drain_limit_s, kind="constant")
