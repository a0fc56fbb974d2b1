"""The answer of a search for a rate limit: what it is read from, how it is told, what voids it."""

from dataclasses import replace

from metrics.limits_result import Charge, LimiterKind
from metrics.outcome import Outcome
from metrics.stage import Phase
from metrics.validity import Severity
from reports.analyse import analyse
from reports.attempts import attempt_rows
from reports.limits_answer import limit_answer
from reports.limits_text import limit_values, load_table
from reports.load import load_run
from reports.rate_limits import rate_limits_of
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered


def refused(**changes):
    """A request that was answered 429, 2 ms after it was sent."""
    values = {"rate_limited_attempts": 1, "error_code": "rate_limit_exceeded", **changes}
    return failed_record(Outcome.RATE_LIMITED, 429, **values)


def saved(folder, records, rates, tokens_per_request=None, **meta):
    """A saved run of these records, whose stages are steps of requests/s of 10 s each."""
    plan = [
        {
            "stage": n,
            "kind": "rate",
            "target_users": 1,
            "rate_rps": rate,
            "rate_tokens_per_s": tokens_per_request and tokens_per_request * rate,
        }
        for n, rate in enumerate(rates)
    ]
    values = {"shape": "limits", "settings": {"rate": "4"}, "stage_plan": plan, **meta}
    levels = (1,) * len(rates)
    return load_run(build_run(folder / "run", numbered(records), levels=levels, **values))


def steps(passing):
    """10 s of each (requests/s, how many pass in a second); the others are answered 429."""
    return [
        (make_record if n < passes else refused)(
            stage=stage, phase=Phase.HOLD, started_s=10.0 * stage + second + n / rate
        )
        for stage, (rate, passes) in enumerate(passing)
        for second in range(10)
        for n in range(rate)
    ]


def answer_of(folder, passing, search_ended=None, rate="4"):
    """The answer of a search with such steps."""
    meta = {"settings": {"rate": rate}, "search_ended": search_ended}
    run = saved(folder, steps(passing), [rate for rate, _ in passing], **meta)
    return rate_limits_of(run).answer


def test_a_search_for_the_limit_ends_in_a_bracket(tmp_path):
    """4 and 8 rise; at 8 only 6 pass; 6 after it passes: between 6 and 8, 360 a minute."""
    answer = answer_of(tmp_path, [(4, 4), (8, 6), (6, 6)])

    assert (6.0, 8.0) == (answer.bracket.low, answer.bracket.high)
    assert "refused from 8 requests/s on, none at 6." in answer.sentence()


def test_the_limit_that_the_traffic_explains_is_named_with_the_bracket(tmp_path):
    """Windows of a second of 6 requests are 360 a minute, which lies between 6 and 8 a second."""
    answer = answer_of(tmp_path, [(4, 4), (8, 6), (6, 6)])

    assert (
        "The endpoint lets through 360 requests/min: refused from 8 requests/s on, none at 6."
        == answer.sentence()
    )


def test_a_step_that_passes_before_any_was_limited_is_no_lower_end(tmp_path):
    """4 passed by a burst, perhaps: without one that passed after 8 only the upper end stands."""
    answer = answer_of(tmp_path, [(4, 4), (8, 6)])

    assert (None, 8.0) == (answer.bracket.low, answer.bracket.high)
    assert "none at" not in answer.sentence()


def test_a_step_that_passed_above_a_limited_one_is_no_end_of_the_bracket(tmp_path):
    """8 requests/s had 429s to the end; 10 passed, by an allowance or a free minute."""
    answer = answer_of(tmp_path, [(4, 4), (8, 6), (10, 10)])

    assert (None, 8.0) == (answer.bracket.low, answer.bracket.high)


def test_a_last_step_that_was_cut_short_is_no_lower_end(tmp_path):
    """6 requests/s passed for 10 s of the 14 that 80 requests take when the budget was spent."""
    why = "the limit lies below 8 requests/s: the budget of 200 requests leaves no room"
    answer = answer_of(tmp_path, [(4, 4), (8, 6), (6, 6)], search_ended=why)

    assert (None, 8.0) == (answer.bracket.low, answer.bracket.high)


def test_no_limit_is_told_with_the_highest_rate(tmp_path):
    """Nothing was refused up to 16 requests/s."""
    answer = answer_of(tmp_path, [(4, 4), (8, 8), (16, 16)])

    assert "No limit found up to 16 requests/s: no step was refused for long." == answer.sentence()


def test_a_rate_by_the_minute_is_answered_by_the_minute(tmp_path):
    """Asked for 240/min: 6 and 8 a second are 360 and 480 a minute."""
    answer = answer_of(tmp_path, [(4, 4), (8, 6), (6, 6)], rate="240/min")

    assert "refused from 480 requests/min on, none at 360." in answer.sentence()


def test_a_pace_of_tokens_is_answered_in_tokens(tmp_path):
    """Requests of 15 nominal tokens: 8 a second are 7,200 tokens/min; values are per second."""
    run = saved(tmp_path, steps([(4, 4), (8, 6), (6, 6)]), [4, 8, 6], tokens_per_request=15.0)
    limits = rate_limits_of(run)

    assert "refused from 7,200 tokens/min on, none at 5,400." in limits.answer.sentence()
    values = limit_values(limits)["bracket"]
    assert (90.0, 120.0, "tokens/s") == (values["low"], values["high"], values["unit"])
    assert ["3,600 tokens/min", "7,200 tokens/min", "5,400 tokens/min"] == [
        row[0] for row in load_table(limits)
    ]


def test_a_few_429s_of_the_step_that_passed_are_told(tmp_path):
    """One of 60 was refused at 6 requests/s: not "none"."""
    records = steps([(4, 4), (8, 6), (6, 6)])
    last = [n for n, record in enumerate(records) if record.stage == 2]
    records[last[30]] = refused(stage=2, phase=Phase.HOLD, started_s=records[last[30]].started_s)
    answer = rate_limits_of(saved(tmp_path, records, [4, 8, 6])).answer

    assert "1 of 60 at 5.9" in answer.sentence()


def test_only_a_search_has_an_answer(tmp_path):
    """An open loop whose steps were refused is told as such, without a bracket."""
    passing = [(4, 4), (8, 6), (6, 6)]
    limits = rate_limits_of(saved(tmp_path, steps(passing), [4, 8, 6], shape="open-loop"))

    assert limits.answer is None
    assert limit_values(limits)["bracket"] is None


def test_the_answer_is_the_first_sentence_and_no_knee_is_spoken_of(tmp_path):
    """A search's report begins with what the endpoint lets through, and is told once."""
    run = saved(tmp_path, steps([(4, 4), (8, 6), (6, 6)]), [4, 8, 6])
    told = analyse(run).headline

    assert told[0].startswith("The endpoint lets through 360 requests/min")
    assert len(told) == len(set(told))
    assert not any("knee" in text.lower() or "throughput" in text.lower() for text in told)
    assert not any("stable" in text or "too short to say" in text for text in told)


def test_a_search_that_is_as_it_should_be_is_valid_whatever_it_was_refused(tmp_path):
    """27 % of its requests are 429s, over --max-fail-ratio 0.1, and steps are short: no finding."""
    passing = [(4, 4), (8, 4), (6, 4), (4, 4)]
    run = saved(tmp_path, steps(passing), [4, 8, 6, 4], max_fail_ratio=0.1)
    report = analyse(run)

    assert (60, 220) == (report.totals.failed, report.totals.offered)
    assert () == report.validity
    assert 0 == report.exit_code


def test_other_failures_of_a_search_count_as_they_do_elsewhere(tmp_path):
    """12 of 92 answered 500: over --max-fail-ratio 0.1; the 20 429s are not among them."""
    broken = [failed_record(started_s=5 + n / 10, phase=Phase.HOLD) for n in range(12)]
    run = saved(tmp_path, [*steps([(8, 6)]), *broken], [8], max_fail_ratio=0.1)
    report = analyse(run)
    (found,) = [one for one in report.validity if one.severity is Severity.ERROR]

    assert 32 == report.totals.failed
    assert found.evidence.startswith("12 of 92 requests failed")
    assert 1 == report.exit_code


def test_the_end_of_a_step_that_passed_counts_429s_as_the_tables_do(tmp_path):
    """The first of 60 met what the step before had used up: told, though no part of the bracket."""
    records = steps([(4, 4), (8, 6), (6, 6)])
    first = next(n for n, record in enumerate(records) if record.stage == 2)
    records[first] = refused(stage=2, phase=Phase.HOLD, started_s=records[first].started_s)
    answer = rate_limits_of(saved(tmp_path, records, [4, 8, 6])).answer

    assert 6.0 == answer.bracket.low
    assert answer.sentence().endswith("1 of 60 at 6.")


def test_a_search_that_ended_early_says_why_after_the_answer(tmp_path):
    """The budget was spent: second sentence, without the bracket once more."""
    why = "no limit found up to 4 requests/s: the budget of 60 s was spent"
    run = saved(tmp_path, steps([(4, 4)]), [4], search_ended=why)

    assert (
        "No limit found up to 4 requests/s: no step was refused for long.",
        "The search ended before the limit was narrowed down: the budget of 60 s was spent.",
    ) == analyse(run).headline[:2]


def test_a_limit_that_contradicts_the_steps_is_not_named(tmp_path):
    """60 a minute is 1 a second, and 6 a second passed: the bracket stands alone."""
    run = saved(tmp_path, steps([(4, 4), (8, 6), (6, 6)]), [4, 8, 6])
    (found,) = rate_limits_of(run).found
    rows = attempt_rows(run.records)
    named = limit_answer(run, rows, [found])
    wrong = limit_answer(run, rows, [replace(found, figure=60.0)])

    assert found == named.limit
    assert wrong.limit is None
    assert (
        "The endpoint lets through between 6 and 8 requests/s: refused from 8 requests/s on, "
        "none at 6." == wrong.sentence()
    )


def test_a_limit_of_tokens_is_told_beside_nominal_rates(tmp_path):
    """What a server counts is not what was asked for: both are named."""
    run = saved(tmp_path, steps([(4, 4), (8, 6), (6, 6)]), [4, 8, 6], tokens_per_request=15.0)
    (found,) = rate_limits_of(run).found
    tokens = replace(found, kind=LimiterKind.TOKENS_FIXED, charge=Charge.USED, figure=5_400.0)
    answer = limit_answer(run, attempt_rows(run.records), [tokens])

    assert (
        "The endpoint lets through 5,400 tokens/min by its own count: refused from 7,200 nominal "
        "tokens/min on, none at 5,400." == answer.sentence()
    )
