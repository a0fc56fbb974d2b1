"""What is asked for with every request is there once, on the trial request and on all others."""

import json

import pytest

from tests.support.case_notation import C, D, F, R, U
from tests.support.raw_server import answer, raw_server
from tests.support.runs import PREFLIGHT, run_headless

pytestmark = pytest.mark.live

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
BODY = (
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
)
EVENTS = R + C("a") + F() + U(3, 1) + D


@pytest.mark.parametrize("traffic", ["stream", "block", "sdk"])
def test_C04_headers_and_extra_body_are_on_the_preflight_and_on_every_request(tmp_path, traffic):
    """Each header once, no key of ours beside the user's; the body's extras beside its messages."""
    reply = PLAIN + BODY if traffic == "block" else STREAM + EVENTS
    with raw_server(tmp_path, answer((50, reply), end="close")) as server:
        run = run_headless(
            tmp_path / "runs",
            *("--host", server.url, "--model", "m", "--traffic", traffic),
            *("--header", "api-key: k", "--header", "X-Run: 5"),
            *("--extra-body", '{"temperature":0,"priority":3}'),
            *("-u", 2, "-r", 2, "-t", "2s", "--settle", "0s"),
            env={"SWARMGAUGE_API_KEY": "sk-test-AAAA1111"},
        )
        requests = server.events("request")

    assert run.summary["totals"]["failed"] == 0, run.output[-2000:]
    assert len(requests) == run.summary["totals"]["offered"] + 1
    preflights = 0
    for request in requests:
        fields = [line.partition(": ") for line in request["head"][1:]]
        names = [name.lower() for name, _, _ in fields]
        values = {name.lower(): value for name, _, value in fields}
        assert len(names) == len(set(names)), names
        assert ("k", "5") == (values["api-key"], values["x-run"])
        assert "authorization" not in values
        preflights += values.get("x-request-id", "").endswith(PREFLIGHT)
        assert 1 == request["body"].count('"temperature"')
        body = json.loads(request["body"])
        assert (0, 3) == (body["temperature"], body["priority"])
        assert body["messages"][-1]["role"] == "user"
    assert 1 == preflights
