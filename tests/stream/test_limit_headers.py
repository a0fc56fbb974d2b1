"""Rate-limit headers: every name and notation, and what is kept for unreadable."""

import string
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.refusals import go_duration
from stream.limit_headers import LimitHeaders, parse_reset_s, read_limit_headers

NOW = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)

# Every text a field may hold: no control characters, and often nearly a number, date or duration.
TEXTS = st.text(string.printable[:95] + "é²", max_size=80) | st.text(
    "0123456789.,:; +-TZhmsGMT", max_size=40
)


def _read(**fields):
    return read_limit_headers({name.replace("_", "-"): text for name, text in fields.items()}, NOW)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "1"}, 1.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": " 2 "}, 2.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "0", "retry-after": "1"}, 0.0),
        ({"retry-after-ms": "12.5"}, 0.0125),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"llm_provider-retry-after": "60"}, 60.0),
        ({"retry-after": "10", "llm_provider-retry-after": "60"}, 10.0),
        ({"llm_provider-retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "100", "llm_provider-retry-after-ms": "250"}, 0.1),
        ({"retry-after": "soon", "llm_provider-retry-after": "60"}, 60.0),
    ],
    ids=lambda value: str(value),
)
def test_R01_the_asked_wait_is_the_most_direct_readable_one(headers, wait_s):
    """Decimals count, 0 is no missing value, milliseconds go first, junk gives way to the next."""
    assert wait_s == read_limit_headers(headers, NOW).retry_after_s


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("Thu, 05 Mar 2026 12:00:02 GMT", 2.0),
        ("Thursday, 05-Mar-26 12:00:02 GMT", 2.0),
        ("Thu Mar  5 12:00:02 2026", 2.0),
        ("Thu, 05 Mar 2026 13:00:02 +0100", 2.0),
        ("Thu, 05 Mar 2026 12:00:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
    ids=["fixdate", "rfc 850", "asctime", "offset", "now", "past"],
)
def test_R02_a_date_is_the_seconds_until_then_and_a_past_one_is_now(text, wait_s):
    """All three forms of HTTP, counted from the time handed in."""
    found = _read(retry_after=text)

    assert (wait_s, ()) == (found.retry_after_s, found.unreadable)


def test_R02_the_wait_until_a_date_is_rounded_up():
    """A client that comes within the date's second would be early."""
    late = NOW + timedelta(milliseconds=700)

    found = read_limit_headers({"retry-after": "Thu, 05 Mar 2026 12:00:02 GMT"}, late)

    assert 2.0 == found.retry_after_s


def test_R02_dates_are_counted_across_time_zones():
    """The caller's zone does not shift the wait."""
    local = NOW.astimezone(timezone(timedelta(hours=9)))
    text = format_datetime(NOW + timedelta(seconds=5), usegmt=True)

    assert 5.0 == read_limit_headers({"retry-after": text}, local).retry_after_s


@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms", "llm_provider-retry-after"])
@pytest.mark.parametrize(
    "text",
    ["soon", "", "  ", "-5", "nan", "inf", "1e3", "+1", "1,5", "0x10", "²", "Thu", "Thu, 99 Mar"],
    ids=lambda text: repr(text),
)
def test_R02_a_wait_that_cannot_be_read_is_named_and_not_guessed(name, text):
    """No exception, no wait, and the field's name to tell of."""
    found = read_limit_headers({name: text}, NOW)

    assert (None, (name,)) == (found.retry_after_s, found.unreadable)


@pytest.mark.parametrize(
    ("text", "reset_s"),
    [
        ("6m0s", 360.0),
        ("1m30.5s", 90.5),
        ("500ms", 0.5),
        ("1h2m3s", 3723.0),
        ("2s250ms", 2.25),
        ("3m", 180.0),
        ("20", 20.0),
        ("0.5", 0.5),
        ("0s", 0.0),
        ("0", 0.0),
        (" 20 ", 20.0),
        ("2026-03-05T12:00:10Z", 10.0),
        ("2026-03-05T13:00:10.500+01:00", 10.5),
        ("2026-03-05T12:00:10", 10.0),
        ("2026-03-05T11:59:00Z", 0.0),
        (str(int(NOW.timestamp()) + 10), 10.0),
        (str((int(NOW.timestamp()) + 10) * 1000), 10.0),
        (str(int(NOW.timestamp()) - 10), 0.0),
        ("604800", 604800.0),
    ],
)
def test_R05_a_reset_is_read_in_every_notation(text, reset_s):
    """Durations, plain seconds, epochs in seconds and milliseconds, ISO times."""
    assert pytest.approx(reset_s, abs=1e-6) == parse_reset_s(text, NOW)


@pytest.mark.parametrize(
    "text",
    ["later", "5x", "", "-5", "nan", "inf", "1e3", "5 s", "m5", "1:30", "9" * 65, "2026-13-01T00Z"],
)
def test_R05_what_is_no_reset_is_none(text):
    """An unknown notation is never half read: 5x is not 5."""
    assert parse_reset_s(text, NOW) is None


@settings(deadline=None)
@given(seconds=st.floats(min_value=0.001, max_value=3000))
def test_R05_the_durations_of_openai_are_read_back(seconds):
    """What the embedded endpoint writes the way OpenAI does comes back to the millisecond."""
    assert pytest.approx(seconds, abs=0.0011) == parse_reset_s(go_duration(seconds), NOW)


OPENAI = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "150000",
    "x-ratelimit-remaining-tokens": "149984",
    "x-ratelimit-reset-tokens": "6m0s",
}
BOTH = LimitHeaders(None, 60, 59, 1.0, 150_000, 149_984, 360.0)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (OPENAI, BOTH),
        ({f"llm_provider-{name}": text for name, text in OPENAI.items()}, BOTH),
        (
            {
                "anthropic-ratelimit-requests-limit": "60",
                "anthropic-ratelimit-requests-remaining": "59",
                "anthropic-ratelimit-requests-reset": "2026-03-05T12:00:01Z",
                "anthropic-ratelimit-tokens-limit": "150000",
                "anthropic-ratelimit-tokens-remaining": "149984",
                "anthropic-ratelimit-tokens-reset": "2026-03-05T12:06:00Z",
            },
            BOTH,
        ),
        (
            {
                "x-ratelimit-limit": "5, 5;w=60",
                "x-ratelimit-remaining": "0",
                "x-ratelimit-reset": "42",
            },
            LimitHeaders(None, 5, 0, 42.0),
        ),
        (
            {"ratelimit-limit": "100", "ratelimit-remaining": "7", "ratelimit-reset": "50"},
            LimitHeaders(None, 100, 7, 50.0),
        ),
        (
            {"llm_provider-x-ratelimit-limit-requests": "9", "x-ratelimit-limit-requests": "60"},
            LimitHeaders(None, 60),
        ),
    ],
    ids=["openai", "litellm", "anthropic", "envoy", "ietf", "own before upstream"],
)
def test_each_house_style_is_read(headers, found):
    """Budgets of requests and of tokens, each with its limit, what is left and the reset."""
    assert found == read_limit_headers(headers, NOW)


def test_fields_that_cannot_be_read_are_named_and_the_others_kept():
    """An unknown value is absent: never 0, never a reason to lose the rest."""
    damaged = OPENAI | {"x-ratelimit-remaining-requests": "-1", "x-ratelimit-reset-tokens": "later"}

    found = read_limit_headers(damaged, NOW)

    assert (60, None, 1.0) == (
        found.limit_requests,
        found.remaining_requests,
        found.reset_requests_s,
    )
    assert (149_984, None) == (found.remaining_tokens, found.reset_tokens_s)
    assert ("x-ratelimit-remaining-requests", "x-ratelimit-reset-tokens") == found.unreadable


@pytest.mark.parametrize(
    ("requests", "tokens", "hint_s"),
    [
        ((0, 2.0), (10, 360.0), 2.0),
        ((10, 2.0), (0, 360.0), 360.0),
        ((0, 2.0), (0, 360.0), 360.0),
        ((0, None), (10, 360.0), None),
        ((10, 2.0), (10, 360.0), None),
        ((10, 2.0), (None, 360.0), None),
        ((None, 2.0), (None, 360.0), 2.0),
        ((None, None), (None, None), None),
    ],
    ids=[
        "requests used up",
        "tokens used up",
        "both used up",
        "used up without a reset",
        "neither used up",
        "one left and one unknown",
        "only resets known",
        "nothing known",
    ],
)
def test_R05_the_hint_is_the_reset_of_the_budget_that_is_used_up(requests, tokens, hint_s):
    """A budget with something left does not make anyone wait."""
    found = LimitHeaders(
        remaining_requests=requests[0],
        reset_requests_s=requests[1],
        remaining_tokens=tokens[0],
        reset_tokens_s=tokens[1],
    )

    assert hint_s == found.wait_hint_s


def test_an_answer_without_limits_costs_no_object():
    """Nearly every answer is one: all share the same empty reading."""
    plain = {"content-type": "text/event-stream", "date": "Thu, 05 Mar 2026 12:00:00 GMT"}

    assert read_limit_headers(plain, NOW) is read_limit_headers({}, NOW)
    assert LimitHeaders() == read_limit_headers(plain, NOW)


@settings(deadline=None)
@given(texts=st.fixed_dictionaries({}, optional={name: TEXTS for name in [*OPENAI, "retry-after"]}))
def test_whatever_a_server_writes_is_read_or_named(texts):
    """No exception; every time is 0 or more and finite; every field is either read or named."""
    found = read_limit_headers(texts, NOW)

    times = [found.retry_after_s, found.reset_requests_s, found.reset_tokens_s]
    counts = [
        found.limit_requests,
        found.remaining_requests,
        found.limit_tokens,
        found.remaining_tokens,
    ]
    assert all(0 <= time < 1e70 for time in times if time is not None)
    read = sum(value is not None for value in times + counts)
    assert len(texts) == read + len(found.unreadable)


@pytest.mark.parametrize(
    ("text", "count"),
    [("60", 60), ("5, 5;w=60", 5), ("5,5;w=60", 5), ("100;w=60", 100), ("1,000", None)],
)
def test_a_count_is_whole_or_unreadable(text, count):
    """Policies may follow; a separator of thousands is not read as the end of the number."""
    found = read_limit_headers({"x-ratelimit-limit-requests": text}, NOW)

    assert count == found.limit_requests
