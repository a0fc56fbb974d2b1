"""Reading one reply: kinds of body, errors in all their shapes, limits, the other ways in."""

import json

import pytest

from stream.chat_chunk import Usage
from stream.reply import ERROR_BODY_BYTES, ReplyError, ReplyReader
from stream.sse import EventTooLarge
from tests.stream.playing import read_body, stream_of
from tests.support.case_notation import C, D, F, R, choice, compact, completion, content, usage

GOOD = R + C("sea") + F() + D


@pytest.mark.parametrize(
    ("content_type", "body", "streamed"),
    [
        pytest.param("text/event-stream", GOOD, True, id="declared"),
        pytest.param("Text/Event-Stream; charset=UTF-8", GOOD, True, id="declared-with-charset"),
        pytest.param(None, GOOD, True, id="undeclared"),
        pytest.param("text/plain", b"\xef\xbb\xbf\n: hi\n\n" + GOOD, True, id="wrong-type"),
        pytest.param("text/plain", b"event: x\n" + GOOD, True, id="event-field-first"),
        pytest.param("text/event-stream", compact(completion("sea", 2, 1)), False, id="an-object"),
        pytest.param("application/json", compact(completion("sea", 2, 1)), False, id="json"),
        pytest.param("application/problem+json", b"{}", False, id="other-json"),
        pytest.param(None, compact(completion("sea", 2, 1)), False, id="undeclared-json"),
        pytest.param("text/html", b"<html>", False, id="html"),
        pytest.param(None, b"dates are fruit", False, id="almost-a-field"),
        pytest.param("text/event-stream", b"", True, id="declared-and-empty"),
        pytest.param(None, b"", False, id="undeclared-and-empty"),
        pytest.param("text/event-stream", b" " * 9000, True, id="declared-blanks"),
        pytest.param(None, b" " * 9000, False, id="undeclared-blanks"),
    ],
)
def test_a_body_is_read_as_what_it_is(
    content_type: str | None, body: bytes, streamed: bool
) -> None:
    """The declared type decides, and the first bytes where it is silent or wrong."""
    assert read_body(body, content_type=content_type).streamed is streamed


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(
            b'{"error":{"message":"too many","type":"requests","code":"rate_limit"}}',
            ReplyError("rate_limit", "requests", "too many"),
            id="object",
        ),
        pytest.param(
            b'{"error":"Unauthorized"}', ReplyError(None, None, "Unauthorized"), id="text"
        ),
        pytest.param(
            b'{"object":"error","message":"too long","type":"BadRequestError","code":400}',
            ReplyError("400", "BadRequestError", "too long"),
            id="the-body-itself",
        ),
        pytest.param(b'{"detail":"Not Found"}', ReplyError(None, None, "Not Found"), id="detail"),
        pytest.param(b'{"message":"no route"}', ReplyError(None, None, "no route"), id="message"),
        pytest.param(b'"busy"', ReplyError(None, None, "busy"), id="json-string"),
        pytest.param(
            b"upstream\n overflow\n", ReplyError(None, None, "upstream overflow"), id="plain"
        ),
        pytest.param(b"", ReplyError(None, None, ""), id="empty"),
        pytest.param(b"\xff\xfe", ReplyError(None, None, "\ufffd\ufffd"), id="not-utf-8"),
        pytest.param(
            b"<html><title>503 &amp; out</title><body>x",
            ReplyError(None, None, "503 & out"),
            id="page",
        ),
        pytest.param(
            b"<html><body><h1>Slow down</h1></body>",
            ReplyError(None, None, "Slow down"),
            id="page-without-title",
        ),
        pytest.param(
            b'data: {"error":{"message":"full","code":503}}\n\ndata: [DONE]\n\n',
            ReplyError("503", None, "full"),
            id="event",
        ),
        pytest.param(
            b'{"error":{"message":{"why":"x"},"code":null,"type":7}}',
            ReplyError(None, None, '{"why": "x"}'),
            id="odd-types",
        ),
    ],
)
def test_error_bodies_of_every_shape_are_read(body: bytes, error: ReplyError) -> None:
    """Whatever a refusal says, code, type and message come out, the message on one line."""
    reply = read_body(body, status=429, content_type="text/plain")

    assert reply.error == error
    assert not reply.streamed


def test_an_error_body_is_kept_up_to_a_limit() -> None:
    """A refusal of 1 MB is counted whole; its message stays short."""
    reply = read_body(b"x" * 1_000_000, status=500)

    assert reply.body_bytes == 1_000_000
    assert reply.error is not None
    assert len(reply.error.message) == 500


def test_markup_without_end_is_read_in_linear_time() -> None:
    """A page of opening brackets does not hold the worker up."""
    page = b"<html>" + b"<title" * (ERROR_BODY_BYTES // 6)

    assert read_body(page, status=502).error is not None


@pytest.mark.parametrize(
    ("chunk", "error"),
    [
        pytest.param(
            {"error": {"message": "m", "code": 500}}, ReplyError("500", None, "m"), id="int"
        ),
        pytest.param(
            {"error": {"message": "m", "code": "x"}}, ReplyError("x", None, "m"), id="text"
        ),
        pytest.param({"error": "m"}, ReplyError(None, None, "m"), id="string"),
        pytest.param({"error": {}}, ReplyError(None, None, ""), id="empty-object"),
        pytest.param(
            {"object": "error", "message": "m", "code": 1}, ReplyError("1", None, "m"), id="object"
        ),
        pytest.param(
            {**choice({}, "error"), "error": {"message": "m"}},
            ReplyError(None, None, "m"),
            id="both",
        ),
        pytest.param({"detail": "m"}, ReplyError(None, None, "m"), id="detail"),
        pytest.param(
            {"type": "error", "message": "m"}, ReplyError(None, "error", "m"), id="type-error"
        ),
        pytest.param({"code": 5, "message": "m"}, ReplyError("5", None, "m"), id="bare"),
        pytest.param({"errors": [{"message": "m"}]}, ReplyError(None, None, "m"), id="errors"),
        pytest.param(
            choice({}, "error"),
            ReplyError(None, "finish_reason", "finished with an error"),
            id="finish_reason",
        ),
        pytest.param({**content("a"), "error": None}, None, id="null"),
        pytest.param({**content("a"), "message": "m", "code": 0}, None, id="text-with-members"),
        pytest.param({"usage": {"prompt_tokens": 1}, "detail": "m"}, None, id="usage"),
    ],
)
def test_E01_errors_in_a_stream_are_seen_in_every_shape(
    chunk: object, error: ReplyError | None
) -> None:
    """A top-level error of any shape fails the stream; null is no error."""
    assert stream_of(chunk).error == error


def test_the_first_error_of_a_stream_is_kept() -> None:
    """A second error is a consequence of the first."""
    reply = stream_of({"error": "first"}, {"error": "second"})

    assert reply.error == ReplyError(None, None, "first")


def test_what_follows_done_is_not_read() -> None:
    """Text after ``[DONE]``, in the same piece or a later one, is not output."""
    reader = ReplyReader()
    reader.begin(200, "text/event-stream", 0.1)
    reader.feed(C("a") + b"data:  [DONE] \n\n" + C("b"), 0.2)
    reader.feed(C("c") + b"data: half", 0.3)
    reply = reader.close(0.4)

    assert reply.saw_done
    assert (reply.chunks, reply.pending_tail) == (1, False)


def test_a_stream_cut_in_an_event_has_a_pending_tail() -> None:
    """The half event is neither output nor a parse error."""
    reply = read_body(C("a") + b'data: {"choices":[{"de')

    assert reply.pending_tail
    assert (reply.chunks, reply.parse_errors) == (1, 0)


def test_state_can_be_asked_while_the_stream_runs() -> None:
    """``started``, ``failed``, ``done`` and the newest output are known before the end."""
    reader = ReplyReader()
    reader.begin(200, "text/event-stream", 0.1)
    states = []
    for at_s, piece in enumerate([R, C("a"), b'data: {"error":"x"}\n\n', D]):
        reader.feed(piece, float(at_s))
        states.append((reader.started, reader.failed, reader.done, reader.last_output_s))

    assert states == [
        (False, False, False, None),
        (True, False, False, 1.0),
        (True, True, False, 1.0),
        (True, True, True, 1.0),
    ]


def test_payloads_of_another_decoder_give_the_same_reply() -> None:
    """Payload by payload or as bytes: the same output, end and keep-alives."""
    reader = ReplyReader(keep_text=True)
    reader.begin(200, "text/event-stream", 0.1)
    for payload in (compact(content("sea")), b"", compact(choice({}, "stop")), b"[DONE]"):
        reader.feed_payload(payload, 0.2)
    reader.keepalive()
    reply = reader.close(0.3)

    assert reply.texts == {0: "sea"}
    assert (reply.keepalives, reply.saw_done, reply.finish_reason) == (2, True, "stop")


def test_a_payload_of_a_refusal_is_its_body() -> None:
    """Another decoder's payload after a 503 is read as the error."""
    reader = ReplyReader()
    reader.begin(503, "text/event-stream", 0.1)
    reader.feed_payload(b'{"error":{"message":"full"}}', 0.2)

    assert reader.close(0.3).error == ReplyError(None, None, "full")


def test_a_request_without_an_answer_still_closes() -> None:
    """No head arrived: no status, nothing seen."""
    reply = ReplyReader().close(1.5)

    assert (reply.status, reply.headers_s, reply.error) == (None, None, None)
    assert (reply.streamed, reply.has_output, reply.end_s) == (False, False, 1.5)


def test_an_event_over_the_limit_leaves_what_was_read() -> None:
    """The decoder refuses; the reply so far can still be closed."""
    reader = ReplyReader()
    reader.begin(200, "text/event-stream", 0.1)
    reader.feed(C("a"), 0.2)
    with pytest.raises(EventTooLarge):
        reader.feed(b"data: " + b"x" * (2 << 20), 0.3)

    assert reader.close(0.4).chunks == 1


def test_text_is_kept_only_when_asked() -> None:
    """A load test holds no text of its own accord."""
    reader = ReplyReader()
    reader.begin(200, "text/event-stream", 0.1)
    reader.feed(GOOD, 0.2)

    assert reader.close(0.3).texts is None


def test_F03_halves_of_an_escaped_character_are_put_together() -> None:
    """A pair of surrogates that two chunks carried is one character of the text."""
    halves = [{"choices": [{"delta": {"content": half}}]} for half in ("\ud83e", "\udd91")]

    assert stream_of(*halves).texts == {0: "🦑"}


@pytest.mark.parametrize(
    ("message", "tool_calls"),
    [
        pytest.param({"content": None, "reasoning_content": "hm"}, 0, id="reasoning"),
        pytest.param({"content": "", "refusal": "no"}, 0, id="refusal"),
        pytest.param(
            {"tool_calls": [{"id": "t", "function": {"name": "tide"}}] * 2}, 1, id="one-id"
        ),
        pytest.param({"tool_calls": [{"function": {"name": "tide"}}] * 2}, 2, id="two-calls"),
        pytest.param({"function_call": {"name": "tide", "arguments": "{}"}}, 1, id="old-call"),
        pytest.param({"content": [{"type": "text", "text": "sea"}]}, 0, id="parts"),
    ],
)
def test_a_plain_answer_has_output_of_any_kind(message: object, tool_calls: int) -> None:
    """Reasoning, refusal or tool calls alone are output."""
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage(3, 4)}
    reply = read_body(compact(body), content_type="application/json")

    assert reply.has_output
    assert reply.wire_shape_ok
    assert (reply.tool_calls, reply.usage) == (tool_calls, Usage(3, 4))


def test_the_model_that_answered_is_echoed() -> None:
    """A gateway's fallback shows in the body's model, streamed or plain."""
    body = json.dumps({"model": "backup", **completion("sea", 2, 1)}).encode()

    assert stream_of({**content("a"), "model": "backup"}).model == "backup"
    assert read_body(body, content_type="application/json").model == "backup"


@pytest.mark.parametrize(
    ("piece", "shared"),
    [
        pytest.param(R + C("a"), False, id="last"),
        pytest.param(C("a"), False, id="alone"),
        pytest.param(C("a") + C("b"), True, id="with-output"),
        pytest.param(C("a") + F(), True, id="with-finish"),
        pytest.param(C("a") + b": ping\n\n", True, id="with-comment"),
        pytest.param(C("a") + b"data: {", True, id="with-a-beginning"),
        pytest.param(b": ping\n\n" + C("a"), False, id="after-comment"),
    ],
)
def test_what_came_with_the_first_output_is_told(piece: bytes, shared: bool) -> None:
    """Anything behind it in its piece makes its time that of something later."""
    reader = ReplyReader()
    reader.begin(200, "text/event-stream", 0.1)
    reader.feed(piece, 0.2)
    assert shared is reader.first_output_shared
