"""From settings to the plan of a run, and whether this machine can carry it."""

import contextlib
import resource
from collections.abc import Mapping, Sequence

from gevent import get_hub
from locust import User

from metrics.knee_search import KneeSearch, SearchSettings
from metrics.limits import limits_found
from metrics.limits_attempts import Attempts
from metrics.limits_result import LimitEstimate
from options import OPEN_LOOPS
from settings import Settings
from shapes.cold_start import ColdStartPlan
from shapes.knee import KneePlan
from shapes.ladder import LadderPlan, constant_plan
from shapes.limits import LimitsPlan
from shapes.limits_search import LimitsBounds
from shapes.open_loop import OpenLoopPlan
from shapes.plan import Plan
from shapes.soak import soak_plan
from shapes.spike import spike_plan
from users.open_loop import OpenLoopUser
from workloads.traffic import TrafficKind

LEVEL_LIMIT_S = 600.0
"""Longest hold of one level of a search."""
SPARE_DESCRIPTORS = 200
"""For files, the master's line, the page: what is left is for streams."""


def choose_plan(
    settings: Settings, spawn_rate_given: bool, drain_limit_s: float, workers: int = 1
) -> Plan:
    """The plan that ``--shape`` names, after a cold start when ``--idle-before`` asks for one."""
    plan = _shape_plan(settings, spawn_rate_given, drain_limit_s, workers)
    return ColdStartPlan(plan, settings.idle_before_s) if settings.idle_before_s else plan


def _shape_plan(
    settings: Settings, spawn_rate_given: bool, drain_limit_s: float, workers: int
) -> Plan:
    """A ladder adds its users at once unless a rate was given: Locust's default of one user a
    second would make it crawl. So do the others whose load is no ramp.
    """
    hold_s, settle_s = settings.hold_s, settings.settle_s
    at_once = settings.spawn_rate if spawn_rate_given else None
    if settings.shape == "ladder":
        stages = settings.stages
        rate = at_once or float(max(stages))
        return LadderPlan(stages, hold_s, settle_s, rate, drain_limit_s)
    if settings.shape == "knee":
        bounds = SearchSettings(
            most_users=settings.users,
            most_requests=settings.search_requests or None,
            most_s=settings.run_time_s,
            down_sweep=settings.down_sweep,
        )
        return KneePlan(KneeSearch(bounds), settle_s, LEVEL_LIMIT_S, at_once, drain_limit_s)
    if settings.shape == "soak":
        assert settings.run_time_s is not None  # refused before
        rate = at_once or float(settings.users)
        return soak_plan(settings.users, settings.run_time_s, settle_s, rate, drain_limit_s)
    if settings.shape == "spike":
        return spike_plan(
            settings.users,
            settings.spike_users,
            hold_s,
            settings.spike_hold_s,
            settle_s,
            drain_limit_s,
        )
    if settings.shape == "open-loop":
        rates, tokens = settings.rates_rps, tokens_per_request(settings)
        return OpenLoopPlan(rates, hold_s, settle_s, workers, drain_limit_s, tokens)
    if settings.shape == "limits":
        search = LimitsBounds(
            first_rate=(settings.rates_rps or (1.0,))[0],
            tokens_per_request=tokens_per_request(settings),
            hold_s=hold_s,
            most_requests=settings.search_requests or None,
            most_s=settings.run_time_s,
        )
        return LimitsPlan(search, _found_meanwhile, workers, drain_limit_s)
    return constant_plan(
        settings.users,
        settings.run_time_s,
        settle_s,
        settings.spawn_rate,
        drain_limit_s,
    )


def _found_meanwhile(attempts: Attempts) -> Sequence[LimitEstimate]:
    # A few tenths of a second of pure computing, for which no arrival of this process shall wait.
    found: Sequence[LimitEstimate] = get_hub().threadpool.apply(limits_found, (attempts,))
    return found


def tokens_per_request(settings: Settings) -> float | None:
    """Nominal tokens of a request in the mean: prefix, user text and asked maximum.

    None when they do not set the pace.
    """
    if not settings.paced_by_tokens:
        return None
    prefix_tokens = settings.prefix_tokens if settings.prefixes else 0
    return prefix_tokens + settings.prompt_tokens.mean + max(1.0, settings.output_tokens.mean)


def length_of(settings: Settings, plan: Plan) -> str:
    """How long the run will be, for whoever starts it; of a search its bounds."""
    most = settings.max_requests
    if plan.stage_count is not None:
        expected_s = plan.expected_s
        if expected_s is None:
            return f"until {most:,} requests are sent" if most else "until stopped"
        about = f"about {expected_s:.0f} s"
        return f"{about}, at most {most:,} requests" if most else about
    what = "for a rate limit" if settings.shape == "limits" else f"up to {settings.users} users"
    bounds = []
    if requests := [bound for bound in (settings.search_requests, most) if bound]:
        bounds.append(f"at most {min(requests):,} requests")
    if settings.run_time_s:
        bounds.append(f"at most {settings.run_time_s:,.0f} s")
    return ", ".join((f"searches {what}", *(bounds or ["until it is found"])))


def choose_users(
    settings: Settings, user_classes: Mapping[TrafficKind, type[User]]
) -> list[type[User]]:
    """The classes of the run's users, weighted as ``--traffic`` says."""
    if settings.shape in OPEN_LOOPS:
        return [OpenLoopUser]
    for share in settings.traffic:
        user_classes[share.kind].weight = share.weight
    return [user_classes[share.kind] for share in settings.traffic]


def raise_open_file_limit() -> None:
    """Let this process open as many files as it is allowed to.

    Locust asks for 10,000 and gets nothing where fewer are allowed.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # what matters is the limit that is left
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def refusal(settings: Settings, workers: int) -> str | None:
    """Why these settings cannot be run by so many workers, and what to do; None when they can."""
    most = settings.max_in_flight
    if most and most < workers:
        return (
            f"--max-in-flight {most}: each of the {workers} workers needs one at least; write "
            f"{workers} or more, or start fewer workers"
        )
    if settings.shape == "knee" and (too_few := _search_bounded(settings, workers)) is not None:
        return too_few
    if settings.shape == "limits" and settings.retrying.retries:
        return (
            f"--retries {settings.retrying.retries}: leave it out with --shape limits, where "
            "retries of refused requests would be more load than its rates say"
        )
    return too_many_users(settings, workers)


def _search_bounded(settings: Settings, workers: int) -> str | None:
    """Why the client itself would end the search, so that what it finds would not be tested."""
    most, users = settings.max_in_flight, settings.users
    # Users and slots are shared out one by one: the worker with the most users may have the fewest.
    needed = users if workers <= 1 else workers * -(-users // workers)
    if most and most < needed:
        return (
            f"--max-in-flight {most}: a search up to {users} users needs as many requests in "
            f"flight, or the client itself would be the limit that it finds; leave it out, write "
            f"{needed} or more, or search only up to {most // max(1, workers) * max(1, workers)} "
            "users (-u)"
        )
    if settings.leaving.ratio >= 1:
        return (
            "--cancel-ratio 1: a search reads successes, and no user would wait for one; write a "
            "smaller share"
        )
    return None


def too_many_users(settings: Settings, workers: int) -> str | None:
    """What to do when the users need more descriptors than a process may open; None when not.

    The limit is this machine's; workers on others are taken to have the same.
    """
    most = {
        "ladder": max(settings.stages),
        "spike": settings.spike_users,
        "open-loop": 0,  # what is in flight there is the endpoint's doing
        "limits": 0,
    }
    users = -(-most.get(settings.shape, settings.users) // max(1, workers))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if users + SPARE_DESCRIPTORS <= limit:
        return None
    return (
        f"{users} users on one process need {users + SPARE_DESCRIPTORS} open files and the limit "
        f"is {limit}; add workers, or raise it with ulimit -n"
    )
