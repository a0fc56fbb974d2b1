"""However a run ends, what was measured is written, and the process leaves."""

import json
import signal
import subprocess
import time

import pandas
import pytest

from metrics.run_files import read_rows
from tests.support.processes import ROOT, end, simulator, wait_until
from tests.support.runs import run_headless, server_log, spooled, start_locust

pytestmark = pytest.mark.live

LADDER = ("--shape", "ladder", "--stages", "2,4", "--hold", "2s", "--settle", "0s")


@pytest.mark.alone
@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])
def test_L02_the_process_leaves_when_the_shape_ends(tmp_path, workers):
    """Two levels of 2 s: the process is gone soon after, with its files and exit code 0."""
    with simulator() as url:
        run = run_headless(tmp_path / "runs", "--host", url, *LADDER, workers=workers, limit_s=60)

    assert run.sound, run.output[-3000:]
    assert run.summary["complete"]
    # Start-up, two ramps, two holds, the drain of answers of 2 s, the report.
    assert run.seconds < 6 + 2 + 12


@pytest.mark.parametrize(
    ("workers", "number"),
    [(0, signal.SIGINT), (2, signal.SIGINT), (0, signal.SIGTERM), (2, signal.SIGTERM)],
    ids=["one process", "two workers", "SIGTERM", "SIGTERM with workers"],
)
def test_O03_an_interrupt_writes_what_there_is(tmp_path, workers, number):
    """SIGINT or SIGTERM in mid-run: the files parse, are marked partial, and hold all requests."""
    log = tmp_path / "server.jsonl"
    with simulator(log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "-u", "4", "-r", "4", "-t", "60s", "--settle", "0s"),
            workers=workers,
            interrupt_after_s=8,
            interrupt=number,
            limit_s=60,
        )

    assert not run.summary["complete"]
    assert not run.summary["valid"]
    assert any("partial" in verdict["text"] for verdict in run.summary["verdicts"])
    assert run.exit_code == 4
    totals = run.summary["totals"]
    assert totals["ok"] > 0
    assert len(server_log(log)) == totals["offered"]
    assert totals["offered"] == totals["ok"] + totals["failed"] + totals["cancelled"]


INTERRUPTER = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from locust import events

seen = 0

@events.request.add_listener
def _interrupt_the_fiftieth(**_):
    global seen
    seen += 1
    if seen == 50:
        os.kill(os.getpid(), signal.SIGINT)

from locustfile import StreamingChatUser
"""


def test_O03_an_interrupt_within_a_listener_keeps_every_record(tmp_path):
    """SIGINT while the 50th request is being told, before our listener had it: it is kept too."""
    locustfile = tmp_path / "interrupter.py"
    locustfile.write_text(INTERRUPTER, encoding="utf-8")
    log = tmp_path / "server.jsonl"
    with simulator("--profile", "null", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("-f", locustfile, "--host", url, "-u", "4", "-r", "4", "-t", "60s"),
            *("--settle", "0s"),
            limit_s=60,
        )

    asked = server_log(log)
    records = pandas.read_parquet(run.folder / "requests.parquet")
    assert 50 <= len(asked)
    assert {entry["request_id"] for entry in asked} == set(records.request_id)
    assert len(asked) == len(records) == run.summary["totals"]["offered"]
    assert not run.summary["complete"]
    assert "KeyboardInterrupt" not in run.output


BLOCKER = f"""
import signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from locust import events

@events.request.add_listener
def _block(**_):
    print("blocked", flush=True)
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        pass

from locustfile import StreamingChatUser
"""


def test_a_second_interrupt_ends_a_process_that_is_blocked(tmp_path):
    """A listener that never returns: the first SIGINT waits for it, the second does not."""
    locustfile, output = tmp_path / "blocker.py", tmp_path / "locust.log"
    locustfile.write_text(BLOCKER, encoding="utf-8")
    with simulator("--profile", "null") as url:
        locust = start_locust(
            *("-f", locustfile, "--headless", "--host", url, "--runs-dir", tmp_path / "runs"),
            *("-u", "1", "-t", "60s", "--settle", "0s"),
            log=output,
        )
        try:
            wait_until(lambda: "blocked" in output.read_text(), 20, "the first request")
            locust.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                locust.wait(1)
            locust.send_signal(signal.SIGINT)
            locust.wait(30)
        finally:
            end(locust)

    assert 1 == output.read_text().count("blocked")


def test_O03_a_killed_run_still_reads(tmp_path):
    """kill -9: rows up to about a second before are there, and a report can be made of them."""
    runs = tmp_path / "runs"
    runs.mkdir()
    log = tmp_path / "server.jsonl"
    with simulator("--max-num-seqs", "8", log=log) as url:
        locust = start_locust(
            *("--headless", "--host", url, "--runs-dir", runs, "-u", "8", "-r", "8"),
            *("-t", "60s", "--settle", "0s", "--output-tokens", "8"),
            log=tmp_path / "locust.log",
        )
        try:
            folder = wait_until(lambda: next(runs.glob("*/run.json"), None), 15, "run").parent
            time.sleep(4)
            locust.kill()
            locust.wait()
        finally:
            end(locust)
        killed_at_requests = len(server_log(log))

    with (folder / "requests.jsonl").open("rb") as lines:
        kept = len(list(read_rows(lines)))
    assert kept > 0
    per_second = killed_at_requests / 4
    assert killed_at_requests - kept < 3 * per_second
    assert not json.loads((folder / "run.json").read_text())["complete"]


@pytest.mark.parametrize("workers", [0, 1], ids=["one process", "a worker"])
def test_O01_a_run_without_any_success_still_reports(tmp_path, case_server, workers):
    """Every answer is a 500-like failure: all files parse, the exit code is 1."""
    run = run_headless(
        tmp_path / "runs",
        *("--host", case_server.host("E06_4"), "--model", "m", "--no-preflight"),
        *("-u", "3", "-r", "3", "-t", "3s", "--settle", "0s"),
        workers=workers,
    )

    totals = run.summary["totals"]
    assert run.exit_code == 1
    assert totals["offered"] == totals["failed"] > 0
    assert len(case_server.asked("E06_4")) == totals["offered"]
    assert list(totals["by_outcome"]) == ["truncated"]
    assert (run.folder / "report.html").exists()
    assert "none of" in run.output


def test_O06_awkward_names_stay_inside_the_runs_folder(tmp_path):
    """A model called ../../etc/x, or anything else, is data; folder names are made safe."""
    name = "../../etc/名前 v1:free" + "x" * 300
    with simulator("--model", "org/kelp-7b:free") as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--run-name", name, "-u", "1", "-t", "1s", "--settle", "0s"),
        )

    assert tmp_path / "runs" == run.folder.parent
    assert len(run.folder.name) < 120
    assert run.run["model"] == "org/kelp-7b:free"
    assert name == run.run["name"]


def test_every_answer_under_way_at_the_end_is_kept(tmp_path):
    """A drain with a slow server and two workers: the server's requests are all in the report."""
    log = tmp_path / "server.jsonl"
    with simulator("--max-num-seqs", "2", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "-u", "6", "-r", "6", "-t", "3s", "--settle", "0s"),
            *("--output-tokens", "64", "--ignore-eos"),
            workers=2,
        )

    records = pandas.read_parquet(run.folder / "requests.parquet")
    served = {entry["request_id"] for entry in server_log(log)}
    assert served == set(records.request_id)
    assert served == {record.request_id for record in spooled(run.folder)}
    assert {"ok"} == set(records.outcome)
    assert records.end_s.max() > 3, "the slowest outlived the window and were still counted"


def test_an_interrupted_search_is_partial(tmp_path):
    """A search has no fixed length, but it has an end: cut short it is no complete run."""
    with simulator() as url:
        shape = ("--host", url, "--shape", "knee", "-u", "8")
        run = run_headless(tmp_path / "runs", *shape, interrupt_after_s=9)

    assert not run.summary["complete"]
    assert "partial" in {finding["rule"] for finding in run.summary["validity"]}
    assert run.exit_code == 4
    assert "nee " in run.output.split("requests:")[-1]
