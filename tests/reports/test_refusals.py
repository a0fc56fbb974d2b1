"""What refuses: told from the status, the code and the words of refusals."""

import random

import pytest

from metrics.outcome import Outcome
from reports.attempts import attempt_rows
from reports.limits_text import limit_sentences
from reports.load import frame_of
from reports.refusals import Cause, faces_of
from tests.support.limited_runs import limits_of, refused
from tests.support.records import failed_record, make_record
from tests.support.run_builder import numbered

LITELLM_CAP = "litellm.RateLimitError: Deployment has all max_parallel_requests slots in use."


LITELLM_REST = (
    "No deployments available for selected model, Try again in 10 seconds. All deployments for "
    "selected model are in cooldown."
)


LITELLM_RPM = "litellm.RateLimitError: Model rate limit exceeded. RPM limit=20, current usage=21"


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("too many requests in flight", Cause.IN_FLIGHT_CAP),
        (LITELLM_REST, Cause.COOLDOWN),
        ("engine overloaded", Cause.OVERLOADED),
    ],
)
def test_what_refuses_without_limiting_a_rate_is_not_called_a_rate_limit(tmp_path, words, cause):
    """Too few 429s to search in: what they say of themselves is believed, when all say the same."""
    other = refused(error_code="429", error_sample=words)
    alone = limit_sentences(limits_of(tmp_path / "alone", [make_record(), other, other]))
    mixed = limit_sentences(limits_of(tmp_path / "mixed", [make_record(), other, refused()]))

    assert alone[0].endswith(f"answered 429, by {cause.value}: that is no rate limit.")
    assert mixed[0].startswith("Rate-limited from 1 user on")


def test_a_cap_that_the_traffic_shows_is_not_called_a_rate_limit(tmp_path):
    """Three at once pass, for 0.3 to 2 s each, whatever the refusals say of themselves."""
    chance, records, ends_s, at_s = random.Random(7), [], [], 0.0
    while (at_s := at_s + chance.expovariate(5)) < 60:
        ends_s = [end_s for end_s in ends_s if end_s > at_s]
        took_s = chance.uniform(0.3, 2.0)
        if len(ends_s) < 3:
            ends_s.append(at_s + took_s)
            times = dict.fromkeys(("last_token_s", "end_s", "user_latency_s"), took_s)
            records.append(make_record(started_s=at_s, **times))
        else:
            records.append(refused(started_s=at_s, user_latency_s=0.002))
    limits = limits_of(tmp_path, records, hold_s=60.0)

    assert ["concurrency_cap"] == [one.kind.value for one in limits.found]
    assert "by a cap on requests in flight: that is no rate limit." in limit_sentences(limits)[0]


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        (refused(), Cause.LIMITER),
        (refused(error_code="429", error_sample=LITELLM_RPM), Cause.LIMITER),
        (refused(error_code="429", error_sample=LITELLM_REST), Cause.COOLDOWN),
        (refused(error_code="429", error_sample=LITELLM_CAP), Cause.IN_FLIGHT_CAP),
        (refused(error_code="too_many_in_flight"), Cause.IN_FLIGHT_CAP),
        (refused(error_code="engine_overloaded"), Cause.OVERLOADED),
        (refused(error_code="http_429", error_sample="429 Too Many Requests"), Cause.UNNAMED),
        (failed_record(Outcome.OVERLOADED, 503), Cause.OVERLOADED),
        (failed_record(Outcome.SERVER_ERROR, 500), Cause.BROKEN),
        (failed_record(Outcome.QUOTA_EXHAUSTED, 429), Cause.QUOTA),
    ],
    ids=lambda value: value.value if isinstance(value, Cause) else "",
)
def test_a_refusal_is_read_by_its_code_and_words(record, cause):
    """The same status has several causes."""
    (row,) = faces_of(attempt_rows(frame_of([record]))).rows

    assert cause is row.cause


def test_e07_one_cause_with_several_faces_is_told_as_such(tmp_path):
    """A dead upstream behind a gateway: three 500s, then a cooldown's 429s."""
    rest = refused(error_code="429", error_sample=LITELLM_REST)
    sentences = limit_sentences(
        limits_of(tmp_path, [failed_record()] * 3 + [rest] * 2 + [make_record()])
    )

    assert (
        "Refusals by what they say of themselves: a broken server or upstream: 3 × 500; "
        "a gateway that rests its upstream: 2 × 429." in sentences
    )
    assert any("read them together before calling the 429s a rate limit" in s for s in sentences)


def test_refused_keys_and_prompts_are_no_refusals_of_load():
    """401, 404 and a prompt that is too long are answers to what was asked."""
    records = [
        failed_record(Outcome.AUTH, 401),
        failed_record(Outcome.NOT_FOUND, 404),
        failed_record(Outcome.CONTEXT_LENGTH, 400),
    ]

    assert () == faces_of(attempt_rows(frame_of(numbered(records)))).rows
