"""Fronts and queues on real sockets: what leaves when, and what the log and the trace say of it."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.simulator_log import queue_spans, queued_ratio

QUICK = (
    *("--decode-base-s", "0.02", "--decode-per-seq-s", "0", "--jitter", "0"),
    *("--prefill-tokens-per-s", "inf"),
)


def body(tokens: int = 20, **fields):
    messages = [{"role": "user", "content": "Hello there."}]
    plain = {"model": "simulated-model", "messages": messages, "max_tokens": tokens}
    return plain | {"ignore_eos": True, "stream": True} | fields


def receive(response) -> list[tuple[float, dict]]:
    """Delta of each chunk, with the instant at which its line was read."""
    deltas = []
    while line := response.readline():
        if line.startswith(b"data: {"):
            choices = json.loads(line[6:])["choices"]
            deltas.append((time.monotonic(), choices[0]["delta"]))
    return deltas


def contents(deltas) -> list[str]:
    return [delta["content"] for _, delta in deltas if delta.get("content")]


def ask_together(simulator, count: int, tokens: int = 75) -> None:
    """`count` streams at once, read to their end."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda _: receive(simulator.post(body(tokens))), range(count)))


def test_a_buffering_front_delivers_the_whole_stream_at_its_end(start_simulator):
    """Twenty steps of 20 ms pass before the headers; then all chunks are one write."""
    simulator = start_simulator(*QUICK, "--buffer")
    asked_s = time.monotonic()
    response = simulator.post(body())
    headers_s = time.monotonic()
    deltas = receive(response)

    assert headers_s - asked_s >= 0.4
    (entry,) = simulator.log_lines(1)
    assert len(set(entry["chunk_sent_s"])) == 1
    assert len(entry["chunk_sent_s"]) == len(contents(deltas)) == 20
    assert entry["first_sent_s"] == entry["last_sent_s"] >= 0.4
    assert entry["outcome"] == "ok"


def test_a_buffering_front_may_let_the_role_chunk_through(start_simulator):
    """Headers and role come at once, no word before the last token."""
    simulator = start_simulator(*QUICK, "--buffer", "role-first")
    asked_s = time.monotonic()
    (role_s, role), *rest = receive(simulator.post(body(100)))

    assert role == {"role": "assistant", "content": ""}
    assert role_s - asked_s < 1.0
    assert rest[0][0] - asked_s >= 2.0
    (entry,) = simulator.log_lines(1)
    assert len(set(entry["chunk_sent_s"])) == 1
    assert entry["first_sent_s"] >= 2.0


@pytest.mark.parametrize("buffer", ["answer", "role-first"])
def test_buffering_changes_no_word(start_simulator, buffer):
    """The same question, streamed through the front and not streamed at all."""
    simulator = start_simulator(*QUICK, "--buffer", buffer)
    streamed = "".join(contents(receive(simulator.post(body()))))
    whole = json.loads(simulator.post(body(stream=False)).read())

    assert whole["choices"][0]["message"]["content"] == streamed


def test_hanging_up_on_a_buffering_front_is_logged_as_cancelled(start_simulator):
    """No token was sent, and the slot is free again."""
    simulator = start_simulator(*QUICK, "--buffer")
    gone = simulator.connect()
    gone.request("POST", "/v1/chat/completions", json.dumps(body(5000)))
    simulator.wait_for_gauge("num_requests_running", 1)
    gone.close()
    simulator.wait_for_gauge("num_requests_running", 0)

    (entry,) = simulator.log_lines(1)
    assert (entry["outcome"], entry["completion_tokens"]) == ("cancelled", 0)


def test_a_front_queues_out_of_sight_of_the_metrics(start_simulator):
    """Two front slots, three streams: waiting reads 0, and the log tells the time in the front."""
    simulator = start_simulator(*QUICK, "--front-slots", "2")
    streams = [simulator.post(body(80)) for _ in range(3)]

    simulator.wait_for_gauge("num_requests_running", 2)
    assert simulator.gauge("num_requests_waiting") == 0
    for stream in streams:
        receive(stream)
    entries = simulator.log_lines(3)
    held_back = [entry for entry in entries if entry["front_s"] > 0]
    assert len(held_back) == 1
    # It had to wait for most of another stream, which lasts 80 steps of 20 ms.
    assert 0.8 < held_back[0]["front_s"] <= 1.6
    assert [entry["held_s"] for entry in entries] == [0, 0, 0]


def test_the_log_says_when_a_request_was_queued_and_when_it_got_its_slot(start_simulator):
    """Received, queued, admitted, first chunk: in this order, and the parts add up."""
    simulator = start_simulator(*QUICK, "--max-num-seqs", "1")
    ask_together(simulator, 3)

    entries = simulator.log_lines(3)
    assert sorted(entry["held_s"] > 0.2 for entry in entries) == [False, True, True]
    for entry in entries:
        assert 0 <= entry["queued_s"] <= entry["admitted_s"] <= entry["first_sent_s"]
        waited_s = entry["front_s"] + entry["queue_s"]
        assert entry["admitted_s"] == pytest.approx(entry["queued_s"] + waited_s, abs=1e-5)
        assert 0 <= entry["held_s"] <= entry["queue_s"]


def test_the_trace_says_when_the_queue_was_not_empty(start_simulator, tmp_path):
    """No queue with as many streams as slots; with two more, one from the first to the last."""
    trace = tmp_path / "queues.jsonl"
    simulator = start_simulator(*QUICK, "--max-num-seqs", "4", "--trace", str(trace))
    ask_together(simulator, 4)
    assert queue_spans(trace) == []
    ask_together(simulator, 6)

    held = [entry for entry in simulator.log_lines(10) if entry["held_s"] > 0]
    spans = queue_spans(trace)
    assert len(held) == 2
    admitted_s = [entry["received_monotonic_s"] + entry["admitted_s"] for entry in held]
    arrived_s = [entry["received_monotonic_s"] + entry["queued_s"] for entry in held]
    assert spans[-1][1] == pytest.approx(max(admitted_s), abs=1e-4)
    # Told at the first step that starts without them, so within a step of their arrival.
    assert 0 <= spans[0][0] - min(arrived_s) <= 0.0201
    assert queued_ratio(spans, spans[0][0], spans[-1][1]) > 0.9
    first = json.loads(trace.read_text().splitlines()[0])
    assert (first["queue"], first["running"]) == ("engine", 4)
    assert first["in_flight"] == first["running"] + first["waiting"]
