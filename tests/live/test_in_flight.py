"""``--max-in-flight``: never exceeded at the server, and nobody who waits is lost."""

import pandas
import pytest

from tests.support.processes import simulator
from tests.support.runs import run_headless, server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]

CAP = 4
FLEETS = pytest.mark.parametrize("workers", [0, 3], ids=["one process", "three workers"])
ANSWERS = ("--prompt-tokens", "20", "--output-tokens", "32", "--ignore-eos", "--settle", "0s")


def capped(tmp_path, *options, workers=0):
    """A run under the cap against a server that has room for all: records and server's log."""
    log = tmp_path / "server.jsonl"
    with simulator("--profile", "soft", "--jitter", "0", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--max-in-flight", str(CAP), *ANSWERS, *options),
            workers=workers,
        )
    assert run.folder is not None, run.output[-3000:]
    return run, pandas.read_parquet(run.folder / "requests.parquet"), server_log(log)


def most_at_once(served):
    """Requests at once by the server's clock; one that ends as another comes is not beside it."""
    edges = [(entry["received_monotonic_s"], 1) for entry in served]
    edges += [(entry["received_monotonic_s"] + entry["end_s"], -1) for entry in served]
    now = most = 0
    for _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most


@FLEETS
def test_an_open_loop_waits_for_slots_and_loses_nobody(tmp_path, workers):
    """30/s where 4 at once carry about 11/s: every arrival is answered or was not sent, in order,
    and what it waited for is the client's, not the schedule's."""
    run, records, served = capped(
        tmp_path,
        *("--shape", "open-loop", "--rate", "30", "--arrivals", "constant", "--hold", "5s"),
        workers=workers,
    )

    assert CAP == most_at_once(served)
    assert list(range(len(records))) == sorted(records.user)
    assert {"ok", "not_sent"} == set(records.outcome)
    sent, waiting = records[records.outcome == "ok"], records[records.outcome == "not_sent"]
    assert {entry["request_id"] for entry in served} == set(sent.request_id)
    assert len(waiting) > 40
    assert {0} == set(waiting.attempts)
    totals = run.summary["totals"]
    assert totals["offered"] == len(records) == totals["ok"] + totals["not_sent"]
    assert 0 == totals["cancelled"]
    # A slot is waited for ever longer, and those that come later go in later on each worker.
    assert sent.client_wait_s.max() > 1.5
    assert records.schedule_delay_s.median() < 0.1
    apart_s = sent.user_latency_s - sent.last_token_s - sent.connect_s.fillna(0)
    assert (apart_s - sent.schedule_delay_s - sent.client_wait_s).abs().max() < 1e-6
    for worker in set(records.worker):
        assert sent[sent.worker == worker].user.max() < waiting[waiting.worker == worker].user.min()
    waited_s = waiting.user_latency_s - waiting.schedule_delay_s
    assert (waited_s - waiting.client_wait_s).abs().max() < 0.2


@FLEETS
def test_a_closed_loop_shares_the_slots(tmp_path, workers):
    """Nine users and four slots: four at once, and the wait is in each user's latency."""
    _, records, served = capped(
        tmp_path, *("-u", "9", "-r", "9", "-t", "5s", "--shape", "constant"), workers=workers
    )

    assert CAP == most_at_once(served)
    assert {"ok", "not_sent"} >= set(records.outcome)
    sent = records[records.outcome == "ok"]
    assert {entry["request_id"] for entry in served} == set(sent.request_id)
    assert sent.client_wait_s.median() > 0.1
    assert (sent.user_latency_s >= sent.client_wait_s + sent.last_token_s - 1e-6).all()


def test_a_cap_below_the_number_of_workers_is_refused(tmp_path):
    """Each needs a slot of its own: it says so before anything is sent."""
    with simulator(log=tmp_path / "server.jsonl") as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--max-in-flight", "2", "-u", "4", "-t", "3s"),
            workers=3,
            limit_s=60,
        )

    assert run.folder is None
    assert 2 == run.exit_code
    assert (
        "--max-in-flight 2: each of the 3 workers needs one at least; write 3 or more" in run.output
    )
