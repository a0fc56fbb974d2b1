"""What is tried again, after which wait, and why not."""

import json
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.outcome import Outcome
from stream.limit_headers import read_limit_headers
from stream.reply import ReplyReader
from users.classify import classify
from users.retry_policy import (
    AttemptEnd,
    GiveUp,
    Retry,
    RetryPolicy,
    status_in_code,
)
from users.wire import WireFailure
from workloads.backoff import Fixed, FullJitter, ServerOnly
from workloads.retry_statuses import RETRY_STATUSES, parse_retry_on

NOW = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
CAP_S = 30.0
NEVER = GiveUp(None)
# A wait that no header in here asks for, so that the backoff's own is known when it is seen.
BACKOFF_S = 7.0
TOKEN = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}


def _policy(retries=3, backoff=None, **options):
    return RetryPolicy(retries, backoff or Fixed(BACKOFF_S), CAP_S, **options)


def _decide(end, retry=1, policy=None, seed=5):
    return (policy or _policy()).decide(end, retry, 0.0, random.Random(seed))


def _end(status=None, body=b"", events=None, headers=None, failure=None):
    """An attempt's end, from what came over the wire."""
    reader = ReplyReader()
    if status is not None:
        reader.begin(status, "application/json" if events is None else "text/event-stream", 0.01)
        reader.feed(body if isinstance(body, bytes) else json.dumps(body).encode(), 0.02)
    for event in events or ():
        reader.feed(b"data: " + json.dumps(event).encode() + b"\n\n", 0.02)
    reply = reader.close(0.03)
    verdict = classify(reply, failure)
    limits = read_limit_headers(headers or {}, NOW)
    return AttemptEnd(
        outcome=verdict.outcome,
        status=reply.status,
        output_seen=reply.has_output,
        asked_wait_s=limits.retry_after_s,
        hinted_wait_s=limits.wait_hint_s,
        error_status=status_in_code(verdict.error_code),
    )


def _refused(headers):
    return _decide(_end(429, headers=headers))


@pytest.mark.parametrize(
    ("headers", "least_s", "most_s"),
    [
        ({"retry-after": "1"}, 1.0, 2.0),
        ({"retry-after": "1.5"}, 1.5, 2.5),
        ({"retry-after": "0"}, 0.0, 0.3),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25, 0.7),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0, 2.0),
        ({"retry-after": "30"}, 30.0, 33.0),
    ],
    ids=lambda value: str(value),
)
def test_R01_the_asked_wait_is_waited_and_little_more(headers, least_s, most_s):
    """Whatever the chance: never early, and the backoff does not come on top."""
    for seed in range(200):
        decision = _decide(_end(429, headers=headers), seed=seed)

        assert least_s <= decision.wait_s < most_s
        assert least_s == decision.asked_wait_s


@settings(deadline=None)
@given(asked_s=st.floats(min_value=0, max_value=CAP_S), seed=st.integers(0, 1 << 32))
def test_R01_no_retry_is_earlier_than_asked(asked_s, seed):
    """Jitter only adds: at most a tenth, or 50 ms, or 200 ms when told to come at once."""
    end = AttemptEnd(Outcome.RATE_LIMITED, 429, False, asked_wait_s=asked_s)

    decision = _decide(end, seed=seed)

    most_s = asked_s + (max(0.05, asked_s / 10) if asked_s else 0.2)
    assert asked_s <= decision.wait_s <= most_s


@pytest.mark.parametrize("asked", ["0", "0.1", "1", "20"])
def test_clients_told_the_same_wait_do_not_come_back_together(asked):
    """Fifty of them are spread over at least 40 ms."""
    end = _end(429, headers={"retry-after": asked})

    waits = [_decide(end, seed=seed).wait_s for seed in range(50)]

    assert max(waits) - min(waits) > 0.04


@pytest.mark.parametrize(
    ("text", "least_s", "most_s"),
    [("Thu, 05 Mar 2026 12:00:02 GMT", 2.0, 4.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0, 0.5)],
    ids=["in 2 s", "past"],
)
def test_R02_a_date_is_waited_for(text, least_s, most_s):
    """From now on; a past one is now."""
    assert least_s <= _refused({"retry-after": text}).wait_s < most_s


@pytest.mark.parametrize("text", ["soon", "", "-5", "nan", "inf"], ids=lambda text: repr(text))
def test_R02_junk_leaves_the_wait_to_the_backoff(text):
    """Neither a crash nor a retry at once."""
    assert Retry(BACKOFF_S, None) == _refused({"retry-after": text})


def test_R05_the_reset_of_the_used_up_budget_is_waited_for_without_a_retry_after():
    """Like an asked wait: never early."""
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "3s"}

    decision = _refused(headers)

    assert 3.0 <= decision.wait_s <= 3.3
    assert 3.0 == decision.asked_wait_s


def test_R05_a_reset_is_only_the_fallback():
    """Retry-After goes first, also when it is shorter."""
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}

    assert 1.0 == _refused(headers | {"retry-after": "1"}).asked_wait_s


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (
            {"retry-after": "60"},
            "the server asks for a wait of 60 s, over --retry-cap 30 s",
        ),
        (
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"},
            "the server's rate limit resets in 360 s, over --retry-cap 30 s",
        ),
    ],
    ids=["asked", "hinted"],
)
def test_a_wait_over_the_cap_is_not_cut_short(headers, reason):
    """An earlier retry would be refused again: better none, and say so."""
    assert GiveUp(reason) == _refused(headers)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_R08_a_status_of_the_list_is_retried_and_its_header_obeyed(status):
    """Each of the seven, and Retry-After on every one of them."""
    assert Retry(BACKOFF_S, None) == _decide(_end(status))
    assert 1.0 == _decide(_end(status, headers={"retry-after": "1"})).asked_wait_s


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 405, 409, 413, 422, 501, 505])
def test_R08_other_statuses_are_not_retried(status):
    """409 among them, and neither does a Retry-After make them worth it."""
    assert NEVER == _decide(_end(status))
    assert NEVER == _decide(_end(status, headers={"retry-after": "1"}))


@pytest.mark.parametrize("body", [b"", b"<html>busy</html>", b"overflow", {"error": "busy"}])
@pytest.mark.parametrize("status", [408, 429, 503])
def test_R08_the_status_decides_whatever_the_body_is(status, body):
    """Gateways refuse with a page, a word or nothing at all."""
    assert Retry(BACKOFF_S, None) == _decide(_end(status, body))


def test_E07_a_gateway_that_gave_up_waiting_is_not_retried():
    """524 is a limit that ran out while the server was working, as one of ours is."""
    assert NEVER == _decide(_end(524, b"<html>a timeout occurred</html>"))


def test_R08_the_list_can_be_another():
    """A status off the own list is not retried, one on it is."""
    policy = _policy(statuses=frozenset({409, 503}))

    assert [True, True, False] == [
        isinstance(_decide(_end(status), policy=policy), Retry) for status in (409, 503, 429)
    ]


@pytest.mark.parametrize(
    "outcome", [Outcome.CONNECT_ERROR, Outcome.CONNECT_TIMEOUT, Outcome.INTERRUPTED]
)
def test_R08_a_connection_lost_before_the_first_byte_is_retried(outcome):
    """Nothing of an answer had come."""
    assert Retry(BACKOFF_S, None) == _decide(_end(failure=WireFailure(outcome, "reset")))


@pytest.mark.parametrize("events", [[], [ROLE], [TOKEN]], ids=["head", "role", "token"])
def test_R08_a_connection_lost_after_the_first_byte_is_not_retried(events):
    """The server had taken the request and begun to answer."""
    lost = WireFailure(Outcome.INTERRUPTED, "reset")

    assert NEVER == _decide(_end(200, events=events, failure=lost))


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.TLS_ERROR,
        Outcome.CLIENT_RESOURCE,
        Outcome.FIRST_TOKEN_TIMEOUT,
        Outcome.IDLE_TIMEOUT,
        Outcome.TOTAL_TIMEOUT,
        Outcome.CANCELLED,
    ],
)
def test_faults_of_the_set_up_and_limits_of_ours_are_not_retried(outcome):
    """The first would fail again, the others would add load to an endpoint that is only slow."""
    assert NEVER == _decide(_end(failure=WireFailure(outcome, "why")))


def test_every_kind_of_end_is_decided():
    """With nothing known but the outcome, only connection errors are retried: no kind that is new
    becomes one by accident, and neither success nor cancellation ever is."""
    retried = {
        outcome
        for outcome in Outcome
        if isinstance(_decide(AttemptEnd(outcome, None, False)), Retry)
    }

    assert {Outcome.CONNECT_ERROR, Outcome.CONNECT_TIMEOUT, Outcome.INTERRUPTED} == retried


@pytest.mark.parametrize("outcome", Outcome, ids=lambda outcome: outcome.value)
def test_R10_nothing_is_retried_after_a_generated_token(outcome):
    """Whatever the end, the status, the code and the header."""
    end = AttemptEnd(outcome, 503, True, asked_wait_s=0.0, error_status=503)

    assert NEVER == _decide(end)


ERROR_503 = {"error": {"message": "engine is busy", "code": 503}}


def test_R10_an_error_event_after_a_token_is_a_failure():
    """The stream is not sent again."""
    assert NEVER == _decide(_end(200, events=[TOKEN, ERROR_503]))


@pytest.mark.parametrize("before", [[], [ROLE]], ids=["first", "after the role"])
def test_R10_an_error_event_before_any_token_is_retried_by_its_code(before):
    """A role is no generated token, and the code stands for a status."""
    assert Retry(BACKOFF_S, None) == _decide(_end(200, events=[*before, ERROR_503]))


@pytest.mark.parametrize("code", [400, "401", "insufficient_quota", None, "5030", "50"])
def test_R10_an_error_event_with_another_code_is_not_retried(code):
    """A status off the list, a name, or none."""
    event = {"error": {"message": "engine is busy", "code": code}}

    assert NEVER == _decide(_end(200, events=[event]))


@pytest.mark.parametrize("code", ["insufficient_quota", "quota_exceeded"])
def test_R12_a_used_up_plan_is_not_retried(code):
    """Although it is a 429, and even when it asks to come back."""
    body = {"error": {"code": code, "message": "plan used up"}}

    end = _end(429, body, headers={"retry-after": "1"})

    assert Outcome.QUOTA_EXHAUSTED is end.outcome
    assert NEVER == _decide(end)


def test_E10_a_prompt_over_the_context_limit_is_not_retried():
    """Nor is it by a list of one's own: the kind decides, not the status."""
    body = {"error": {"code": "context_length_exceeded", "message": "limit 2048, got 2311"}}
    end = _end(400, body)

    assert Outcome.CONTEXT_LENGTH is end.outcome
    assert NEVER == _decide(end)
    assert NEVER == _decide(end, policy=_policy(statuses=frozenset({400})))


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
def test_E10_no_list_may_name_a_status_that_stays_the_same(status):
    """The error names it and says why."""
    with pytest.raises(ValueError, match=f"{status} is never retried, because the same request"):
        parse_retry_on(f"429,{status}")


@pytest.mark.parametrize(
    ("retries", "reason"),
    [(3, "all 3 retries were used"), (1, "the only retry was used")],
)
def test_after_the_last_retry_it_gives_up_and_says_so(retries, reason):
    """The last one is still made; what is never retried stays without a reason."""
    policy = _policy(retries)

    assert Retry(BACKOFF_S, None) == _decide(_end(503), retries, policy)
    assert GiveUp(reason) == _decide(_end(503), retries + 1, policy)
    assert NEVER == _decide(_end(404), retries + 1, policy)


def test_without_retries_nothing_is_retried_and_nothing_said():
    """The default: no run is told of retries it did not ask for."""
    assert NEVER == _decide(_end(503, headers={"retry-after": "60"}), policy=_policy(0))


def test_a_backoff_of_the_server_needs_a_wait_from_it():
    """With one it is obeyed, without one there is no retry and a reason."""
    policy = _policy(backoff=ServerOnly())

    assert 1.0 == _decide(_end(429, headers={"retry-after": "1"}), policy=policy).asked_wait_s
    assert "asked for no wait" in _decide(_end(429), policy=policy).reason


def test_the_backoff_is_told_the_retry_and_the_wait_before():
    """Its own wait is taken as it is."""
    seen = []

    class Noting:
        def wait_s(self, retry, previous_s, chance):
            seen.append((retry, previous_s))
            return 2.5

    decision = _policy(backoff=Noting()).decide(_end(503), 2, 1.25, random.Random(1))

    assert Retry(2.5, None) == decision
    assert [(2, 1.25)] == seen


@settings(deadline=None)
@given(retry=st.integers(1, 50), seed=st.integers(0, 1 << 32))
def test_a_wait_of_our_own_is_never_over_the_cap(retry, seed):
    """From 0 to the cap."""
    policy = _policy(50, FullJitter(0.5, CAP_S))

    assert 0 <= _decide(_end(503), retry, policy, seed).wait_s <= CAP_S


def test_a_list_of_statuses_is_read():
    """In any order, spaces and repeats allowed; the default list as it is written."""
    assert frozenset({429, 503, 599}) == parse_retry_on(" 503, 429,599,429 ")
    assert RETRY_STATUSES == parse_retry_on("408,429,500,502,503,504,529")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "''"),
        ("429,", "''"),
        ("5xx", "'5xx'"),
        ("429;503", "'429;503'"),
        ("200", "'200'"),
        ("429,600", "'600'"),
        ("-429", "'-429'"),
        ("4290", "'4290'"),
    ],
)
def test_what_is_no_list_of_statuses_is_told_so(text, part):
    """The part that is wrong, and an example."""
    with pytest.raises(ValueError, match="is no status from 400 to 599") as caught:
        parse_retry_on(text)

    assert str(caught.value).startswith(f"{part} ")
    assert "429,503" in str(caught.value)
