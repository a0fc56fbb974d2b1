"""The rate of an open loop is the fleet's: workers that come or go do not change it."""

import contextlib
import signal

import pandas
import pytest

from tests.support.fleets import Fleet
from tests.support.processes import simulator, wait_until
from tests.support.runs import server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]

RATES = (24, 30)
WORKERS = 3


@pytest.fixture(
    scope="module",
    params=[signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)],
    ids=["killed", "ended"],
)
def run_of_two_steps(request, tmp_path_factory):
    """Two rates over three workers. In the first a fourth comes, and when it has settled one of
    the three goes; gives the run, its records and the server's log."""
    folder = tmp_path_factory.mktemp("rate")
    log = folder / "server.jsonl"
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(simulator("--profile", "null", log=log))
        load = ("--shape", "open-loop", "--rates", ",".join(map(str, RATES)))
        more = ("--arrivals", "constant", "--hold", "17s", "--settle", "0s")
        fleet = Fleet(stack, folder / "runs", "--host", url, *load, *more, workers=WORKERS)
        fleet.wait_for("measuring")
        fleet.add_worker()
        fleet.wait_for("4 workers connected")
        before = len(server_log(log))
        wait_until(lambda: len(server_log(log)) > before + RATES[0], 30, "a second with it")
        fleet.workers[0].send_signal(request.param)
        run = fleet.finish()
    records = pandas.read_parquet(run.folder / "requests.parquet")
    return run, records, server_log(log)


def numbers_of(records, stage):
    """The numbers of a step's arrivals, sorted."""
    return sorted(records.user[records.stage == stage])


def test_L05_a_rate_survives_a_worker_that_comes_and_one_that_goes(run_of_two_steps):
    """No arrival is sent twice. Those that are missing in the first step are of the one worker that
    went: others have its share soon after; the second step is whole, at its rate by the server's
    log, although Locust has one worker less for it."""
    run, records, asked = run_of_two_steps
    first, second = (numbers_of(records, stage) for stage in (0, 1))

    for numbers in (first, second):
        assert len(numbers) == len(set(numbers)), run.output[-3000:]
    missing = sorted(set(range(max(first))) - set(first))
    assert 1 == len({number % WORKERS for number in missing}), missing
    assert max(first) - max(missing) > 2 * RATES[0], "its share is sent by others again"
    assert list(range(len(second))) == second
    assert len(second) >= 17 * RATES[1]
    ids = set(records.request_id[records.stage == 1])
    arrived_s = sorted(e["received_monotonic_s"] for e in asked if e["request_id"] in ids)
    assert len(second) == len(arrived_s)
    rate_rps = (len(arrived_s) - 1) / (arrived_s[-1] - arrived_s[0])
    assert rate_rps == pytest.approx(RATES[1], rel=0.05)
    # Two of three workers alone would send two thirds of it.
    for place in range(0, len(arrived_s) - 5 * RATES[1], RATES[1]):
        span_s = arrived_s[place + 5 * RATES[1]] - arrived_s[place]
        assert 5 * RATES[1] / span_s > 0.8 * RATES[1]


def test_L05_only_the_step_in_which_the_worker_went_is_void(run_of_two_steps):
    """Its arrivals were not all sent: the report says so of that step, and of no other."""
    run, _, _ = run_of_two_steps
    found = [finding for finding in run.summary["validity"] if finding["rule"] == "worker_lost"]

    # Once of the step, once of the run.
    assert {0, None} == {finding["stage"] for finding in found}
    assert 4 == run.exit_code
