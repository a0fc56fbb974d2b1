"""Retries against a scripted server whose log says how many requests there were, and when."""

import itertools

import gevent
import pytest

from metrics.outcome import Outcome
from metrics.tally import Counts
from tests.support.asking import asker

pytestmark = [pytest.mark.live, pytest.mark.patient, pytest.mark.timeout(60)]

KINDS = pytest.mark.parametrize("traffic", ["stream", "block", "sdk"])


def ask_case(case_server, case, **options):
    """One logical request of a case, with three retries unless told; its record."""
    with asker(case_server.host(case), **{"retries": 3, **options}) as user:
        return user.ask().record


def pauses_s(case_server, case):
    """Seconds between the requests of a case, by the server's clock."""
    times = [ask["received_monotonic_s"] for ask in case_server.asked(case)]
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@KINDS
@pytest.mark.parametrize(
    ("case", "least_s", "most_s"),
    [
        ("R01_1", 1.0, 2.0),
        ("R01_1_5", 1.5, 2.5),
        ("R01_0", 0.0, 0.6),
        ("R01_ms", 0.25, 0.9),
        ("R01_junk_ms", 1.0, 2.0),
    ],
)
def test_R01_no_retry_comes_before_the_asked_wait(case_server, traffic, case, least_s, most_s):
    """Seconds, decimals, zero and milliseconds, by the server's own clock."""
    record = ask_case(case_server, case, traffic=traffic, backoff="fixed:9s")

    (pause_s,) = pauses_s(case_server, case)
    assert least_s <= pause_s < most_s
    assert Outcome.OK is record.outcome
    assert (2, 1) == (record.attempts, record.rate_limited_attempts)


@pytest.mark.parametrize(
    ("case", "least_s", "most_s"), [("R02_date", 1.0, 4.5), ("R02_past", 0.0, 0.9)]
)
def test_R02_a_date_is_waited_for(case_server, case, least_s, most_s):
    """An HTTP date counts from now; one that is past means at once."""
    record = ask_case(case_server, case, backoff="fixed:9s")

    (pause_s,) = pauses_s(case_server, case)
    assert least_s <= pause_s < most_s
    assert Outcome.OK is record.outcome


@pytest.mark.parametrize("case", ["R02_soon", "R02_empty", "R02_negative", "R02_nan"])
def test_R02_junk_is_answered_by_the_backoff(case_server, case):
    """What cannot be read is no wait of the server's."""
    record = ask_case(case_server, case, backoff="fixed:300ms")

    (pause_s,) = pauses_s(case_server, case)
    assert 0.3 <= pause_s < 1.5
    assert (Outcome.OK, None) == (record.outcome, record.asked_wait_s)


def test_R05_a_reset_is_a_fallback_wait(case_server):
    """Without Retry-After the reset of the budget says when to come back."""
    record = ask_case(case_server, "R05", backoff="fixed:9s")

    (pause_s,) = pauses_s(case_server, "R05")
    assert 0.5 <= pause_s < 1.5
    assert Outcome.OK is record.outcome


@KINDS
def test_R06_attempt_and_user_wait_are_told_apart(case_server, traffic):
    """The winning attempt's TTFT is its own; the user's holds the wait; two requests were sent."""
    record = ask_case(case_server, "R06", traffic=traffic)

    assert 2 == len(case_server.asked("R06"))
    assert (2, 1, 1.0) == (record.attempts, record.rate_limited_attempts, record.asked_wait_s)
    assert record.retry_wait_s >= 1.0
    assert record.user_latency_s >= record.retry_wait_s + record.e2e_latency_s
    if traffic != "block":
        assert record.user_ttft_s - record.ttft_s >= record.retry_wait_s
        assert record.ttft_s < 1.0


@KINDS
def test_R07_the_ledger_of_three_requests(case_server, traffic):
    """429 429 200; four 429s with three retries; 200: eight attempts, six 429s, two successes."""
    with asker(case_server.host("R07"), traffic=traffic, retries=3) as user:
        records = [user.ask().record for _ in range(3)]

    assert 8 == len(case_server.asked("R07"))
    assert [3, 4, 1] == [record.attempts for record in records]
    assert [2, 4, 0] == [record.rate_limited_attempts for record in records]
    assert [Outcome.OK, Outcome.RATE_LIMITED, Outcome.OK] == [r.outcome for r in records]
    assert [(429, 429), (429, 429, 429), ()] == [record.lost_status for record in records]
    failed = records[1]
    assert 429 == failed.status
    assert "all 3 retries were used" in failed.error_sample
    first = records[0]
    assert len(first.lost_sent_s) == len(first.lost_end_s) == 2
    sent_again_s = (first.lost_sent_s[1], first.last_sent_s)
    between_s = sum(again - end for again, end in zip(sent_again_s, first.lost_end_s, strict=True))
    assert between_s >= first.retry_wait_s >= 2 * 0.05


@pytest.mark.parametrize("case", ["R08_529", "R08_503"])
def test_R08_an_overloaded_server_is_asked_again(case_server, case):
    """Once, after the wait it asked for."""
    record = ask_case(case_server, case)

    (pause_s,) = pauses_s(case_server, case)
    assert pause_s >= 1.0
    assert (Outcome.OK, 2, 0) == (record.outcome, record.attempts, record.rate_limited_attempts)


@KINDS
@pytest.mark.parametrize("case", ["R08_400", "R08_401", "R08_404"])
def test_R08_a_refusal_that_stays_is_not_repeated(case_server, case, traffic):
    """The same request gets the same answer."""
    record = ask_case(case_server, case, traffic=traffic)

    assert 1 == len(case_server.asked(case)) == record.attempts


def test_E10_a_prompt_that_is_too_long_is_not_repeated(case_server):
    """Thirty requests, ten of them refused: the server saw thirty."""
    with asker(case_server.host("E10"), retries=3) as user:
        outcomes = [user.ask().record.outcome for _ in range(30)]

    assert 30 == len(case_server.asked("E10"))
    assert 10 == outcomes.count(Outcome.CONTEXT_LENGTH)
    assert 20 == outcomes.count(Outcome.OK)


@pytest.mark.parametrize("traffic", ["stream", "sdk"])
def test_R10_nothing_is_replayed_after_the_first_token(case_server, traffic):
    """A stream that failed midway is a failure."""
    record = ask_case(case_server, "R10_after", traffic=traffic, backoff="fixed:0s")

    assert 1 == len(case_server.asked("R10_after")) == record.attempts
    assert Outcome.STREAM_ERROR is record.outcome


@pytest.mark.parametrize("traffic", ["stream", "sdk"])
def test_R10_an_error_before_any_token_may_be_tried_again(case_server, traffic):
    """An error event first, with a status on the list."""
    record = ask_case(case_server, "R10_before", traffic=traffic, backoff="fixed:0s")

    assert 2 == len(case_server.asked("R10_before")) == record.attempts
    assert Outcome.OK is record.outcome


@KINDS
def test_R12_an_exhausted_quota_is_not_repeated(case_server, traffic):
    """It can never succeed, and after so many in a row the users stop."""
    reasons = []
    options = {"retries": 3, "quota_stop": 4, "traffic": traffic}
    with asker(case_server.host("R12"), **options) as user:
        user.context.on_quota = reasons.append
        records = [user.ask().record for _ in range(5)]

    assert 5 == len(case_server.asked("R12"))
    assert {Outcome.QUOTA_EXHAUSTED} == {record.outcome for record in records}
    assert ["4 answers in a row said the quota is used up"] == reasons
    assert user.context.halted


def test_by_default_a_429_is_the_answer(case_server):
    """No retries unless asked for."""
    record = ask_case(case_server, "always_429", retries=0)

    assert 1 == len(case_server.asked("always_429")) == record.attempts
    assert Outcome.RATE_LIMITED is record.outcome
    assert "gave up" not in record.error_sample


def test_a_longer_wait_than_the_cap_is_not_waited_for(case_server):
    """The record says what the server asked for, and why there was no retry."""
    record = ask_case(case_server, "always_429", retry_cap="900ms")

    assert 1 == record.attempts
    assert "the server asks for a wait of 1 s, over --retry-cap 0.9 s" in record.error_sample
    assert 1.0 == record.asked_wait_s


def test_a_spent_budget_ends_the_retries_of_all(case_server):
    """Ten in reserve, one earned by ten requests: 11 retries for 10 requests that want 30."""
    options = {"retries": 3, "retry_budget": 0.1, "backoff": "fixed:0s", "retry_on": "500"}
    with asker(case_server.host("always_500"), **options) as user:
        records = [user.ask().record for _ in range(10)]

    retries = sum(record.attempts - 1 for record in records)
    assert len(case_server.asked("always_500")) == 10 + retries
    assert 10 <= retries <= 11
    assert "the retry budget was spent" in records[-1].error_sample


def test_a_user_told_to_stop_does_not_wait_for_its_retry(case_server):
    """The wait ends at once; the request is cancelled, its 429 counted."""
    with asker(case_server.host("always_429"), retries=3, retry_cap="60s") as user:
        gevent.spawn_later(0.3, user.leaving.set)
        record = user.ask().record

    assert (Outcome.CANCELLED, 1) == (record.outcome, record.rate_limited_attempts)
    assert record.retry_wait_s < 0.9
    assert "told to stop" in record.error_sample


@pytest.mark.parametrize("traffic", ["stream", "block"])
def test_a_user_who_closes_the_tab_is_no_failure(case_server, traffic):
    """Cancelled at its time, with what had come until then."""
    with asker(case_server.host("E12_b"), traffic=traffic) as user:
        answer = user.ask(leave_after_s=1.2)

    record = answer.record
    assert (Outcome.CANCELLED, None) == (record.outcome, answer.interrupt)
    assert "the user left" in record.error_sample
    assert 1.2 <= record.user_latency_s + (record.end_s - record.e2e_latency_s)
    if traffic == "stream":
        assert 1 == record.chunks


def test_a_user_may_leave_while_it_waits_for_a_retry(case_server):
    """Patience covers all attempts."""
    with asker(case_server.host("always_429"), retries=3) as user:
        answer = user.ask(leave_after_s=0.4)

    assert (Outcome.CANCELLED, None) == (answer.record.outcome, answer.interrupt)
    assert 1 == answer.record.attempts


def test_what_was_made_in_vain_is_counted(case_server):
    """An answer that arrives damaged has cost its tokens, as far as the server tells them."""
    record = ask_case(case_server, "R07")

    assert (0, 2 * record.prompt_tokens) == (record.wasted_tokens, record.wasted_prompt_tokens)
    assert record.prompt_tokens


def test_each_wait_of_a_request_is_drawn_anew(case_server):
    """Four retries with full jitter: their shares of what they may be differ."""
    options = {"retries": 4, "backoff": "full-jitter:100ms", "retry_on": "500"}
    with asker(case_server.host("always_500"), **options) as user:
        record = user.ask().record

    sent_s = (*record.lost_sent_s[1:], record.last_sent_s)
    waits_s = [again - end for again, end in zip(sent_s, record.lost_end_s, strict=True)]
    shares = [wait_s / (0.1 * 2**n) for n, wait_s in enumerate(waits_s)]
    assert max(shares) - min(shares) > 0.1


def test_what_waits_for_a_retry_is_pending(case_server):
    """Not in flight, and not over either: a budget must reckon with it."""
    with asker(case_server.host("always_429"), retries=3) as user:
        asking = gevent.spawn(user.ask)
        gevent.sleep(0.5)
        assert (1, 0) == (user.context.pending, user.context.in_flight)
        user.leaving.set()
        asking.join()

    assert 0 == user.context.pending


def test_who_leaves_before_a_slot_is_free_has_sent_nothing(case_server):
    """One slot, taken for long: the other user closes the tab meanwhile, without an attempt."""
    with asker(case_server.host("E12_b"), max_in_flight=1) as user:
        first = gevent.spawn(user.ask, leave_after_s=1.0)
        gevent.sleep(0.1)
        second = user.ask(leave_after_s=0.2).record
        first.join()

    assert (Outcome.CANCELLED, 0) == (second.outcome, second.attempts)
    counts = Counts()
    counts.add(second)
    assert (0, 1) == (counts.sent, counts.cancelled)
