"""Signals to a worker in mid-run."""

import signal
import time

import pytest

from tests.support.fleets import Fleet, ids
from tests.support.processes import simulator
from tests.support.runs import server_log, spooled

pytestmark = [pytest.mark.live, pytest.mark.long]


def lost_worker(run):
    """The stages that the report voids for a lost worker."""
    return [f.get("stage") for f in run.summary["validity"] if f["rule"] == "worker_lost"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_O03_L08_an_interrupted_worker_drains_and_loses_nothing(tmp_path, stack, number):
    """One signal with answers of 7 s under way: they are finished and kept, the worker leaves with
    0, and the stage is void."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    load = ("-u", "4", "-r", "4", "--settle", "0s", "--output-tokens", "220", "--ignore-eos")
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *load, "-t", "18s")
    fleet.wait_for("measuring")
    time.sleep(2)
    fleet.workers[0].send_signal(number)
    assert 0 == fleet.workers[0].wait(40), fleet.told(0)
    run = fleet.finish()

    asked = ids(server_log(log))
    assert asked == sorted(record.request_id for record in spooled(run.folder))
    assert len(asked) == run.summary["totals"]["planned"] == run.summary["totals"]["ok"]
    assert 0 in lost_worker(run)
    assert (True, 4) == (run.run["complete"], run.exit_code)


def test_a_second_interrupt_of_a_worker_ends_it_at_once(tmp_path, stack):
    """The answers under way are given up, not waited for: what the spools lack was under way then;
    the other worker goes on to the plan's end and nothing hangs."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    load = ("-u", "4", "-r", "4", "--settle", "0s", "--output-tokens", "700", "--ignore-eos")
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *load, "-t", "12s")
    fleet.wait_for("measuring")
    time.sleep(3)
    fleet.workers[0].send_signal(signal.SIGINT)
    time.sleep(1)
    fleet.workers[0].send_signal(signal.SIGINT)
    assert 0 != fleet.workers[0].wait(15), fleet.told(0)
    gone_s = time.monotonic()
    run = fleet.finish()

    asked = {entry["request_id"]: entry for entry in server_log(log)}
    kept = [record.request_id for record in spooled(run.folder)]
    assert len(kept) == len(set(kept))
    assert set(kept) <= set(asked)
    for name in asked.keys() - set(kept):
        entry = asked[name]
        assert entry["received_monotonic_s"] + entry["end_s"] > gone_s - 2
    assert 4 == run.exit_code


def test_a_worker_that_drains_takes_no_new_users(tmp_path, stack):
    """SIGTERM shortly before a level with more users: the master, who does not know yet, sends the
    worker its share of them; they ask for nothing, so nothing is lost when the worker leaves."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    load = ("--shape", "ladder", "--stages", "4,16", "--hold", "5s", "--settle", "0s")
    long = ("--output-tokens", "220", "--ignore-eos")
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *load, *long)
    fleet.wait_for("stage 1/2: 4 users, measuring")
    time.sleep(3)
    fleet.workers[0].terminate()
    fleet.wait_for("stage 2/2: going")
    assert fleet.workers[0].poll() is None, "it drains still"
    assert 0 == fleet.workers[0].wait(40), fleet.told(0)
    run = fleet.finish()

    asked = ids(server_log(log))
    assert asked == sorted(record.request_id for record in spooled(run.folder))
    assert len(asked) == run.summary["totals"]["planned"]
