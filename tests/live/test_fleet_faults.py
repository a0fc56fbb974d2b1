"""Faults of a fleet, held against the server's log: no request is lost, none is kept twice, no run
hangs, and what was not as planned is said."""

import json
import shutil
import signal
import time
from datetime import datetime

import pytest

from metrics.run_files import read_rows
from tests.support.fleets import Fleet, ids
from tests.support.processes import ROOT, simulator, wait_until
from tests.support.runs import run_headless, server_log, spooled

pytestmark = pytest.mark.live

USERS = ("-u", "6", "-r", "6", "--settle", "0s", "--output-tokens", "16")


def seconds_of(run):
    """From its first user to its last, by its own two stamps."""
    began, ended = (datetime.fromisoformat(run.run[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


def spool_ids(folder):
    """The ids in all spools."""
    return sorted(record.request_id for record in spooled(folder))


def kept_by_worker(folder):
    """How many requests each spool has."""
    paths = (folder / "spool").glob("*.jsonl")
    return {path.stem: len(list(read_rows(path.open("rb"), path.name))) for path in paths}


def assert_void_for_a_lost_worker(run, stage):
    """The report says so of the stage, run.json of one worker, and the exit code of the run."""
    found = [finding for finding in run.summary["validity"] if finding["rule"] == "worker_lost"]
    assert stage in [finding.get("stage") for finding in found], run.output[-3000:]
    assert 1 == sum(entry["lost"] for entry in run.run["workers"])
    assert 4 == run.exit_code


@pytest.mark.parametrize(
    ("workers", "load"),
    [
        (0, ("-u", "6", "-r", "6", "-t", "60s")),
        (3, ("-u", "6", "-r", "6", "-t", "60s", "--warmup-requests", "20", "--reset-stats")),
        (4, ("--shape", "open-loop", "--rate", "40", "--hold", "60s")),
    ],
    ids=["one process", "three workers", "open loop"],
)
def test_L03_L05_X01_X03_exactly_so_many_requests_are_sent_and_kept(tmp_path, workers, load):
    """--max-requests 200: the server was asked 200 times, all of them are in the report, and the
    run is over, complete, long before the 60 s that it might have taken. All workers share three
    prefixes, to the byte, and no prompt is sent twice."""
    log = tmp_path / "server.jsonl"
    with simulator("--profile", "null", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, *load, "--settle", "0s", "--max-requests", "200", "--prefixes", "3"),
            workers=workers,
            limit_s=100,
        )

    asked = server_log(log)
    totals = run.summary["totals"]
    assert 200 == len(asked) == totals["planned"] == totals["ok"], run.output[-2000:]
    if workers:
        assert ids(asked) == spool_ids(run.folder)
        assert workers == len(run.run["workers"])
    for worker in run.run["workers"]:
        # One machine has one clock: what is estimated must be 0 to within its own error.
        assert abs(worker["wall_offset_s"]) <= worker["wall_offset_error_s"] < 1
    assert 3 == len({entry["system_sha256"] for entry in asked})
    assert 200 == len({entry["user_sha256"] for entry in asked})
    assert run.run["complete"]
    assert seconds_of(run) < 30
    assert "all 200 requests of --max-requests were sent" == run.run["ended_early"]


def test_workers_end_within_seconds_of_a_killed_master(tmp_path, stack):
    """kill -9 on the master: 5 s of silence later no request is sent, the exit code is not 0, and
    each worker says where its requests are; together that is what the server was asked."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *USERS, "-t", "60s")
    fleet.wait_for("measuring")
    time.sleep(3)
    fleet.master.kill()
    fleet.master.wait()
    killed_s = time.monotonic()
    codes = [worker.wait(30) for worker in fleet.workers]
    gone_s = time.monotonic() - killed_s

    assert [1, 1] == codes
    assert 4 < gone_s < 30, "Locust by itself goes on for 60 s"
    assert ids(server_log(log)) == spool_ids(fleet.folder())
    for number in (0, 1):
        told = fleet.told(number)
        assert "the master was silent for 5 s and is taken for lost" in told
        assert f"python -m reports merge {fleet.folder()}" in told
        assert str(fleet.folder() / "spool") in told


def test_a_worker_of_another_suite_is_refused(tmp_path, stack):
    """One line of a worker's code differs: it is told so, by both hashes, the run goes on without
    it as planned, and the server is asked by the others alone."""
    other = tmp_path / "other"
    skip = shutil.ignore_patterns("__pycache__", ".*", "runs", "tests", "bench", "docs")
    shutil.copytree(ROOT, other, ignore=skip)
    with (other / "workloads" / "prompts.py").open("a") as code:
        code.write("# another version\n")
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator("--profile", "null", log=log))
    load = ("--shape", "open-loop", "--rate", "20", "--hold", "60s", "--max-requests", "90")
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *load, "--settle", "0s", workers=2)
    fleet.add_worker("-f", other / "locustfile.py")
    run = fleet.finish()

    told = fleet.told(2)
    refusal = "cannot take part: its code is "
    notices = [notice for notice in run.run["notices"] if refusal in notice]
    assert 1 == len(notices), run.output[-3000:]
    assert notices[0] in run.output
    assert "and the master's" in notices[0]
    assert 90 == len(server_log(log)) == run.summary["totals"]["ok"]
    assert ids(server_log(log)) == spool_ids(run.folder)
    assert 2 == len(run.run["workers"])
    assert run.run["complete"]
    assert "Traceback" not in told


def test_a_stopped_worker_that_goes_on_loses_nothing(tmp_path, stack):
    """SIGSTOP for 8 s: the master misses it and says in which stage, on waking it does not take the
    master for lost, and every request of the server's log is in one spool and in the report."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *USERS, "-t", "16s")
    fleet.wait_for("measuring")
    time.sleep(2)
    worker = fleet.workers[0]
    worker.send_signal(signal.SIGSTOP)
    time.sleep(8)
    worker.send_signal(signal.SIGCONT)
    run = fleet.finish()

    asked = ids(server_log(log))
    assert asked == spool_ids(run.folder), run.output[-3000:]
    assert len(asked) == run.summary["totals"]["planned"]
    absences = [entry["away"] for entry in run.run["workers"] if entry["away"]]
    assert 1 == len(absences)
    assert 0 == absences[0][0]["stage"]
    assert absences[0][0]["missed_s"] > 1
    found = [finding for finding in run.summary["validity"] if finding["rule"] == "worker_lost"]
    assert [0] == [finding["stage"] for finding in found], run.output[-3000:]
    assert 4 == run.exit_code
    assert "is silent or gone: its part of the load is not run" in run.output
    assert "taken for lost" not in fleet.told(0) + fleet.told(1)
    assert [0, 0] == [each.wait(10) for each in fleet.workers]


def test_a_killed_worker_loses_two_seconds_at_most(tmp_path, stack):
    """kill -9: what its spool lacks was sent in its last 2 s, the stage is void for that reason,
    and its share of --max-requests is said to be lost."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    load = (*USERS, "-t", "60s", "--max-requests", "150")
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *load)
    fleet.wait_for("measuring")
    time.sleep(3)
    fleet.workers[0].kill()
    fleet.workers[0].wait()
    killed_s = time.monotonic()
    run = fleet.finish()

    asked = {entry["request_id"]: entry for entry in server_log(log)}
    kept = spool_ids(run.folder)
    assert len(kept) == len(set(kept))
    assert set(kept) <= set(asked)
    missing = [asked[one] for one in asked.keys() - set(kept)]
    # Sent at most 2 s before, or under way then: an answer takes about a second here.
    assert all(entry["received_monotonic_s"] > killed_s - 3.5 for entry in missing)
    assert_void_for_a_lost_worker(run, 0)
    assert "that were the share of a worker that was lost" in run.run["ended_early"]


def test_workers_come_and_go(tmp_path, stack):
    """A third worker joins in mid-run and sends requests too; the first is ended by SIGTERM, which
    loses nothing, and the stage is void for it."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *USERS, "-t", "20s")
    fleet.wait_for("measuring")
    fleet.add_worker()
    wait_until(
        lambda: 3 == sum(kept > 0 for kept in kept_by_worker(fleet.folder()).values()),
        *(12, "requests of the third worker"),
    )
    time.sleep(1)
    fleet.workers[0].terminate()
    assert 0 == fleet.workers[0].wait(20)
    run = fleet.finish()

    assert ids(server_log(log)) == spool_ids(run.folder), run.output[-3000:]
    assert len(server_log(log)) == run.summary["totals"]["planned"]
    assert_void_for_a_lost_worker(run, 0)


def test_a_second_interrupt_of_the_master_leaves_workers_that_end(tmp_path, stack):
    """The first SIGINT drains; the second ends the master in the middle of that. The workers end
    by themselves, and their spools hold all that the server was asked."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    long = ("-u", "4", "-r", "4", "-t", "60s", "--settle", "0s")
    more = ("--output-tokens", "200", "--ignore-eos")
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *long, *more)
    fleet.wait_for("measuring")
    time.sleep(2)
    fleet.master.send_signal(signal.SIGINT)
    time.sleep(1)
    fleet.master.send_signal(signal.SIGINT)
    assert 0 != fleet.master.wait(30)
    for worker in fleet.workers:
        worker.wait(45)

    assert ids(server_log(log)) == spool_ids(fleet.folder())
    assert not json.loads((fleet.folder() / "run.json").read_text())["complete"]
