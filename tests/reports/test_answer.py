"""The first screen: what the endpoint carries, what limits it, and what that is like."""

from dataclasses import replace

import pytest

from metrics.knee import KneeStatus
from metrics.knee_result import Ceiling
from metrics.validity import Finding, Severity
from reports.analyse import analyse
from reports.answer import facts_of
from tests.reports.test_rate_steps import answered, open_loop_run
from tests.support.client_state import report_of
from tests.support.records import failed_record, make_record


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Two levels, each with 40 streamed successes."""
    records = [make_record(stage=n % 2, started_s=(n % 2) * 10 + n * 0.1) for n in range(80)]
    return report_of(tmp_path_factory.mktemp("run") / "r", records, levels=(1, 2))


def told(report):
    """The facts by what they are of, each as one text."""
    return {fact.term: f"{fact.value}: {fact.detail}" for fact in facts_of(report)}


def knee_of(report, **changes):
    """The report with another verdict on the knee."""
    nothing = {"users": None, "low": None, "high": None, "at_least": None}
    return replace(report, knee=replace(report.knee, **{**nothing, **changes}))


def test_a_knee_stands_first_with_its_interval_and_its_cause(report):
    """About 16, 15.0 to 17.3, the endpoint's own queue."""
    knee = {"status": KneeStatus.KNEE, "users": 16.2, "low": 15.0, "high": 17.3}

    facts = facts_of(knee_of(report, **knee))

    assert ("Carries", "about 16 concurrent streams", "95 % interval 15.0 to 17.3") == (
        facts[0].term,
        facts[0].value,
        facts[0].detail,
    )
    assert ("Limited by", "the endpoint's own queue") == (facts[1].term, facts[1].value)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (KneeStatus.RATE_LIMITED, "a rate limit: at 2 users 429s came"),
        (KneeStatus.INFLIGHT_CAP, "a cap on requests in flight: at 2 users 429s came"),
        (KneeStatus.CLIENT_LIMITED, "this client: at 2 users 429s came"),
        (KneeStatus.ERRORS, "errors: at 2 users 429s came"),
    ],
)
def test_what_ended_the_climb_is_told_with_where(report, status, words):
    """The ceiling's own words stand behind its name."""
    ceiling = Ceiling(status, 2, None, None, None, "429s came")
    side = replace(report.knee.side, ceiling=ceiling)

    facts = told(knee_of(report, status=status, at_least=1, side=side))

    assert words == facts["Limited by"]
    assert facts["Carries"].startswith("at least 1 concurrent stream: no queue up to there")


def test_where_nothing_limits_it_that_is_said(report):
    """A lower bound, and up to where no queue was seen."""
    facts = told(knee_of(report, status=KneeStatus.NO_KNEE, at_least=2))

    assert "at least 2 concurrent streams: more were not tried" == facts["Carries"]
    assert (
        "nothing that was met: up to 2 users no request waited for a slot" == (facts["Limited by"])
    )


def test_where_nothing_is_known_the_reason_is_told(report):
    """Not known, and why."""
    facts = told(knee_of(report, status=KneeStatus.UNRESOLVED, reason="too few levels"))

    assert "not known: too few levels" == facts["Carries"]
    assert facts["Limited by"].startswith("not known")


def test_what_is_felt_is_of_the_level_at_the_knee(report):
    """At 2 users: p50 of 0.1 s, p95 with its interval and n; tokens/s; 100 % ok."""
    facts = told(knee_of(report, status=KneeStatus.NO_KNEE, at_least=2))

    assert "100 ms (p50): p95 100 ms (too few samples), n 40" == facts["First token at 2 users"]
    assert facts["Output at 2 users"].endswith("10.0 for each stream once it flows (p50)")
    assert "80: 80 ok (100 %), 0 failed, 0 answered 429" == facts["Requests"]


def test_a_void_level_is_not_what_is_felt(report):
    """The upper of two levels is void, so that the lower one's figures stand there."""
    void = Finding("drift", Severity.VOID, 1, "", "it drifted", "", "")
    knee = knee_of(report, status=KneeStatus.NO_KNEE, at_least=2)

    facts = told(replace(knee, validity=(void,)))

    assert "First token at 1 user" in facts
    assert "First token at 2 users" not in facts


def test_a_cost_that_nobody_priced_is_not_known(report, tmp_path):
    """Without prices the option is named; with them the level's price and the test's stand."""
    priced = {"settings": {"price_in": 1.0, "price_out": 2.0}}
    paid = report_of(tmp_path / "r", [make_record() for _ in range(4)], **priced)

    without = next(text for term, text in told(report).items() if term.startswith("Cost"))
    # 4 x (10 in + 5 out): 40 and 40 millionths of a dollar for 20 tokens
    assert "not known: no price was given (--price-out or --gpu-hour-price)" == without
    assert "$4.00 per M output tokens: this test $0.00008" in told(paid)["Cost at 1 user"]


def test_O01_where_nothing_succeeded_nothing_is_claimed(tmp_path):
    """n/a, and the count of failures."""
    facts = told(report_of(tmp_path / "r", [failed_record() for _ in range(3)]))

    assert "n/a: no level may be used" == facts["First token there"]
    assert "3: 0 ok (0 %), 3 failed, 0 answered 429" == facts["Requests"]


def test_answers_that_were_not_streamed_have_their_whole_time(tmp_path):
    """No first token is known, so the whole answer's percentile stands in its place."""
    plain = {"streamed": False, "stream_asked": False}
    times = {"ttft_s": None, "ttfa_s": None, "user_ttft_s": None, "last_token_s": None}
    facts = told(report_of(tmp_path / "r", [make_record(**plain, **times) for _ in range(3)]))

    assert facts["Whole answer at 1 user"].endswith("n 3; no answer was streamed")


def test_an_open_loop_carries_a_rate(tmp_path):
    """The highest stable one, and nothing is said of streams."""
    records = [answered(n / 4, 0.2) for n in range(400)]
    facts = told(analyse(open_loop_run(tmp_path / "r", records, [4.0], 100.0)))

    assert "4 requests/s: the highest rate at which no backlog grew" == facts["Carries"]
    assert "nothing that was met: no step was unstable" == facts["Limited by"]
    assert "First token at 4 requests/s" in facts
