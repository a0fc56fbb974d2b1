"""From settings to the plan of a run, and whether this machine can carry it."""

import contextlib
import resource

from settings import Settings
from shapes.ladder import LadderPlan, constant_plan

SPARE_DESCRIPTORS = 200
"""For files, the master's line, the page: what is left is for streams."""


def choose_plan(settings: Settings, spawn_rate_given: bool, drain_limit_s: float) -> LadderPlan:
    """The plan that ``--shape`` names.

    A ladder adds its users at once unless a rate was given: Locust's default of one user a second
    would make it crawl.
    """
    if settings.shape == "ladder":
        rate = settings.spawn_rate if spawn_rate_given else float(max(settings.stages))
        stages, hold_s, settle_s = settings.stages, settings.hold_s, settings.settle_s
        return LadderPlan(stages, hold_s, settle_s, rate, drain_limit_s)
    return constant_plan(
        settings.users,
        settings.run_time_s,
        settings.settle_s,
        settings.spawn_rate,
        drain_limit_s,
    )


def raise_open_file_limit() -> None:
    """Let this process open as many files as it is allowed to.

    Locust asks for 10,000 and gets nothing where fewer are allowed.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # what matters is the limit that is left
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def too_many_users(settings: Settings, workers: int) -> str | None:
    """What to do when the users need more descriptors than a process may open; None when not.

    The limit is this machine's; workers on others are taken to have the same.
    """
    ladder = settings.shape == "ladder"
    users = -(-(max(settings.stages) if ladder else settings.users) // max(1, workers))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if users + SPARE_DESCRIPTORS <= limit:
        return None
    return (
        f"{users} users on one process need {users + SPARE_DESCRIPTORS} open files and the limit "
        f"is {limit}; add workers, or raise it with ulimit -n"
    )
