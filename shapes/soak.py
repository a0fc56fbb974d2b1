"""A soak: the same users for minutes or hours, to see whether anything drifts."""

from metrics.stage import Stage
from shapes.steps import Step, StepPlan


def soak_plan(
    users: int, run_time_s: float, settle_s: float, spawn_rate: float, drain_limit_s: float
) -> StepPlan:
    """One long window of ``run_time_s``; ramp and settling come before it and are left out."""
    step = Step(Stage(0, "soak", users), settle_s, run_time_s)
    return StepPlan([step], spawn_rate, drain_limit_s)
