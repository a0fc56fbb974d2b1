"""Runs in which requests were refused."""

from metrics.outcome import Outcome
from reports.load import load_run
from reports.rate_limits import rate_limits_of
from tests.support.records import failed_record
from tests.support.run_builder import build_run, numbered


def refused(**changes):
    """A request that was answered 429, 2 ms after it was sent."""
    return failed_record(
        Outcome.RATE_LIMITED,
        429,
        **{
            "rate_limited_attempts": 1,
            "error_code": "rate_limit_exceeded",
            "error_sample": "HTTP 429 slow down",
            **changes,
        },
    )


def saved(folder, records, levels=(1,), rates=None, **meta):
    """A saved run of these records; ``rates`` make its stages steps of requests/s."""
    if rates is not None:
        levels = (1,) * len(rates)
        meta["stage_plan"] = [
            {"stage": n, "kind": "rate", "target_users": 1, "rate_rps": rate}
            for n, rate in enumerate(rates)
        ]
    return load_run(build_run(folder / "run", numbered(records), levels=levels, **meta))


def limits_of(folder, records, **options):
    """What is said of the limits of such a run."""
    return rate_limits_of(saved(folder, records, **options))
