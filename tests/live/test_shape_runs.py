"""Whole runs of the shapes against the simulator, held against its own log."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pandas
import pytest

import metrics.drift
from reports.load import load_run
from reports.soak import soak_of
from tests.support.processes import simulator
from tests.support.runs import records_of, run_headless, server_log

pytestmark = pytest.mark.live

WORKERS = pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])
SHORT = ("--output-tokens", "8", "--prompt-tokens", "20")


def marks_of(run):
    """The phase marks of all workers."""
    return json.loads((run.folder / "stages.json").read_text(encoding="utf-8"))["marks"]


@WORKERS
def test_an_open_loop_offers_exactly_its_schedule(tmp_path, workers):
    """Constant 5/s: each arrival is one request of the server's log, due every 0.2 s by the
    schedule whichever worker sends it, and the server sees them in those gaps."""
    log = tmp_path / "server.jsonl"
    with simulator("--jitter", "0", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "open-loop", "--rate", "5", "--arrivals", "constant"),
            *("--hold", "6s", "--settle", "2s", *SHORT),
            workers=workers,
        )

    served, records = server_log(log), records_of(run)
    assert {entry["request_id"] for entry in served} == set(records.request_id)
    assert len(served) == len(records) == run.summary["totals"]["ok"]
    # Numbers without a gap: no worker left one out, none sent another's.
    numbers = sorted(records.user)
    assert list(range(len(records))) == numbers
    assert max(1, workers) == records.worker.nunique()
    began_s = {mark["worker"]: mark["at_s"] for mark in marks_of(run) if mark["phase"] == "settle"}
    due_s = records.started_s - records.worker.map(began_s)
    assert (due_s - records.user / 5).abs().max() < 0.001
    # 8 s of 5/s, and what comes until the shape's next tick.
    assert 40 <= len(records) <= 46

    arrived_s = sorted(entry["received_monotonic_s"] for entry in served)
    gaps_s = pandas.Series([b - a for a, b in pairwise(arrived_s)])
    assert gaps_s.median() == pytest.approx(0.2, rel=0.15)
    span_s = (arrived_s[-1] - arrived_s[0]) / (len(served) - 1)
    assert span_s == pytest.approx(0.2, rel=0.05), "the rate is kept: lateness does not add up"


def test_the_users_clock_starts_when_the_request_was_due(tmp_path):
    """A Poisson run: user_ttft_s and user_latency_s hold the schedule's delay, exactly."""
    with simulator() as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "open-loop", "--rate", "8", "--hold", "5s"),
            *("--settle", "0s", "--seed", "3", *SHORT),
        )

    records = records_of(run)
    assert len(records) > 15
    assert (records.schedule_delay_s > 0).all()
    waited_s = records.schedule_delay_s + records.client_wait_s + records.connect_s.fillna(0)
    assert (records.user_ttft_s - records.ttft_s - waited_s).abs().max() < 1e-6
    assert (records.user_latency_s - records.last_token_s - waited_s).abs().max() < 1e-6
    (step,) = run.summary["open_loop"]
    held = records[records.phase == "hold"]
    assert step["planned"] == len(held)
    assert step["planned"] == step["ok"] + step["failed"] + step["cancelled"] + step["not_sent"]
    assert step["schedule_delay_max_s"] == pytest.approx(held.schedule_delay_s.max())


def test_a_rate_above_the_capacity_is_stopped_and_higher_ones_are_not_tried(tmp_path):
    """2 slots carry about 5/s: 2/s is not called unstable, 30/s is stopped long before its 30 s,
    40/s is not tried, and every request of the server's log is in the report."""
    log = tmp_path / "server.jsonl"
    with simulator("--max-num-seqs", "2", "--jitter", "0", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "open-loop", "--rates", "2,30,40", "--settle", "0s"),
            *("--arrivals", "constant", "--hold", "30s", "--output-tokens", "4"),
            *("--prompt-tokens", "20", "--stop-timeout", "40"),
            limit_s=170,
        )

    steps = run.summary["open_loop"]
    assert ["stable", "unstable", "not tried"] == [step["verdict"] for step in steps]
    assert 0 == steps[2]["planned"]
    assert steps[1]["trend"]["low_rps"] > 5
    assert steps[1]["completed_rps"] < steps[1]["offered_rps"]
    assert run.summary["stages"][1]["window_s"] < 25
    assert {entry["request_id"] for entry in server_log(log)} == set(records_of(run).request_id)
    assert "30 requests/s: unstable" in run.output


@WORKERS
def test_a_spike_loses_no_request_and_shows_the_recovery(tmp_path, workers):
    """3 users, 40, 3 again on 16 slots: queueing in the burst, recovered after it, and the
    requests of the server's log are all there, none cut by the users that leave."""
    log = tmp_path / "server.jsonl"
    with simulator("--profile", "small", "--jitter", "0", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "spike", "-u", "3", "--spike-users", "40"),
            *("--spike-hold", "4s", "--hold", "14s", "--settle", "1s", "--output-tokens", "16"),
            workers=workers,
        )

    records = records_of(run)
    assert {entry["request_id"] for entry in server_log(log)} == set(records.request_id)
    assert {"ok"} == set(records.outcome)
    spike = run.summary["spike"]
    assert spike["burst_p50_s"] > 3 * spike["before_p50_s"]
    assert spike["verdict"] == "recovered", run.output[-3000:]
    assert spike["recovery_s"] < 12
    assert [3, 40, 3] == [stage["users_seen"] for stage in run.summary["stages"]]


@WORKERS
def test_warm_up_requests_are_kept_and_left_out_exactly(tmp_path, workers):
    """7 of the run, as 4 and 3 on two workers: in the records, in no figure, in the first places
    of their workers."""
    with simulator() as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "-u", "4", "-r", "4", "-t", "4s", "--settle", "0s", *SHORT),
            *("--warmup-requests", "7"),
            workers=workers,
        )

    records = records_of(run)
    warm_up = records[records.phase == "warmup"]
    assert 7 == len(warm_up) == run.summary["warmup_requests"]
    assert run.summary["left_out_by_phase"]["warmup"] == 7
    per_worker = sorted(warm_up.groupby("worker").size())
    assert per_worker == ([3, 4] if workers else [7])
    for _, own in records.groupby("worker"):
        first = own.sort_values("sequence").phase == "warmup"
        assert first.is_monotonic_decreasing, "the first ones, without a gap"
    held = records[(records.phase == "hold") & (records.outcome == "ok")]
    assert len(held) == run.summary["latency"]["ttft_s"]["n"]
    assert run.summary["totals"]["offered"] == len(records)


def test_a_cold_start_is_probed_three_times_and_reported_apart(tmp_path):
    """After 4 s of idling on an endpoint that then needs 1 s more: seen in the first answer alone,
    and in no stage."""
    log = tmp_path / "server.jsonl"
    cold = ("--cold-start", "1.0", "--idle-after", "3", "--jitter", "0")
    with simulator(*cold, log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "-u", "2", "-r", "2", "-t", "3s", "--settle", "0s", *SHORT),
            *("--idle-before", "4s"),
        )

    records = records_of(run)
    probe = records[records.phase == "cold"].sort_values("sequence")
    assert 3 == len(probe)
    ends_s = probe.started_s + probe.user_latency_s
    assert (probe.started_s.iloc[1:].to_numpy() >= ends_s.iloc[:-1].to_numpy()).all()
    first, *others = run.summary["cold_start"]["ttft_s"]
    assert first > 1.0
    assert max(others) < 0.5
    assert run.summary["cold_start"]["warm_p50_s"] < 0.5
    assert run.summary["latency"]["ttft_s"]["max"] < 1.0, "the cold answer is in no figure"
    assert [2] == [stage["target_users"] for stage in run.summary["stages"]]
    arrived_s = sorted(entry["received_monotonic_s"] for entry in server_log(log))
    assert len(arrived_s) == len(records)


def test_a_soak_has_its_series_and_its_verdict(tmp_path):
    """45 s are two windows of 20 s: too few to claim a drift, and said so."""
    with simulator() as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "soak", "-u", "4", "-t", "45s", "--settle", "1s", *SHORT),
        )

    soak = run.summary["soak"]
    assert soak["leak"] == "none shown"
    assert 2 == len(soak["windows"])
    assert 44 < soak["held_s"] < 49
    records = records_of(run)
    held = records[(records.phase == "hold") & (records.outcome == "ok")]
    assert 0 < sum(window["n"] for window in soak["windows"]) <= len(held)
    assert "Soak of 0.8 minutes" in run.output


def soaked(folder, *server):
    """A soak of 66 s on a server of its own."""
    with simulator("--profile", "slots-8", *server) as url:
        shape = ("--shape", "soak", "-u", "4", "-t", "66s", "--settle", "1s")
        return run_headless(folder, "--host", url, *shape, *SHORT)


@pytest.mark.alone
@pytest.mark.long
def test_a_leak_of_the_server_is_found_and_none_where_there_is_none(tmp_path, monkeypatch):
    """Steps that get 60 % longer a minute, and steps that do not, both in windows of 2 s: the
    verdict of hours in one minute. The drift of the first token is the server's."""
    with ThreadPoolExecutor() as both:
        leaking = both.submit(soaked, tmp_path / "a", "--leak-percent-per-minute", "60")
        steady = both.submit(soaked, tmp_path / "b")
    monkeypatch.setattr(metrics.drift, "WINDOW_S", 2.0)
    leak, none = (soak_of(load_run(run.result().folder)) for run in (leaking, steady))

    assert "server" == leak.leak
    # 66 % over 1.1 minutes, as a share of what it is in the middle.
    assert leak.drifts["ttft_p50"].change_ratio == pytest.approx(0.66 / 1.36, abs=0.12)
    assert "none shown" == none.leak
    assert len(leak.windows) >= 30 <= len(none.windows)
