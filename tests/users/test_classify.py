"""How a request ended: one outcome, from what the server said and what the transport felt."""

import json

import pytest

from metrics.outcome import Outcome
from stream.reply import ReplyReader
from users.classify import classify
from users.wire import WireFailure

A = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
B = b'data: {"choices":[{"index":0,"delta":{"content":"b"}}]}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'
REASONING = b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}\n\n'
DONE = b"data: [DONE]\n\n"

LOST = WireFailure(Outcome.INTERRUPTED, "connection reset")


def _reply(status, body, content_type):
    reader = ReplyReader()
    reader.begin(status, content_type, 0.01)
    if body:
        reader.feed(body, 0.02)
    return reader.close(0.03)


def _stream(*pieces, failure=None):
    return classify(_reply(200, b"".join(pieces), "text/event-stream"), failure)


def _plain(body, status=200, failure=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return classify(_reply(status, data, "application/json"), failure)


def _answer(message, **members):
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"choices": [choice], **members}


def _error(message="no", **members):
    return {"error": {"message": message, **members}}


@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        ((A, B, FINISH, DONE), Outcome.OK),
        ((A, B, FINISH), Outcome.OK),
        ((A, B, DONE), Outcome.OK),
        ((A, B), Outcome.TRUNCATED),
    ],
    ids=["both", "finish alone", "done alone", "neither"],
)
def test_E06_a_stream_ends_with_either_mark(pieces, outcome):
    """finish_reason or [DONE] is an end; a clean close without either is a cut."""
    assert outcome is _stream(*pieces).outcome


@pytest.mark.parametrize(
    "pieces",
    [(), (DONE,), (ROLE, FINISH, DONE), (ROLE,), (b": ping\n\n",)],
    ids=["no body", "done alone", "role and finish", "role alone", "comment"],
)
def test_F15_a_stream_with_nothing_in_it_failed(pieces):
    """200 without output and without tokens is no fast success."""
    assert _stream(*pieces).outcome is Outcome.EMPTY_RESPONSE


@pytest.mark.parametrize(
    "pieces",
    [(REASONING, FINISH, DONE), (ROLE, FINISH, USAGE, DONE)],
    ids=["reasoning alone", "tokens that do not show"],
)
def test_output_need_not_be_visible(pieces):
    """Reasoning, or tokens that the server counted, are work done."""
    assert _stream(*pieces).outcome is Outcome.OK


def test_F14_a_stream_answered_with_one_body_is_ok():
    """The plain answer is judged as a plain answer."""
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}

    verdict = _plain(_answer({"role": "assistant", "content": "mint tea"}, usage=usage))

    assert verdict.outcome is Outcome.OK


def test_E01_an_error_after_tokens_is_a_stream_error():
    """A later [DONE] does not make it a success; type and text are the server's."""
    error = _error("engine stopped", type="InternalServerError", code=500)

    verdict = _stream(ROLE, A, B, b"data: " + json.dumps(error).encode() + b"\n\n", DONE)

    assert verdict.outcome is Outcome.STREAM_ERROR
    assert (verdict.error_code, verdict.message) == ("InternalServerError", "engine stopped")


def test_E02_an_error_as_the_first_event_is_a_stream_error():
    """It is not an empty answer: the server said why."""
    error = _error("queue full", code=503)

    verdict = _stream(b"data: " + json.dumps(error).encode() + b"\n\n", DONE)

    assert verdict.outcome is Outcome.STREAM_ERROR
    assert (verdict.error_code, verdict.message) == ("503", "queue full")


def test_an_event_that_is_not_json_makes_the_stream_malformed():
    """Tokens may be missing, so no figure of it counts."""
    verdict = _stream(A, b"data: {oops\n\n", FINISH, DONE)

    assert verdict.outcome is Outcome.MALFORMED_STREAM
    assert "1 events" in verdict.message


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (_error("quota"), Outcome.BAD_RESPONSE),
        ({"choices": None}, Outcome.BAD_RESPONSE),
        ({"choices": []}, Outcome.BAD_RESPONSE),
        ([], Outcome.BAD_RESPONSE),
        ("ok", Outcome.BAD_RESPONSE),
        (b"not json", Outcome.BAD_RESPONSE),
        (b"", Outcome.EMPTY_RESPONSE),
        (_answer({"role": "assistant", "content": ""}), Outcome.EMPTY_RESPONSE),
        (_answer({"role": "assistant", "content": None}), Outcome.EMPTY_RESPONSE),
    ],
    ids=[
        "error",
        "null choices",
        "no choices",
        "list",
        "string",
        "not json",
        "no body",
        "empty text",
        "null text",
    ],
)
def test_E08_a_200_that_is_no_answer_failed(body, outcome):
    """Each such body has its kind, and none is a success."""
    assert outcome is _plain(body).outcome


def test_E08_an_error_in_a_200_keeps_its_text():
    """The row in the error table says what the server said."""
    verdict = _plain(_error("quota", code="out_of_quota"))

    assert (verdict.error_code, verdict.message) == ("out_of_quota", "quota")


def test_a_plain_answer_may_be_tokens_alone():
    """Tokens that the server counted are work done, whether they show or not."""
    body = _answer({"role": "assistant", "content": ""}, usage={"completion_tokens": 1})

    assert _plain(body).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, Outcome.CLIENT_ERROR),
        (401, Outcome.AUTH),
        (402, Outcome.QUOTA_EXHAUSTED),
        (403, Outcome.AUTH),
        (404, Outcome.NOT_FOUND),
        (408, Outcome.CLIENT_ERROR),
        (413, Outcome.CLIENT_ERROR),
        (422, Outcome.CLIENT_ERROR),
        (429, Outcome.RATE_LIMITED),
        (500, Outcome.SERVER_ERROR),
        (502, Outcome.SERVER_ERROR),
        (503, Outcome.OVERLOADED),
        (504, Outcome.SERVER_ERROR),
        (524, Outcome.SERVER_ERROR),
        (529, Outcome.OVERLOADED),
        (599, Outcome.SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("body", [b"", _error()], ids=["no body", "error"])
def test_a_status_has_one_outcome(status, outcome, body):
    """With no code of the server's own, the status names the error."""
    verdict = _plain(body, status)

    assert outcome is verdict.outcome
    assert verdict.error_code == f"http_{status}"
    assert verdict.message.startswith(f"HTTP {status}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status):
    """The message says what to do about it."""
    verdict = _plain(b"", status)

    assert verdict.outcome is Outcome.CLIENT_ERROR
    assert verdict.error_code == f"http_{status}"
    assert "give the final URL" in verdict.message


def test_E07_a_gateway_page_is_one_short_line():
    """9 kB of HTML give its title, under the code of the status."""
    page = b"<!DOCTYPE html><html><title>524: A timeout</title><p>" + b"x" * 9_000

    verdict = classify(_reply(524, page, "text/html"), None)

    assert verdict.outcome is Outcome.SERVER_ERROR
    assert (verdict.error_code, verdict.message) == ("http_524", "HTTP 524 524: A timeout")


@pytest.mark.parametrize(
    ("status", "error", "outcome", "code"),
    [
        (
            401,
            _error("Incorrect API key provided", code="invalid_api_key"),
            Outcome.AUTH,
            "invalid_api_key",
        ),
        (
            404,
            _error("model 'osprey-x' does not exist", code="model_not_found"),
            Outcome.NOT_FOUND,
            "model_not_found",
        ),
    ],
    ids=["wrong key", "wrong model"],
)
def test_E09_a_wrong_key_or_model_is_told_in_the_servers_words(status, error, outcome, code):
    """Kind, code and text are what the preflight shows."""
    verdict = _plain(error, status)

    assert outcome is verdict.outcome
    assert code == verdict.error_code
    assert verdict.message == f"HTTP {status} {error['error']['message']}"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, _error("limit 2048, got 2311 (req 9f0a)", code="context_length_exceeded")),
        (
            400,
            _error(
                "This model's maximum context length is 2048 tokens. However, your request has "
                "2311 input tokens. Please reduce the length of the input messages.",
                type="BadRequestError",
                code=400,
            ),
        ),
        (
            400,
            _error(
                "The decoder prompt (length 2311) is longer than the maximum model length of 2048.",
                type="BadRequestError",
                code=400,
            ),
        ),
        (
            400,
            _error(
                "the request exceeds the available context size, try increasing it",
                type="exceed_context_size_error",
                code=400,
            ),
        ),
        (400, _error("too long", type="exceed_context_size_error", code=400)),
        (
            400,
            _error("The input (2311 tokens) is longer than the model's context length (2048)."),
        ),
        (413, _error("too many tokens")),
        (422, _error("no", code="context_window_exceeded")),
    ],
    ids=[
        "code",
        "vllm",
        "vllm engine",
        "llama.cpp",
        "llama.cpp type",
        "sglang",
        "too large",
        "unprocessable",
    ],
)
def test_E10_a_prompt_over_the_limit_has_its_own_outcome(status, error):
    """By code, by type or in the words that servers use."""
    assert _plain(error, status).outcome is Outcome.CONTEXT_LENGTH


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_E10_only_a_refused_body_can_be_too_long(status):
    """The same words under another status are not about the prompt."""
    error = _error("maximum context length", code="context_length_exceeded")

    assert _plain(error, status).outcome is not Outcome.CONTEXT_LENGTH


@pytest.mark.parametrize(
    "members",
    [
        {"code": "insufficient_quota"},
        {"type": "insufficient_quota"},
        {"code": "quota_exceeded"},
        {"code": "Insufficient_Quota"},
        {"type": "billing_error"},
        {"code": "credit_balance_too_low"},
        {"code": "insufficient_credits"},
        {"type": "budget_exceeded"},
    ],
    ids=["code", "type", "exceeded", "capitals", "billing", "credit", "credits", "budget"],
)
def test_R12_a_429_about_quota_can_never_succeed(members):
    """Code or type says so."""
    verdict = _plain(_error("plan used up", **members), 429)

    assert verdict.outcome is Outcome.QUOTA_EXHAUSTED
    assert verdict.message == "HTTP 429 plan used up"


@pytest.mark.parametrize(
    "error",
    [
        _error("Rate limit reached", type="requests", code="rate_limit_exceeded"),
        _error("Rate limit reached; see your billing page for your quota", code="rate_limit"),
        _error("slow down"),
        _error("slow down", code="quota_exceeded_per_minute"),
        _error("slow down", code="accredited_only"),
    ],
    ids=["rate code", "quota in the text", "no code", "per minute", "a part of a word"],
)
def test_R12_a_429_about_the_rate_may_succeed_later(error):
    """Words of the message alone do not make it a quota."""
    assert _plain(error, 429).outcome is Outcome.RATE_LIMITED


def test_what_the_server_said_goes_before_what_the_transport_felt():
    """An error status or an error event is the outcome even when the body was cut."""
    event = b'data: {"error":{"message":"engine stopped"}}\n\n'

    assert _plain(b"", 503, failure=LOST).outcome is Outcome.OVERLOADED
    assert _stream(A, event, failure=LOST).outcome is Outcome.STREAM_ERROR


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.CONNECT_ERROR,
        Outcome.TLS_ERROR,
        Outcome.CONNECT_TIMEOUT,
        Outcome.FIRST_TOKEN_TIMEOUT,
        Outcome.CLIENT_RESOURCE,
    ],
    ids=lambda outcome: outcome.value.replace("_", " "),
)
def test_without_an_answer_the_transport_decides(outcome):
    """The code is the outcome's own name, the text the transport's."""
    verdict = classify(ReplyReader().close(1.0), WireFailure(outcome, "why"))

    assert outcome is verdict.outcome
    assert (verdict.error_code, verdict.message) == (outcome.value, "why")


@pytest.mark.parametrize(
    "outcome",
    [Outcome.INTERRUPTED, Outcome.IDLE_TIMEOUT, Outcome.TOTAL_TIMEOUT, Outcome.MALFORMED_STREAM],
    ids=lambda outcome: outcome.value.replace("_", " "),
)
def test_E05_a_cut_stream_is_what_the_transport_reports(outcome):
    """Tokens before the cut do not make it a success."""
    assert outcome is _stream(A, B, failure=WireFailure(outcome, "why")).outcome


@pytest.mark.parametrize("status", [200, 503])
def test_our_own_cancellation_goes_before_everything(status):
    """A run that ends counts no request against the server."""
    cancelled = WireFailure(Outcome.CANCELLED, "run ended")

    verdict = _plain(b"", status, failure=cancelled)

    assert verdict.outcome is Outcome.CANCELLED
    assert verdict.error_code is None
