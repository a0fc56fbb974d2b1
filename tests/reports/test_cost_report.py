"""The cost of built runs, by hand; the same from records as from tallies; nothing unknown as 0."""

import json
from dataclasses import replace

import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from metrics.cost import StageUse, cost_rows
from metrics.outcome import Outcome, TokenSource
from metrics.run_files import RunFileError
from metrics.stage import Phase
from reports.analyse import analyse
from reports.cost import COST_COLUMNS, cost_of, cost_sentences, cost_table, cost_values
from reports.load import load_run
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered

TOKENS = {"price_in": 0.5, "price_cached": 0.1, "price_out": 2.0}
GPU = {"gpu_hour_price": 3.6, "gpus": 2}  # 0.2 cents a second for both


def cost_from(folder, records, prices, **options):
    """The cost of records, saved and read back, with the report that they are in."""
    run = load_run(build_run(folder, numbered(records), settings=prices, **options))
    report = analyse(run)
    return cost_of(run.records, report.meta, report.stages), report


def big(**changes):
    """A success of 1,000 prompt tokens (400 cached) and 100 completion tokens: 0.054 cents."""
    values = {"prompt_tokens": 1_000, "cached_tokens": 400, "completion_tokens": 100}
    return make_record(**{**values, **changes})


def test_a_run_without_prices_has_no_cost(tmp_path):
    """Neither when the options are there, nor in a run of before."""
    none = {"price_in": 0.0, "price_cached": 0.0, "price_out": 0.0, "gpu_hour_price": 0.0}

    assert cost_from(tmp_path / "r", [big()], {**none, "gpus": 1})[0] is None
    assert cost_from(tmp_path / "s", [big()], {})[0] is None
    assert ({}, (), ()) == (cost_values(None), cost_table(None), cost_sentences(None, {0}, None))


def test_stored_prices_that_do_not_go_together_are_told(tmp_path):
    """A run that somebody edited: which option, and what is missing."""
    with pytest.raises(RunFileError, match=r"run.json .* --price-cached 0\.1 without --price-in"):
        cost_from(tmp_path / "r", [big()], {"price_cached": 0.1})


def test_a_million_output_tokens_by_tokens(tmp_path):
    """0.3 + 0.04 + 0.2 thousandths of a dollar for 100 tokens: 5.40 a million."""
    cost, _ = cost_from(tmp_path / "r", [big() for _ in range(10)], TOKENS)

    assert 5.4 == pytest.approx(cost.rows[0].per_m_out)
    assert 0.54 == pytest.approx(cost.rows[0].per_1000_ok)
    assert 0.0054 == pytest.approx(cost.runs[0].cost)


def test_a_million_output_tokens_by_gpu_hours(tmp_path):
    """10 s for 2 cents, in which 10 answers of 100 tokens came: 20 a million, 2 for 1,000."""
    cost, report = cost_from(tmp_path / "r", [big() for _ in range(10)], GPU)

    assert 10.0 == report.stages[0].window_s
    assert 0.02 == pytest.approx(cost.rows[0].cost)
    assert 20.0 == pytest.approx(cost.rows[0].per_m_out)
    assert 2.0 == pytest.approx(cost.rows[0].per_1000_ok)


def test_an_answer_that_reaches_over_the_window_brings_it_its_share(tmp_path):
    """Half of its 100 tokens come in the window of 10 s: 2 cents for 50, not for 100."""
    late = big(
        started_s=5.0, ttft_s=0.0, ttfa_s=0.0, last_token_s=10.0, end_s=10.0, user_latency_s=10.0
    )

    cost, _ = cost_from(tmp_path / "r", [late], GPU)

    assert 0.02 / 50 * 1e6 == pytest.approx(cost.rows[0].per_m_out)


def test_records_and_tallies_give_the_same_rows(tmp_path):
    """The tallies of the workers against the records that they sent, on two levels."""
    records = [
        big(stage=n % 2, completion_tokens=100 + n, started_s=n % 2 * 10.0 + 1) for n in range(20)
    ]
    records += [failed_record(), big(token_source=TokenSource.UNKNOWN, completion_tokens=None)]
    run = load_run(build_run(tmp_path / "r", numbered(records), (1, 2), settings={**TOKENS, **GPU}))
    rows = analyse(run).stages
    cost = cost_of(run.records, run.meta, rows)

    from_tallies = [
        StageUse(
            stage=row.stage,
            users=row.target_users,
            window_s=row.window_s,
            output_tokens_per_s=row.output_tokens_per_s,
            completed_rps=row.completed_rps,
            counts=run.book.stage(row.stage).held,
        )
        for row in rows
    ]
    assert cost_rows(cost.prices, from_tallies) == cost.rows
    assert 4 == len(cost.rows)


def test_the_test_itself_costs_more_than_its_windows(tmp_path):
    """A warm-up request, one outside the window and one that failed are billed like the others."""
    records = [
        big(),
        big(phase=Phase.WARMUP),
        big(phase=Phase.RAMP),
        big(outcome=Outcome.TRUNCATED, finish_reason=None),
    ]

    cost, _ = cost_from(tmp_path / "r", records, TOKENS)

    assert 4 * 0.00054 == pytest.approx(cost.runs[0].cost)
    assert 0.00054 == pytest.approx(cost.runs[0].wasted)
    assert 0.00054 == pytest.approx(cost.rows[0].cost)


def test_who_left_without_an_answer_is_billed_by_nobody(tmp_path):
    """Before any attempt, or in the pause after a 429: not among those that may be billed."""
    left = {"outcome": Outcome.CANCELLED, "prompt_tokens": None, "completion_tokens": None}
    records = [big(), big(**left, status=None, attempts=0), big(**left, status=429)]

    cost, _ = cost_from(tmp_path / "r", records, TOKENS)

    assert (0, False) == (cost.runs[0].use.unknown_requests, cost.runs[0].at_least)


def test_tries_before_the_last_one_are_told_apart(tmp_path):
    """2,000 prompt tokens at 0.50 and 50 at 2.00: 0.11 cents, were they billed."""
    records = [big(), big(attempts=3, wasted_prompt_tokens=2_000, wasted_tokens=50)]

    cost, _ = cost_from(tmp_path / "r", records, TOKENS)

    assert 0.0011 == pytest.approx(cost.runs[0].in_vain)
    assert 0 == cost.runs[0].wasted
    assert 2 * 0.00054 == pytest.approx(cost.runs[0].cost)


@pytest.mark.parametrize(
    ("outcome", "unknown"),
    [
        (Outcome.RATE_LIMITED, 0),
        (Outcome.SERVER_ERROR, 0),
        (Outcome.CONNECT_ERROR, 0),
        (Outcome.IDLE_TIMEOUT, 1),
        (Outcome.INTERRUPTED, 1),
        (Outcome.CANCELLED, 1),
    ],
)
def test_what_broke_off_may_be_billed_and_what_was_refused_is_not(tmp_path, outcome, unknown):
    """Only the first makes the cost a lower bound."""
    cost, _ = cost_from(tmp_path / "r", [big(), failed_record(outcome, None)], TOKENS)

    assert (unknown, bool(unknown)) == (cost.runs[0].use.unknown_requests, cost.runs[0].at_least)


def test_gpus_are_paid_for_from_the_start_to_the_end_of_the_run(tmp_path):
    """2 minutes by the wall clock: 24 cents; a clock that was set back does not make it less."""
    back = {"ended_at": "2026-01-02T03:04:06.000+00:00"}
    late = big(started_s=49.5)

    assert 0.24 == pytest.approx(cost_from(tmp_path / "r", [late], GPU)[0].runs[0].cost)
    assert 0.1 == pytest.approx(cost_from(tmp_path / "s", [late], GPU, **back)[0].runs[0].cost)


def test_of_a_killed_run_the_gpus_cost_at_least_what_was_seen(tmp_path):
    """The last answer ended 50 s after its worker joined."""
    run = cost_from(tmp_path / "r", [big(started_s=49.5)], GPU, ended_at=None)[0].runs[0]

    assert (True, pytest.approx(0.1)) == (run.at_least, run.cost)


def test_nothing_unknown_is_printed_as_0(tmp_path):
    """No answer told its tokens: no sum of money, n/a in the table, null in the figures."""
    silent = make_record(
        prompt_tokens=None, completion_tokens=None, token_source=TokenSource.UNKNOWN
    )
    cost, _ = cost_from(tmp_path / "r", [silent] * 3, {**TOKENS, **GPU})

    by_tokens, by_gpu = (dict(zip(COST_COLUMNS, r, strict=True)) for r in cost_table(cost))
    assert {"n/a"} == {by_tokens[name] for name in COST_COLUMNS[3:9]}
    assert ("n/a", "n/a", "$0.020") == (
        by_gpu["output tokens"],
        by_gpu["per M output"],
        by_gpu["cost of them"],
    )
    assert "3 without usage" == by_tokens["remarks"]
    assert cost_values(cost)["run"][0]["cost"] is None
    sentences = cost_sentences(cost, {0}, None)
    assert (
        "What this test cost by tokens is unknown: none of 3 requests told its tokens." in sentences
    )
    assert not any("$0 " in sentence or "million" in sentence for sentence in sentences)


def levels(folder, budget=0.0):
    """4, 8 and 16 users for 10 s each, with 10, 20 and 25 answers of 100 tokens."""
    records = [
        big(stage=stage, started_s=stage * 10.0 + 1)
        for stage, answers in enumerate((10, 20, 25))
        for _ in range(answers)
    ]
    return cost_from(folder, records, {**GPU, "budget": budget}, levels=(4, 8, 16))[0]


def test_the_headline_is_of_the_knee_and_names_the_least(tmp_path):
    """Above the knee tokens are cheaper and people wait: 10 at 8 users, 8 at 16."""
    first, _ = cost_sentences(levels(tmp_path / "r"), {0, 1, 2}, 8.2)

    assert first == (
        "A million output tokens cost $10.00 at 8 users (2 GPUs at $3.60 an hour); "
        "the least is $8.00 at 16 users."
    )


@pytest.mark.parametrize(
    ("usable", "knee", "told"),
    [
        ({0, 1, 2}, None, "cost $8.00 at 16 users (2"),
        ({0, 1}, None, "cost $10.00 at 8 users (2"),
        ({0, 1, 2}, 2.0, "cost $8.00 at 16 users (2"),
    ],
    ids=["no knee", "a void level", "a knee below all levels"],
)
def test_the_headline_without_a_level_below_a_knee_is_the_least(tmp_path, usable, knee, told):
    """Of the levels that may be cited."""
    first, _ = cost_sentences(levels(tmp_path / "r"), usable, knee)

    assert told in first


def test_no_level_may_be_cited_and_the_test_cost_all_the_same(tmp_path):
    """One sentence only: 120 s at 0.2 cents, within a budget of 25 cents and over one of 20."""
    within = levels(tmp_path / "r", budget=0.25)
    over = levels(tmp_path / "s", budget=0.2)

    assert cost_sentences(within, set(), None) == (
        "This test cost $0.24 by GPU hours, 120.0 s of 2 GPUs at $3.60 an hour, "
        "within the budget of $0.25.",
    )
    assert "over the budget of $0.20" in cost_sentences(over, set(), None)[0]


def test_a_lower_bound_is_not_said_to_be_within_a_budget(tmp_path):
    """One stream broke off and may have been billed: what is known is within it."""
    records = [big(), failed_record(Outcome.INTERRUPTED, None)]
    cost, _ = cost_from(tmp_path / "r", records, {**TOKENS, "budget": 1.0})

    assert ", as far as is known within the budget of $1.00;" in cost_sentences(cost, {0}, None)[1]


def test_what_is_missing_from_a_sum_is_said_beside_it(tmp_path):
    """One stream broke off, one answer told no cached tokens, one failed with usage."""
    records = [
        *(big() for _ in range(8)),
        big(cached_tokens=None),
        big(outcome=Outcome.TRUNCATED),
        failed_record(Outcome.INTERRUPTED, None),
    ]
    cost, _ = cost_from(tmp_path / "r", records, TOKENS)

    assert cost_sentences(cost, {0}, None)[1] == (
        "This test cost at least $0.0056 by token prices; $0.00054 of it brought no answer; "
        "1 request told no tokens and may be billed; "
        "1 answer told no cached tokens and got no discount."
    )


def test_gpu_tokens_of_answers_without_usage_make_the_price_an_upper_bound(tmp_path):
    """Half the tokens are not counted: at most 40 a million."""
    silent = big(completion_tokens=None, token_source=TokenSource.UNKNOWN)
    cost, _ = cost_from(tmp_path / "r", [*[big()] * 5, *[silent] * 5], GPU)

    assert "cost at most $40.00 at 1 user" in cost_sentences(cost, {0}, None)[0]


def test_an_open_loop_is_named_by_its_rate(tmp_path):
    """4 requests/s, whatever the workers' number is."""
    cost, report = cost_from(tmp_path / "r", [big() for _ in range(10)], TOKENS)
    step = replace(report.stages[0], rate_rps=4.0)
    run = load_run(tmp_path / "r")

    priced = cost_of(run.records, run.meta, [step])

    assert cost is not None
    assert "at 4 requests/s (by token prices" in cost_sentences(priced, {0}, 1.0)[0]


def test_the_values_are_strict_json_and_name_no_cached_tokens(tmp_path):
    """Cached tokens that a server did not tell would read as 0."""
    cost, _ = cost_from(tmp_path / "r", [big(cached_tokens=None)], {**TOKENS, **GPU})

    values = json.loads(json.dumps(cost_values(cost), allow_nan=False))

    assert {"prompt": 1000, "completion": 100} == values["stages"][0]["tokens"]
    assert ["tokens", "gpu"] == [run["kind"] for run in values["run"]]


def page_part(**names):
    """The part of the page, rendered as the page is."""
    environment = Environment(
        loader=FileSystemLoader("reports/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("_cost.html.j2").render(cost_columns=COST_COLUMNS, **names)


def test_the_page_has_the_table_only_when_there_is_a_price(tmp_path):
    """A cell for each column of each row; nothing at all without prices."""
    cost = levels(tmp_path / "r")

    shown = page_part(cost_rows=cost_table(cost))

    assert 3 * len(COST_COLUMNS) == shown.count("<td") + shown.count('<th scope="row"')
    assert "$8.00" in shown
    assert "" == page_part(cost_rows=()).strip()
