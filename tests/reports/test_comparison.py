"""Two runs against each other: what is refused, what is said, what is found."""

import re
from dataclasses import replace

import pytest

from metrics.compare import Verdict
from metrics.outcome import TokenSource
from reports.comparison.model import ALL_LOADS, Weight
from reports.comparison.pairs import compare
from reports.comparison.sides import Load, read_side
from tests.support.compared_runs import asked, retold, saved, two_sides
from tests.support.records import make_record


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The run that most others are set against: 4 users for a minute."""
    return read_side("A", saved(tmp_path_factory.mktemp("base") / "a", 1))


@pytest.fixture(scope="module")
def equal(tmp_path_factory):
    """The same with another seed."""
    return read_side("B", saved(tmp_path_factory.mktemp("equal") / "b", 2))


@pytest.fixture
def other(tmp_path):
    """Makes a run that differs in something."""
    return lambda **options: read_side("B", saved(tmp_path / "b", **{"seed": 2, **options}))


def pair_of(sides, **options):
    return compare(sides, **options).pairs[0]


def row(pair, metric, load="4 users"):
    (found,) = [r for r in pair.rows if r.metric.name == metric and r.load == load]
    return found


def refused(pair):
    return {m.field for m in pair.refusals}


def test_equal_runs_show_no_difference_and_say_what_they_could_not_have_seen(base, equal):
    """Other seeds of the same times: every judged row holds 0, and the sentence has the size."""
    pair = pair_of((base, equal))

    assert {Verdict.NOT_SHOWN} == {r.verdict for r in pair.rows if r.interval is not None}
    assert "No difference shown between A and B" in pair.sentences[0]
    assert "could not have been seen" in pair.sentences[0]
    assert "TTFT p50 ±" in pair.sentences[0]


def test_a_slower_first_token_is_found_and_nothing_else(base, other):
    """Half as long again: TTFT is worse at every percentile, TPOT is not."""
    pair = pair_of((base, other(ttft_s=0.15)))

    assert Verdict.WORSE is row(pair, "ttft_p50_s").verdict
    assert row(pair, "ttft_p50_s").interval.low < 0.5 < row(pair, "ttft_p50_s").interval.high
    assert Verdict.NOT_SHOWN is row(pair, "tpot_p50_s").verdict
    assert pair.sentences[0].startswith("B is slower: TTFT p")
    assert re.search(r"\(95 % interval \+.* at 4 users \(\d+ ms → \d+ ms\)", pair.sentences[0])


def test_a_faster_decode_is_better_in_tpot_and_tokens(base, other):
    """10 % faster: lower TPOT, more tokens/s."""
    pair = pair_of((base, other(tpot_s=0.018)))

    assert Verdict.BETTER is row(pair, "tpot_p50_s").verdict
    assert Verdict.BETTER is row(pair, "output_tokens_per_s").verdict
    assert any(s.startswith("B is faster: TPOT p") for s in pair.sentences)
    assert any(s.startswith("B makes more tokens: tokens/s +") for s in pair.sentences)


def test_failures_are_told_in_points_and_not_as_a_ratio_to_0(base, other):
    """None against sixty in some four hundred."""
    pair = pair_of((base, other(fails=60, max_fail_ratio=0.9)))
    failures = row(pair, "failed_ratio")

    assert 0 == failures.a.value
    assert Verdict.WORSE is failures.verdict
    assert abs(failures.interval.change - failures.b.value) < 1e-12
    assert any("B fails more often: failures +" in s and "points" in s for s in pair.sentences)


def test_within_a_margin_figures_are_the_same_in_so_many_words(base, equal):
    """With 30 % TTFT and TPOT are equivalent; without a margin they never are."""
    sides = base, equal

    assert Verdict.SAME is row(pair_of(sides, margin=0.3), "ttft_p50_s").verdict
    assert "The same within 30 %:" in " ".join(pair_of(sides, margin=0.3).sentences)
    assert Verdict.SAME not in {r.verdict for r in pair_of(sides).rows}


def test_a_comparison_repeats_to_the_digit(base, equal):
    """Its chance is seeded by the runs' ids."""
    sides = base, equal

    assert pair_of(sides).rows == pair_of(sides).rows


def test_several_loads_have_a_mean_over_all(tmp_path):
    """It is sharper than each of them, and stands in the first sentence."""
    levels = {"levels": (2, 4, 8)}
    pair = pair_of(two_sides(tmp_path, levels, {**levels, "tpot_s": 0.021}))
    mean = row(pair, "tpot_p50_s", ALL_LOADS)

    assert Verdict.WORSE is mean.verdict
    assert mean.interval.resolution < row(pair, "tpot_p50_s", "2 users").interval.resolution
    (told,) = (s for s in pair.sentences if s.startswith("B is slower: TPOT p50"))
    assert re.search(
        r"over all loads \(20 ms → 21 ms at 2 users, 20 ms → 21 ms at 8 users\), and in "
        r"\d of \d comparisons of TPOT at single loads\.$",
        told,
    )


def test_loads_of_only_one_run_are_left_out_by_name(tmp_path):
    """4 users are in both; 2 and 8 are not."""
    pair = pair_of(two_sides(tmp_path, {"levels": (2, 4)}, {"levels": (4, 8)}))

    assert {"4 users"} == {r.load for r in pair.rows} - {"run"}
    assert ("2 users: B has no such load", "8 users: A has no such load") == pair.left_out


def test_a_third_run_is_compared_with_the_base(base, equal, other):
    """C is set against A, and not against B."""
    found = compare((base, equal, replace(other(ttft_s=0.2), label="C")))

    assert [("A", "B"), ("A", "C")] == [(p.a.label, p.b.label) for p in found.pairs]
    assert Verdict.NOT_SHOWN is row(found.pairs[0], "ttft_p50_s").verdict
    assert Verdict.WORSE is row(found.pairs[1], "ttft_p50_s").verdict


REFUSALS = {
    "traffic": ("--traffic", {"settings": {"traffic": "block"}}),
    "prompt lengths": ("--prompt-tokens", {"settings": {"prompt_tokens": "400"}}),
    "output lengths": ("--output-tokens", {"settings": {"output_tokens": "uniform:1-9"}}),
    "shared prefixes": ("--prefixes", {"settings": {"prefixes": 8}}),
    "prefix length": ("--prefix-tokens", {"settings": {"prefix_tokens": 800}}),
    "think time": ("--think-time", {"settings": {"think_time": "3"}}),
    "temperature": ("--temperature", {"settings": {"temperature": "0"}}),
    "ends of answers": ("--ignore-eos", {"settings": {"ignore_eos": True}}),
    "arrivals": ("--arrivals", {"settings": {"arrivals": "constant"}}),
    "leaving users": ("--cancel-ratio", {"settings": {"cancel_ratio": 0.1}}),
    "retries": ("--retries", {"settings": {"retries": 3}}),
    "body": ("--extra-body", {"settings": {"extra_body": ["top_k"]}}),
    "an option of later": ("--dataset", {"settings": {"dataset": "chats.jsonl"}}),
    "schema": ("schema", {"schema": "swarmgauge.run/0"}),
    "token source": ("token source", {"token_source": TokenSource.COUNTED}),
    "user class": ("users", {"user_class": "BlockingChatUser"}),
    "counted otherwise": ("prompt tokens", {"prompt_tokens": 13}),
    "longer answers": ("completion tokens", {"completion_tokens": 26}),
    "interrupted": ("validity", {"complete": False, "end_reason": "interrupted"}),
    "no common load": ("loads", {"levels": (5,)}),
}


TOLD_ALONE = {"settings", "schema", "versions", "seed", "model", "salt"}


def against(base, other, options):
    """The base against a run that tells or did something else."""
    return (base, retold(base, **options) if TOLD_ALONE >= set(options) else other(**options))


@pytest.mark.parametrize(("field", "options"), REFUSALS.values(), ids=REFUSALS)
def test_what_is_not_comparable_is_refused_with_field_values_and_advice(
    base, other, field, options
):
    """No row is shown; the sentence has the field, and each refusal has something to do."""
    pair = pair_of(against(base, other, options))

    assert field in refused(pair)
    assert () == pair.rows
    assert field in pair.sentences[0]
    assert all(m.advice and m.a and m.b for m in pair.refusals)


def test_a_forced_comparison_says_so_first(base):
    """--force gives the figures, under a sentence that names what differs."""
    sides = base, retold(base, settings={"think_time": "3"})
    pair = pair_of(sides, force=True)

    assert pair.rows
    assert pair.sentences[0].startswith("FORCED: A and B differ")
    assert "--think-time" in pair.sentences[0]


SAID = {
    "endpoint": ("--host", {"settings": {"host": "http://10.0.0.2/v1"}}),
    "model": ("model", {"model": "m-fp8"}),
    "seed": ("--seed", {"settings": {"seed": "7"}, "seed": 7}),
    "salt": ("salt", {"salt": "another"}),
    "version": ("version of python", {"versions": {"python": "3.12"}}),
    "hold": ("--hold", {"settings": {"hold": "30s"}}),
}


@pytest.mark.parametrize(("field", "options"), SAID.values(), ids=SAID)
def test_what_may_be_compared_is_said_and_not_refused(base, field, options):
    """FP8 against BF16, a gateway against none, other seeds."""
    pair = pair_of((base, retold(base, **options)))

    assert not pair.refusals
    assert Weight.SAID in {m.weight for m in pair.mismatches if m.field == field}
    assert pair.rows


def test_what_a_run_does_not_tell_is_unknown_and_not_equal(base):
    """A run without settings, a file of lengths, a body of which only the names are kept."""
    lengths = {"prompt_tokens": "file:l.csv", "extra_body": ["top_k"]}
    known = pair_of((retold(base, "A", lengths, run_id="x"), retold(base, "B", lengths)))
    bare_run = replace(base.run, meta={**base.run.meta, "run_id": "bare", "settings": None})
    bare = pair_of((base, replace(base, label="B", run=bare_run)))

    def unknown(pair):
        return {m.field for m in pair.mismatches if m.weight is Weight.UNKNOWN}

    assert {"--prompt-tokens", "--extra-body"} == unknown(known)
    assert {"settings"} == unknown(bare)
    assert not bare.refusals


def test_an_option_that_an_older_run_did_not_have_was_at_its_default(base):
    """--retries came later: 0 is what its absence means, and 0 is 0s of thinking however told."""
    for option in ({"retries": 0}, {"think_time": "0"}, {"think_time": 0.0}):
        assert not pair_of((base, retold(base, settings=option))).refusals


def test_a_run_is_not_compared_with_itself(base):
    """One folder given twice by mistake."""
    assert {"run_id"} == refused(pair_of((base, base)))


def test_a_void_stage_is_left_out_with_its_reason(base, equal):
    """With no other load the runs are refused, and the reason stands beside."""
    (key,) = equal.loads
    reason = "stage 1 is void (client-limited: CPU at 97 %)"
    pair = pair_of((base, replace(equal, loads={key: Load(key, void=[reason])})))

    assert {"loads"} == refused(pair)
    assert (f"4 users: B's {reason}",) == pair.left_out


@pytest.mark.parametrize("requests", [0, 1, 2])
def test_next_to_no_requests_compare_to_nothing(tmp_path, requests):
    """No interval, no verdict, no exception; the sentence says why."""
    few = [make_record(started_s=1.0 + n, sequence=n) for n in range(requests)]
    sides = two_sides(tmp_path, {"records": few}, {"records": few})
    pair = pair_of(sides, force=True)

    assert {Verdict.NOT_JUDGED} >= {r.verdict for r in pair.rows if r.metric.unit == "s"}
    assert pair.sentences


def test_all_equal_times_differ_by_nothing(tmp_path):
    """Constants in both runs: a change of 0, and no division by a spread of 0."""
    pair = pair_of(two_sides(tmp_path, {"spread": 0}, {"spread": 0}))
    ttft = row(pair, "ttft_p50_s")

    assert 0 == ttft.interval.change
    assert Verdict.NOT_SHOWN is ttft.verdict


def test_only_failures_have_a_share_and_no_latency(tmp_path):
    """All 404 in both: nothing to be faster at."""
    records = asked(1, fails=10_000)
    pair = pair_of(two_sides(tmp_path, {"records": records}, {"records": records}), force=True)

    assert 1.0 == row(pair, "failed_ratio").a.value
    assert not [r for r in pair.rows if r.metric.name == "ttft_p50_s"]


def test_a_window_of_few_answers_is_not_judged_and_says_how_long_to_hold(tmp_path):
    """2 s of answers of half a second are four cycles; six are needed."""
    short = {"hold_s": 2.0}
    pair = pair_of(two_sides(tmp_path, short, short))
    ttft = row(pair, "ttft_p50_s")

    assert Verdict.NOT_JUDGED is ttft.verdict
    assert "an interval needs 6, so hold for 3 s" in ttft.why or "hold for 4 s" in ttft.why
    assert ttft.a.value is not None


def test_a_percentile_of_few_requests_is_not_judged(tmp_path):
    """p99 needs 368 requests; it is shown, with how many there were."""
    few = {"levels": (2,)}
    pair = pair_of(two_sides(tmp_path, few, few))
    p99 = row(pair, "ttft_p99_s", "2 users")

    assert Verdict.NOT_JUDGED is p99.verdict
    assert "of 368 requests" in p99.why


def test_a_cheaper_run_is_named_cheaper_in_money_per_million(tmp_path):
    """GPU hours: 10 % more tokens/s is about 9 % less per million."""
    paid = {"settings": {"gpu_hour_price": 3.0, "gpus": 2}}
    pair = pair_of(two_sides(tmp_path, paid, {**paid, "tpot_s": 0.016}))
    cost = row(pair, "cost_per_m_gpu")

    assert Verdict.BETTER is cost.verdict
    assert (
        abs((1 + cost.interval.change) * (1 + row(pair, "output_tokens_per_s").interval.change) - 1)
        < 1e-9
    )


def test_a_colder_cache_is_different_and_neither_better_nor_worse(tmp_path):
    """Half of each prompt from the cache against none."""
    pair = pair_of(two_sides(tmp_path, {"cached_tokens": 5}, {"cached_tokens": 0}))

    assert Verdict.DIFFERENT is row(pair, "cached_ratio").verdict
    assert any("B differs: cached prompt tokens −50 points" in s for s in pair.sentences)
