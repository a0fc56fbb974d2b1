"""An overloaded load generator is named as such, and never taken for a slow endpoint."""

import sys

import pytest

from bench.harness import paced_server
from tests.support.processes import ROOT, simulator
from tests.support.runs import run_headless

pytestmark = [pytest.mark.live, pytest.mark.alone]

BURNER = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
import gevent
from locust import events
from locustfile import *

@events.init.add_listener
def _burn(**_):
    def burn():
        while True:
            gevent.sleep(0.15)
            until = time.perf_counter() + 0.15
            while time.perf_counter() < until:
                pass
    gevent.spawn(burn)
"""

PER_CHUNK_S = 0.02
CHUNKS = 5
BURNT_PER_CHUNK = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from stream.reply import ReplyReader
from locustfile import StreamingChatUser

feed = ReplyReader.feed

def feed_and_burn(reader, data, at_s):
    before = reader.outputs
    feed(reader, data, at_s)
    until_s = time.thread_time() + {PER_CHUNK_S} * (reader.outputs - before)
    while time.thread_time() < until_s:
        pass

ReplyReader.feed = feed_and_burn
"""


def ladder(tmp_path, *options):
    """Two short levels against the simulator."""
    with simulator("--jitter", "0") as url:
        return run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "ladder", "--stages", "2,4", "--hold", "3s", *options),
            *("--settle", "0s"),
        )


def test_M15_a_burnt_event_loop_makes_stages_client_limited(tmp_path):
    """150 ms of CPU burnt every 300 ms: the stages are flagged, void for the knee, run invalid."""
    burner = tmp_path / "burner.py"
    burner.write_text(BURNER, encoding="utf-8")
    run = ladder(tmp_path, "-f", str(burner))

    assert 4 == run.exit_code, run.output[-2000:]
    assert all(row["limited"] for row in run.summary["client"])
    assert any("client-limited" in verdict["text"] for verdict in run.summary["verdicts"])
    assert run.summary["knee"]["users"] is None
    assert all("client-limited" in level["note"] for level in run.summary["knee"]["evidence"])


def test_M15_chunks_dear_to_read_are_the_clients_limit_and_no_knee(tmp_path):
    """20 ms of CPU for each chunk of a fast server: the plateau up to 32 users is the client's."""
    burner = tmp_path / "burner.py"
    burner.write_text(BURNT_PER_CHUNK, encoding="utf-8")
    with simulator("--profile", "null") as url:
        run = run_headless(
            tmp_path / "runs",
            *("-f", burner, "--host", url, "--shape", "ladder", "--stages", "4,12,32"),
            *("--hold", "4s", "--settle", "0s", "--output-tokens", str(CHUNKS), "--ignore-eos"),
        )

    assert 4 == run.exit_code, run.output[-2000:]
    levels = [row for row in run.summary["stages"] if row["kind"] == "level"]
    rates = [row["sent_rps"] for row in levels]
    assert [4, 12, 32] == [row["target_users"] for row in levels]
    assert max(rates) < 1.2 / (CHUNKS * PER_CHUNK_S), "no more than the burning leaves room for"
    assert max(rates) < 2 * min(rates), "eight times the users, one plateau"
    verdicts = [verdict["text"] for verdict in run.summary["verdicts"]]
    for number in (1, 2, 3):
        assert any(text.startswith(f"stage {number} is client-limited") for text in verdicts)
    knee = run.summary["knee"]
    assert knee["users"] is knee["at_least"] is None
    assert all("client-limited" in level["note"] for level in knee["evidence"])


def test_M15_without_it_nothing_is_flagged(tmp_path):
    """The same load from an unburdened client: valid, with the client's own figures stated."""
    run = ladder(tmp_path)

    assert 0 == run.exit_code, run.output[-2000:]
    for row in run.summary["client"]:
        assert row["limited"] is None
        assert 0 <= row["client_delay_p99_s"] < 0.05
        assert row["loop_lag_p99_s"] < 0.05


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the paced server is Linux's")
def test_M15_a_hundred_streams_are_read_within_a_millisecond(tmp_path):
    """100 streams, a token each 20 ms: the kernel had 99 of 100 first tokens for less than 1 ms."""
    with paced_server() as url:
        paced = f"{url}?mode=spread&ttft_ms=100&itl_ms=20&events=200"
        load = ("-u", "100", "-r", "100", "-t", "20s", "--settle", "5s", "--output-tokens", "200")
        where = ("--host", paced, "--model", "m", "--no-preflight")
        run = run_headless(tmp_path / "runs", *where, *load)

    (row,) = [row for row in run.summary["client"] if row["n"]]
    assert row["kernel_stamped"] == row["streams"] > 300, run.output[-2000:]
    assert row["client_delay_p99_s"] < 0.001
    assert row["limited"] is None
