"""The simulator as a process: bytes on real sockets, and a log that tells the truth."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--decode-base-s", "0.01", "--decode-per-seq-s", "0", "--jitter", "0")


def chat(text: str = "Hello there.", tokens: int = 8, system: str | None = None, **fields):
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})
    body = {"model": "simulated-model", "messages": messages, "max_tokens": tokens}
    return body | {"ignore_eos": True} | fields


def streamed(text: str = "Hello there.", tokens: int = 8, **fields):
    usage = {"include_usage": True}
    return chat(text, tokens, stream=True, stream_options=usage, **fields)


def receive_events(response) -> list[tuple[float, str]]:
    """Payloads with the instant at which their line was read."""
    events = []
    while line := response.readline():
        if line.startswith(b"data: "):
            events.append((time.monotonic(), line[6:].decode().strip()))
    return events


def test_the_log_tells_exactly_what_was_received(start_simulator):
    """Tokens, times, chunk by chunk: what the client saw is what the server wrote down."""
    simulator = start_simulator(*QUICK)
    sent_s = time.monotonic()
    response = simulator.post(streamed(tokens=20), {"X-Request-Id": "r-1", "X-Secret": "hush"})
    events = receive_events(response)

    assert response.status == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert events[-1][1] == "[DONE]"
    chunks = [(at_s, json.loads(payload)) for at_s, payload in events[:-1]]
    usage = chunks[-1][1]["usage"]
    seen = [
        (at_s, chunk["choices"][0]["delta"]["content"])
        for at_s, chunk in chunks[:-1]
        if chunk["choices"][0]["delta"].get("content")
    ]
    (entry,) = simulator.log_lines(1)
    assert usage["completion_tokens"] == entry["completion_tokens"] == len(seen) == 20
    assert usage["prompt_tokens"] == entry["prompt_tokens"] == 6
    assert entry["outcome"] == "ok"
    assert entry["finish_reason"] == "length"
    assert entry["status"] == 200
    assert entry["request_id"] == response.headers["x-request-id"] == "r-1"
    assert entry["connection"].startswith("127.0.0.1:")
    assert "x-secret" in entry["headers"]
    assert "hush" not in simulator.log.read_text()
    # Both processes share the monotonic clock: server times are bounds for what the client saw.
    received_s = entry["received_monotonic_s"]
    assert sent_s <= received_s
    lags_s = [
        at_s - received_s - chunk_s
        for (at_s, _), chunk_s in zip(seen, entry["chunk_sent_s"], strict=True)
    ]
    assert min(lags_s) >= 0
    assert sorted(lags_s)[len(lags_s) // 2] < 0.02
    assert entry["first_sent_s"] == entry["chunk_sent_s"][0]
    assert entry["last_sent_s"] == entry["chunk_sent_s"][-1]


def test_chunks_leave_at_their_step_and_never_drift(start_simulator):
    """The n-th of 60 steps of 10 ms ends at n * 10 ms: lateness does not add up."""
    simulator = start_simulator(*QUICK, "--prefill-tokens-per-s", "inf")
    receive_events(simulator.post(streamed(tokens=60)))

    sent_s = simulator.log_lines(1)[0]["chunk_sent_s"]
    lateness_s = [at_s - 0.01 * step for step, at_s in enumerate(sent_s, start=1)]
    assert min(lateness_s) >= 0
    assert sorted(lateness_s)[30] < 0.02


def test_an_unstreamed_answer_has_the_words_of_the_streamed_one(start_simulator):
    """Same body, same seed, same words."""
    simulator = start_simulator(*QUICK)
    body = json.loads(simulator.post(chat()).read())
    events = receive_events(simulator.post(streamed()))

    chunks = [json.loads(payload) for _, payload in events[:-2]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert body["choices"][0]["message"]["content"] == text
    assert body["usage"]["completion_tokens"] == 8
    entry = simulator.log_lines(2)[0]
    assert (entry["stream"], entry["chunk_sent_s"]) == (False, [])
    assert entry["first_sent_s"] >= 0.08


def test_a_repeated_system_prompt_is_served_from_the_cache(start_simulator):
    """Usage and log tell the cached tokens, and hashes tell which prefix it was."""
    simulator = start_simulator(*QUICK)
    system = "The quick brown fox. " * 20
    bodies = [json.loads(simulator.post(chat(t, system=system)).read()) for t in ("one", "two")]

    cached = [body["usage"]["prompt_tokens_details"]["cached_tokens"] for body in bodies]
    assert cached == [0, 96]  # 103 tokens of system message, in blocks of 16
    first, second = simulator.log_lines(2)
    assert [first["cached_tokens"], second["cached_tokens"]] == cached
    assert first["system_sha256"] == second["system_sha256"]
    assert first["user_sha256"] != second["user_sha256"]


def test_over_the_rate_a_client_gets_429_and_is_told_when_to_return(start_simulator):
    """The provider profile has a burst of ten."""
    simulator = start_simulator("--profile", "provider-rpm")
    responses = [simulator.post(streamed(tokens=1)) for _ in range(30)]

    statuses = [response.status for response in responses]
    assert statuses[:10] == [200] * 10
    assert 429 in statuses
    refused = next(response for response in responses if response.status == 429)
    assert int(refused.headers["retry-after"]) == 1
    assert refused.headers["x-ratelimit-limit-requests"] == "600"
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert refused.headers["x-ratelimit-reset-requests"].endswith("s")
    assert json.loads(refused.read())["error"]["code"] == "rate_limit_exceeded"
    entries = simulator.log_lines(30)
    assert [entry["status"] for entry in entries if entry["outcome"] == "rejected"] == (
        [429] * statuses.count(429)
    )


@pytest.mark.parametrize(
    ("flag", "status", "code"),
    [("--max-queue", 503, "queue_full"), ("--max-in-flight", 429, "too_many_in_flight")],
)
def test_a_full_house_refuses(start_simulator, flag, status, code):
    """One slot and room for one more: the third gets an error with a wait."""
    room = {"--max-queue": "1", "--max-in-flight": "2"}[flag]
    simulator = start_simulator("--max-num-seqs", "1", flag, room)
    open_streams = [simulator.post(streamed(tokens=1000))]
    simulator.wait_for_gauge("num_requests_running", 1)
    open_streams.append(simulator.post(streamed(tokens=1000)))
    refused = simulator.post(streamed())

    assert [response.status for response in open_streams] == [200, 200]
    assert refused.status == status
    assert json.loads(refused.read())["error"]["code"] == code
    assert refused.headers["retry-after"] == "1"
    entry = simulator.log_lines(1)[0]
    assert (entry["queued_behind"], entry["running_at_arrival"]) == (1, 1)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "unstreamed"])
def test_hanging_up_frees_the_slot_and_is_logged(start_simulator, stream):
    """The waiting request runs, and the log has what the gone one was sent."""
    simulator = start_simulator("--max-num-seqs", "1", *QUICK)
    gone = simulator.connect()
    gone.request("POST", "/v1/chat/completions", json.dumps(chat(tokens=8000, stream=stream)))
    if stream:
        response = gone.getresponse()
        for _ in range(3 * 2):  # a role chunk and two tokens
            response.readline()
        response.close()
    simulator.wait_for_gauge("num_requests_running", 1)
    gone.close()
    simulator.wait_for_gauge("num_requests_running", 0)

    assert simulator.post(chat()).status == 200
    first, second = simulator.log_lines(2)
    assert first["outcome"] == "cancelled"
    assert first["finish_reason"] is None
    assert first["completion_tokens"] == len(first["chunk_sent_s"])
    assert (first["completion_tokens"] >= 2) == stream
    assert second["outcome"] == "ok"
    assert second["queue_s"] < 0.5


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (json.dumps(chat(tokens=0)).encode(), 400, "invalid_value"),
        (json.dumps(chat(tokens=9000)).encode(), 400, "context_length_exceeded"),
        (json.dumps(chat() | {"model": "x"}).encode(), 404, "model_not_found"),
    ],
    ids=["json", "max_tokens", "context", "model"],
)
def test_bad_requests_get_their_status_and_a_log_line(start_simulator, body, status, code):
    """And the connection stays usable."""
    simulator = start_simulator()
    connection = simulator.connect()
    for _ in range(2):
        connection.request("POST", "/v1/chat/completions", body)
        response = connection.getresponse()
        assert response.status == status
        assert json.loads(response.read())["error"]["code"] == code

    first, second = simulator.log_lines(2)
    assert (first["status"], first["error_code"], first["outcome"]) == (status, code, "rejected")
    assert first["connection"] == second["connection"]


def test_a_required_key_must_be_right_and_is_never_logged(start_simulator):
    """401 without it, for the model list too; health and metrics stay open."""
    simulator = start_simulator(key="secret-7")
    right = {"Authorization": "Bearer secret-7"}

    assert simulator.post(chat()).status == 401
    assert simulator.post(chat(), {"Authorization": "Bearer other"}).status == 401
    assert simulator.post(chat(tokens=1), right).status == 200
    assert simulator.get("/v1/models")[0] == 401
    assert simulator.get("/v1/models", right)[0] == 200
    assert simulator.get("/health")[0] == 200
    assert "secret-7" not in simulator.log.read_text()


def test_the_other_paths(start_simulator):
    """Model list, health, metrics; 404 and 405 for what is not there."""
    simulator = start_simulator("--model", "my-model")
    models = json.loads(simulator.get("/v1/models")[1])
    status, page = simulator.get("/metrics")

    assert [model["id"] for model in models["data"]] == ["my-model"]
    assert simulator.get("/health") == (200, "")
    assert status == 200
    names = {family.name for family in text_string_to_metric_families(page)}
    assert {"vllm:num_requests_running", "vllm:time_to_first_token_seconds"} <= names
    assert simulator.get("/nowhere")[0] == 404
    assert simulator.get("/v1/chat/completions")[0] == 405


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_a_signal_ends_it_within_two_seconds_and_logs_open_streams(start_simulator, number):
    """Exit status 0; the client sees the body break off, the log says why."""
    simulator = start_simulator("--max-num-seqs", "1")
    responses = [simulator.post(streamed(tokens=1000)) for _ in range(2)]
    simulator.wait_for_gauge("num_requests_running", 1)
    status, took_s = simulator.stop(number)

    assert status == 0
    assert took_s < 2
    assert [response.status for response in responses] == [200, 200]
    entries = simulator.log_lines(2)
    assert {(entry["outcome"], entry["error_code"]) for entry in entries} == {("error", "shutdown")}


def test_the_null_profile_streams_without_pacing(start_simulator):
    """Two thousand tokens arrive in a fraction of the time any pace would need."""
    simulator = start_simulator("--profile", "null")
    events = receive_events(simulator.post(streamed(tokens=2000)))

    assert len(events) == 2000 + 4
    assert simulator.log_lines(1)[0]["end_s"] < 1


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        (["--host", "192.0.2.1"], 1),
        (["--log", "/nowhere/at/all"], 1),
        (["--trace", "/nowhere/too"], 1),
        (["--nonsense"], 2),
    ],
    ids=["address", "log", "trace", "flag"],
)
def test_a_simulator_that_cannot_start_says_why(flags, status):
    """One line on stderr, no traceback."""
    command = [sys.executable, "-m", "simulator", "--port", "0", *flags]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )

    assert done.returncode == status
    assert flags[0] in done.stderr
    assert "Traceback" not in done.stderr
