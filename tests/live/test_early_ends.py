"""Runs that end before their plan, and requests that end before their answer, held against the
servers' own logs."""

import re
import signal
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import pairwise

import pandas
import pytest

from bench.process_memory import status_bytes
from tests.support.processes import end, free_port, python_process, simulator, wait_until
from tests.support.runs import Finished, records_of, run_headless, server_log, start_locust
from tests.support.scripted_runs import LONG_WAIT_S, scripted_runs

pytestmark = [pytest.mark.live, pytest.mark.patient]

WORKERS = pytest.mark.parametrize("workers", [0, 3], ids=["one process", "three workers"])


def seconds_of(run):
    """Wall time of a run from its first user to its last, by its own two stamps."""
    began, ended = (datetime.fromisoformat(run.run[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


def page_of(run):
    """The text of ``report.html``, without its tags."""
    return re.sub(r"<[^>]+>", " ", (run.folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])
def test_R12_a_used_up_quota_ends_the_run(tmp_path, case_server, workers):
    """10 users, 60 s allowed, every answer says the quota is used up: at most 10 requests and the
    10 that each worker counts, each sent once although retries are on, and the run says why."""
    run = run_headless(
        tmp_path / "runs",
        *("--host", case_server.host("R12"), "--model", "m", "--no-preflight"),
        *("-u", "10", "-r", "10", "-t", "60s", "--settle", "0s", "--retries", "3"),
        *("--quota-stop", "10"),
        workers=workers,
    )

    asked = case_server.asked("R12")
    records = records_of(run)
    assert 10 <= len(asked) <= 10 + 10 * max(1, workers)
    assert len(asked) == records.attempts.sum() == len(records)
    assert {"quota_exhausted"} == set(records.outcome)
    assert seconds_of(run) < 20
    assert 1 == run.exit_code
    assert_says_why(run, "quota", "10 answers in a row said the quota is used up")


def assert_says_why(run, kind, words):
    """In run.json, when it happens, and in the report: its text and its page."""
    assert kind == run.run["ended_by"], run.output[-2000:]
    assert words in run.run["ended_early"]
    while_it_ran, _, report = run.output.partition("requests:")
    assert f"the run ends early: {words}" in while_it_ran
    assert words in report
    assert words in page_of(run)


PRICE_IN, PRICE_OUT = 400.0, 1600.0
"""Per million tokens: a request of these tests costs about 5 cents."""


def spent_by(entries):
    """What the server's log says was used, at these prices."""
    prompt = sum(entry["prompt_tokens"] for entry in entries)
    return (PRICE_IN * prompt + PRICE_OUT * sum(e["completion_tokens"] for e in entries)) / 1e6


def assert_ended_for_the_budget(run, budget):
    """The run says why, its files are whole, and its exit code calls it no failure."""
    totals = run.summary["totals"]
    parts = (totals[name] for name in ("ok", "failed", "cancelled", "not_sent"))
    assert totals["planned"] == sum(parts) == len(records_of(run))
    assert run.exit_code in (0, 4)
    assert_says_why(run, "budget", f"stopped for the budget of ${budget:,.2f}")


@pytest.mark.parametrize(
    ("workers", "more"),
    [
        (0, ()),
        (2, ()),
        (0, ("--cancel-ratio", "0.5", "--cancel-after", "0.3")),
    ],
    ids=["one process", "two workers", "leaving users"],
)
def test_a_budget_of_tokens_is_used_and_kept(tmp_path, workers, more):
    """60 s allowed, money for about a third of it: by the server's log at most the budget is
    spent, and at least half of it."""
    log, budget = tmp_path / "server.jsonl", 40
    with simulator("--profile", "slots-8", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "-u", "6", "-r", "6", "-t", "60s", "--settle", "0s", *more),
            *("--ignore-eos", "--price-in", PRICE_IN, "--price-out", PRICE_OUT),
            *("--budget", budget),
            workers=workers,
        )

    spent = spent_by(server_log(log))
    assert budget / 2 < spent <= budget
    assert seconds_of(run) < 50
    assert_ended_for_the_budget(run, budget)


def test_a_budget_of_gpu_hours_is_used_and_kept(tmp_path):
    """2 GPUs at $1,800 an hour are $1 a second: $16 end a run of 60 s before its 16th."""
    log = tmp_path / "server.jsonl"
    with simulator("--profile", "slots-8", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "-u", "4", "-r", "4", "-t", "60s", "--settle", "0s"),
            *("--gpu-hour-price", "1800", "--gpus", "2", "--budget", "16"),
        )

    served = server_log(log)
    ends_s = [entry["received_monotonic_s"] + entry["end_s"] for entry in served]
    used_s = max(ends_s) - min(entry["received_monotonic_s"] for entry in served)
    assert 8 < used_s <= seconds_of(run) <= 16
    assert_ended_for_the_budget(run, 16)


@WORKERS
def test_users_who_leave_are_cancelled_as_the_server_saw_it(tmp_path, workers):
    """Three in ten close the tab after 0.3 s of answers of 1 s and more: the same requests are
    cancelled here and in the server's log, no failure, in no latency, their chunks kept apart."""
    log = tmp_path / "server.jsonl"
    with simulator("--max-num-seqs", "16", "--jitter", "0", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "-u", "9", "-r", "9", "-t", "8s", "--settle", "0s", "--ignore-eos"),
            *("--output-tokens", "40", "--prompt-tokens", "20", "--prefixes", "0"),
            *("--cancel-ratio", "0.3", "--cancel-after", "0.3", "--seed", "5"),
            workers=workers,
        )

    served = {entry["request_id"]: entry for entry in server_log(log)}
    records = records_of(run).set_index("request_id")
    assert set(served) == set(records.index)
    left = {name for name, entry in served.items() if entry["outcome"] == "cancelled"}
    assert left == set(records.index[records.outcome == "cancelled"])
    totals = run.summary["totals"]
    assert 10 < len(left) == totals["cancelled"]
    assert (0, len(served) - len(left)) == (totals["failed"], totals["ok"])
    assert [] == run.summary["failures"]
    held = run.summary["held"]
    for name in ("ttft_s", "e2e_latency_s", "user_latency_s"):
        assert held["ok"] == run.summary["latency"][name]["n"], name
        assert 0 == run.summary["latency"][name]["failed"], name
    assert records.loc[sorted(left)].end_s.max() < 0.9 < records.end_s.max()
    completed = sum(e["completion_tokens"] for name, e in served.items() if name not in left)
    assert completed == totals["completion_tokens"]
    seen = records.loc[sorted(left)].chunks
    assert seen.sum() == totals["cancelled_chunks"] > len(left)
    # One token is one chunk here; the last may have been under way when the user left.
    written = pandas.Series({name: served[name]["completion_tokens"] for name in left})
    missed = written - seen
    assert missed.min() >= 0
    assert missed.median() <= 1


def test_a_user_who_leaves_frees_the_slot_at_once(tmp_path):
    """One slot, three users who leave after 1.3 s: the next one has the slot within a fraction of
    what the answer would have gone on for."""
    log = tmp_path / "server.jsonl"
    with simulator("--max-num-seqs", "1", "--jitter", "0", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "-u", "3", "-r", "3", "-t", "12s", "--settle", "0s", "--ignore-eos"),
            *("--output-tokens", "150", "--prompt-tokens", "20", "--prefixes", "0"),
            *("--cancel-ratio", "1", "--cancel-after", "uniform:0.5-2.5"),
        )

    whole_s = 150 * 0.0286
    served = [entry for entry in server_log(log) if entry["admitted_s"] is not None]
    served.sort(key=lambda entry: entry["received_monotonic_s"] + entry["admitted_s"])
    handed_on_s = []
    for earlier, later in pairwise(served):
        freed_s = earlier["received_monotonic_s"] + earlier["end_s"]
        came_s, admitted_s = (
            later["received_monotonic_s"] + later[name] for name in ("queued_s", "admitted_s")
        )
        assert "cancelled" == earlier["outcome"]
        # The end is noted after the slot was freed, on a busy machine a little later.
        assert admitted_s > freed_s - 0.2, "one at a time"
        if came_s < freed_s:
            handed_on_s.append(admitted_s - freed_s)
    assert len(handed_on_s) >= 4
    assert max(handed_on_s) < whole_s / 4
    assert len(records_of(run)) == run.summary["totals"]["cancelled"]


@contextmanager
def started(runs_dir, *arguments, workers=0):
    """A headless run under way; gives its main process and its output file."""
    runs_dir.mkdir(parents=True)
    with ExitStack() as stack:
        log = runs_dir / "locust.log"
        roles = ()
        if workers:
            port = free_port()
            for number in range(workers):
                name = runs_dir / f"worker-{number}.log"
                worker = start_locust("--worker", "--master-port", port, log=name)
                stack.callback(end, worker)
            roles = ("--master", "--master-bind-port", port, "--expect-workers", workers)
        main = start_locust(*roles, "--headless", "--runs-dir", runs_dir, *arguments, log=log)
        stack.callback(end, main)
        yield main, log


def finished(runs_dir, main, log, limit_s=90):
    """Wait for the end of such a run."""
    began_s = time.monotonic()
    exit_code = main.wait(limit_s)
    folder = next(runs_dir.glob("*/run.json")).parent
    output = log.read_text(encoding="utf-8", errors="replace")
    return Finished(folder, exit_code, output, time.monotonic() - began_s)


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])
@pytest.mark.parametrize("by", ["its time", "an interrupt"])
def test_a_run_whose_users_all_wait_for_a_retry_ends_at_once(tmp_path, workers, by):
    """All four are told to come back in 20 s: the run ends well before; each has its record,
    cancelled after the one attempt that the server saw."""
    runs, run_s = tmp_path / "runs", 4 if by == "its time" else 60
    with scripted_runs(tmp_path) as server:
        arguments = (
            *("--host", server.host("later"), "--model", "m", "-u", "4", "-r", "4"),
            *("-t", f"{run_s}s", "--settle", "0s", "--retries", "3", "--retry-cap", "60s"),
        )
        with started(runs, *arguments, workers=workers) as (main, log):
            wait_until(lambda: len(server.asked()) == 4, 40, "four refusals")
            if by == "an interrupt":
                time.sleep(1)
                main.send_signal(signal.SIGINT)
                told_at = time.time()
            run = finished(runs, main, log)
        asked = server.asked()

    if by == "an interrupt":
        ended_at = datetime.fromisoformat(run.run["ended_at"]).timestamp()
        assert ended_at - told_at < LONG_WAIT_S / 2
    else:
        # What begins the run, its ramp and its length come before the end.
        assert seconds_of(run) < LONG_WAIT_S
    records = records_of(run)
    assert 4 == len(asked) == len(records)
    assert {"cancelled"} == set(records.outcome)
    assert ([1] * 4, [1] * 4) == (list(records.attempts), list(records.rate_limited_attempts))
    assert (records.retry_wait_s > 0.5).all()
    assert {float(LONG_WAIT_S)} == set(records.asked_wait_s)
    totals = run.summary["totals"]
    assert (4, 0, 4) == (totals["cancelled"], totals["failed"], totals["rate_limited_attempts"])


FLOOD = 20_000


def flooded(folder, *flags):
    """A run of FLOOD refusals and more, then interrupted; and the most memory it took under the
    load, in bytes."""
    runs = folder / "runs"
    ready = "flood server ready on "
    with (
        python_process("tests.support.flood_server", *flags, ready=ready) as (url, _),
        started(
            runs,
            *("--host", url, "--model", "m", "--no-preflight", "-u", "120", "-r", "120"),
            *("-t", "170s", "--settle", "0s", "--output-tokens", "4", "--prompt-tokens", "4"),
            *("--prefixes", "0", "--stop-timeout", "5"),
        ) as (main, log),
    ):

        def enough():
            with urllib.request.urlopen(f"{url}/count", timeout=10) as answer:
                return int(answer.read()) >= FLOOD

        wait_until(enough, 120, f"{FLOOD} refusals")
        most_bytes = status_bytes("VmHWM", main.pid)
        main.send_signal(signal.SIGINT)
        return finished(runs, main, log), most_bytes


@pytest.mark.alone
@pytest.mark.timeout(400)
@pytest.mark.long
def test_E07_a_flood_of_unique_errors_stays_small(tmp_path):
    """20,000 failures, each with a text and a code of its own: few rows in Locust's table and in
    ours, memory within a fifth of a flood of one text, a page under 3 MB, no line of log each."""
    alike, alike_bytes = flooded(tmp_path / "alike")
    unique, unique_bytes = flooded(tmp_path / "unique", "--unique")

    for run, most_rows in ((alike, 2), (unique, 50)):
        totals = run.summary["totals"]
        assert totals["failed"] >= FLOOD, run.output[-2000:]
        by_outcome = totals["by_outcome"]
        assert totals["failed"] == by_outcome["server_error"] + by_outcome["stream_error"]
        rows = run.summary["failures"]
        assert len(rows) <= most_rows
        assert totals["failed"] == sum(row["count"] for row in rows)
    assert unique_bytes < 1.2 * alike_bytes
    table = unique.output.split("Error report")[-1].split("requests:")[0]
    assert 1 == table.count("server_error (HTTP 500)")
    assert 1 == table.count("stream_error (another code)")
    assert table.count("ChatFailure(") <= 22
    assert len(unique.output) < 40_000
    assert (unique.folder / "report.html").stat().st_size < 3 * 2**20
    assert (unique.folder / "summary.json").stat().st_size < 2**20
