"""Who a request is, on the wire: ``X-Request-Id`` and ``traceparent`` of each attempt."""

import pytest

from metrics.outcome import Outcome
from metrics.trace_context import parent_id, traceparent
from tests.support.asking import asker, make_settings
from tests.support.case_notation import C, D, F, R, U
from tests.support.nginx_server import nginx, requires_nginx
from tests.support.raw_server import answer, raw_server
from users.preflight import preflight
from users.secrets import load_secrets

pytestmark = [pytest.mark.live, pytest.mark.timeout(60)]

KINDS = pytest.mark.parametrize("traffic", ["stream", "block", "sdk"])
REFUSED = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
    b"Retry-After: 0\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
)
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
BODY = (
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
)
EVENTS = R + C("a") + F() + U(3, 1) + D
GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def good(traffic):
    """An answer of the kind that the traffic asks for."""
    return answer(PLAIN + BODY if traffic == "block" else STREAM + EVENTS, end="close")


def fields(request, name):
    """All values of one header field."""
    lines = [line.partition(": ") for line in request["head"][1:]]
    return [value for own, _, value in lines if own.lower() == name]


@KINDS
def test_attempts_share_a_trace_and_differ_in_parent_and_id(tmp_path, traffic):
    """A refused request is sent again: the record leads to both lines of a gateway's log."""
    refused = answer(REFUSED, end="close")
    with (
        raw_server(tmp_path, refused, good(traffic)) as server,
        asker(server.url, traffic=traffic, retries=1, backoff="fixed:10ms") as user,
    ):
        record = user.ask().record
        sent = server.events("request")

    assert (Outcome.OK, 2) == (record.outcome, record.attempts)
    assert [record.request_id, f"{record.request_id}.1"] == [
        value for request in sent for value in fields(request, "x-request-id")
    ]
    assert [
        f"00-{record.trace_id}-{parent_id(record.request_id, attempt)}-01" for attempt in (0, 1)
    ] == [value for request in sent for value in fields(request, "traceparent")]


@KINDS
def test_requests_have_traces_of_their_own(tmp_path, traffic):
    """Two requests of one user are two traces."""
    with (
        raw_server(tmp_path, good(traffic)) as server,
        asker(server.url, traffic=traffic) as user,
    ):
        records = [user.ask().record, user.ask().record]
        sent = server.events("request")

    traces = [fields(request, "traceparent")[0].split("-")[1] for request in sent]
    assert [record.trace_id for record in records] == traces
    assert 2 == len(set(traces))


@KINDS
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"header": [f"Traceparent: {GIVEN}", "x-request-id: mine"]}, ([GIVEN], ["mine"])),
        ({"traceparent": "off", "header": ["X-Request-Id: mine"]}, ([], ["mine"])),
    ],
    ids=["given", "off"],
)
def test_what_the_user_gives_takes_the_place_of_ours(tmp_path, traffic, options, expected):
    """Each field is there once at most, with every transport."""
    with (
        raw_server(tmp_path, good(traffic)) as server,
        asker(server.url, traffic=traffic, **options) as user,
    ):
        user.ask()
        (request,) = server.events("request")

    assert expected == (fields(request, "traceparent"), fields(request, "x-request-id"))


def test_the_preflight_has_a_trace_too(tmp_path):
    """Its own, which follows from its own id."""
    with raw_server(tmp_path, good("stream")) as server:
        settings = make_settings(server.url, model="m")
        result = preflight(settings, load_secrets(settings, {}), "run")
        (request,) = server.events("request")

    assert result.error is None
    assert ["run-preflight"] == fields(request, "x-request-id")
    assert [traceparent("run-preflight", 0, "sampled")] == fields(request, "traceparent")


@requires_nginx
def test_a_gateways_log_is_joined_with_the_record(tmp_path):
    """nginx logs what it was told, and passes it on: one line for each attempt."""
    refused = answer(REFUSED, end="close")
    with (
        raw_server(tmp_path, refused, good("stream")) as server,
        nginx(tmp_path / "nginx", server.url) as front,
        asker(front.url, retries=1, backoff="fixed:10ms") as user,
    ):
        record = user.ask().record
        logged, sent = front.asked(), server.events("request")

    mine = [line for line in logged if line["traceparent"].split("-")[1] == record.trace_id]
    assert [(record.request_id, 429), (f"{record.request_id}.1", 200)] == [
        (line["request_id"], line["status"]) for line in mine
    ]
    assert [line["traceparent"] for line in mine] == [
        value for request in sent for value in fields(request, "traceparent")
    ]
