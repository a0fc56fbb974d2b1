"""A spike: some users, a burst of many, then the same users again, to see the endpoint recover."""

from metrics.stage import Stage
from shapes.steps import Step, StepPlan


def spike_plan(
    base_users: int,
    spike_users: int,
    hold_s: float,
    spike_hold_s: float,
    settle_s: float,
    drain_limit_s: float,
) -> StepPlan:
    """``hold_s`` before and after the burst; users come at once, and leave as they finish.

    The burst lasts ``spike_hold_s`` from when all its users are there. Nothing settles after it:
    how it settles is the question.
    """
    steps = (
        Step(Stage(0, "base", base_users), settle_s, hold_s),
        Step(Stage(1, "burst", spike_users), 0.0, spike_hold_s),
        Step(Stage(2, "after", base_users), 0.0, hold_s),
    )
    return StepPlan(steps, float(max(base_users, spike_users)), drain_limit_s)
