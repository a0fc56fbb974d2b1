"""What Prometheus is told: names by its rules, exact counts, few series, nothing made up."""

import random
import re

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hooks.export.buckets import LATENCY_BOUNDS_S, TOKEN_BOUNDS_S, cumulative
from hooks.export.families import RunCollector
from metrics.histogram import Histogram
from metrics.outcome import Outcome
from metrics.stage import Phase
from tests.support.live_runs import DRAIN, HOLD, RAMP, Played, live_state
from tests.support.records import failed_record, make_record
from workloads.lengths import parse_distribution

LABELS = {"outcome", "le"}


def ladder(folder, levels=(2, 4), **changes):
    """A run of a ladder without think time."""
    state = live_state(folder, levels, **changes)
    state.settings.think_time_s = parse_distribution("0")
    return Played(state)


def families(run):
    """What a scrape reads, by family."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(lambda: run))
    text = generate_latest(registry).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(found, name):
    """The only sample of a family; None without one."""
    samples = found[f"swarmgauge_{name}"].samples
    assert len(samples) <= 1
    return samples[0].value if samples else None


@pytest.fixture
def played(tmp_path):
    """Two held successes, one from before, a failure, and a 429 after a retry."""
    made = ladder(tmp_path)
    made.enter(0, RAMP, 0.0)
    made.enter(0, HOLD, 1.0)
    refused = failed_record(
        Outcome.RATE_LIMITED, 429, worker="w1", attempts=3, rate_limited_attempts=3
    )
    records = [
        make_record(worker="w1", started_s=1.1, cached_tokens=8),
        make_record(worker="w1", started_s=1.2, connections_opened=1),
        make_record(worker="w1", started_s=0.5, phase=Phase.RAMP),
        failed_record(worker="w1", started_s=1.3, wasted_tokens=4),
        refused,
    ]
    health = [(0, "loop_lag_s", 0.004), (0, "cpu_ratio", 0.25)]
    made.report("w1", records, health=health)
    made.look(2.0)
    return made


def test_counters_are_the_runs_totals(played):
    """Of all phases; every outcome has its series from the start."""
    found = families(played.run)
    outcomes = {s.labels["outcome"]: s.value for s in found["swarmgauge_requests"].samples}

    assert {"ok": 3, "server_error": 1, "rate_limited": 1} == {
        k: v for k, v in outcomes.items() if v
    }
    assert {outcome.value for outcome in Outcome} == outcomes.keys()
    assert {
        "attempts": 7,
        "rate_limited_attempts": 3,
        "retried_requests": 1,
        "prompt_tokens": 30,
        "cached_tokens": 8,
        "completion_tokens": 15,
        "wasted_tokens": 4,
        "connections_opened": 1,
    } == {
        name.removeprefix("swarmgauge_"): family.samples[0].value
        for name, family in found.items()
        if family.type == "counter" and name != "swarmgauge_requests"
    }


def test_histograms_are_of_held_successes(played):
    """TTFT 0.1 s and 0.4 s for four tokens after it, twice: what came before is not in them."""
    found = families(played.run)
    ttft = {
        s.labels.get("le", s.name[-5:]): s.value for s in found["swarmgauge_ttft_seconds"].samples
    }

    assert (0, 2, 2) == (ttft["0.075"], ttft["0.15"], ttft["+Inf"])
    assert (2, pytest.approx(0.2)) == (ttft["count"], ttft["s_sum"])
    assert {"ttft": 2, "e2e_latency": 2, "tpot": 2, "chunk_gap": 2} == {
        name.removeprefix("swarmgauge_").removesuffix("_seconds"): family.samples[-2].value
        for name, family in found.items()
        if family.type == "histogram"
    }


def test_histograms_are_of_all_stages(tmp_path):
    """Two stages of one success each are two in the run's histogram, and two times in its sum."""
    made = ladder(tmp_path)
    for number in (0, 1):
        made.enter(number, HOLD, float(number))
        made.report("w1", [make_record(worker="w1", stage=number, started_s=number + 0.1)])
    made.look(2.0)
    samples = {s.name: s.value for s in families(made.run)["swarmgauge_ttft_seconds"].samples}

    assert 2 == samples["swarmgauge_ttft_seconds_count"]
    assert pytest.approx(0.2) == samples["swarmgauge_ttft_seconds_sum"]
    assert {0: 1, 1: 1} == {n: t.latency["ttft_s"].n for n, t in made.state.book.by_stage.items()}


@pytest.mark.parametrize("bounds_s", [LATENCY_BOUNDS_S, TOKEN_BOUNDS_S], ids=["waits", "tokens"])
def test_buckets_count_what_lies_below_their_bound(bounds_s):
    """Against a plain count: only values within 1 % of a bound may be counted on its other side."""
    chance = random.Random(7)
    values = [chance.lognormvariate(-2, 2) for _ in range(5000)] + [0.0, 0.0]
    histogram = Histogram()
    histogram.add_many(values)
    pairs = cumulative(histogram, bounds_s)

    assert ("+Inf", 5002) == pairs[-1]
    for (_, count), bound in zip(pairs, bounds_s, strict=False):
        surely = sum(one <= 0.99 * bound for one in values)
        perhaps = sum(one <= 1.01 * bound for one in values)
        assert surely <= count <= perhaps
    assert sorted(count for _, count in pairs) == [count for _, count in pairs]
    assert [*bounds_s, float("inf")] == [float(bound) for bound, _ in pairs]


def test_gauges_are_of_now(played):
    """Users, stage, requests in flight, and the client's own state."""
    found = families(played.run)

    assert [1, 2, 2, 2, 1, 2, 2, 1] == [
        value(found, name)
        for name in (
            *("running", "users", "target_users", "in_flight", "stage", "planned_stages"),
            *("elapsed_seconds", "workers"),
        )
    ]
    assert pytest.approx(0.004, rel=0.01) == value(found, "client_loop_lag_p99_seconds")
    assert 0.25 == value(found, "client_cpu_ratio")


def test_what_is_not_known_has_no_sample(tmp_path):
    """What is in flight before a report, the stage of a drain, the length of a search."""
    young = ladder(tmp_path, in_flight=None)
    young.state.plan.stage_count = None
    young.enter(0, HOLD, 0.0)
    young.enter(0, DRAIN, 0.5)
    young.look(1.0)
    found = families(young.run)

    unknown = (
        *("in_flight", "stage", "planned_stages", "knee_users", "knee_at_least_users"),
        *("client_loop_lag_p99_seconds", "client_delay_p99_seconds", "client_cpu_ratio"),
    )
    assert [None] * len(unknown) == [value(found, name) for name in unknown]


def test_before_the_first_run_only_that_is_told():
    """A scrape of an idle master is no error."""
    found = families(None)

    assert ["swarmgauge_running"] == list(found)
    assert 0 == value(found, "running")


def test_after_the_run_its_totals_stay_and_nothing_goes_on(played):
    """Whoever asks late still gets them."""
    played.run.end(3.0)
    found = families(played.run)

    assert [0, 0, 0, 0, None, None] == [
        value(found, name)
        for name in ("running", "users", "target_users", "in_flight", "stage", "client_cpu_ratio")
    ]
    assert 7 == value(found, "attempts")


def test_names_follow_the_rules_of_prometheus(played):
    """Base units, ``_total`` on counters alone, a help text for each."""
    found = families(played.run)

    for name, family in found.items():
        assert re.fullmatch(r"swarmgauge_[a-z0-9]+(_[a-z0-9]+)*", name)
        assert not re.search(r"_(ms|millis|milliseconds|percent|total|count|sum|bucket)$", name)
        assert family.documentation.endswith(".")
        counts = [sample.name.endswith("_total") for sample in family.samples]
        assert [family.type == "counter"] * len(counts) == counts
        if family.type == "histogram":
            assert name.endswith("_seconds")


def test_labels_are_few_whatever_servers_say(tmp_path, played):
    """Error codes, URLs, models and ids are none, and stages make no series of their own."""
    many = ladder(tmp_path, levels=range(1, 60))
    for number in range(59):
        many.enter(number, HOLD, float(number))
        code = f"code-{number}"
        many.report("w1", [make_record(worker="w1", stage=number), failed_record(error_code=code)])
    many.look(60.0)
    few, more = families(played.run), families(many.run)
    series = [sum(len(family.samples) for family in found.values()) for found in (few, more)]

    assert LABELS == {label for f in more.values() for s in f.samples for label in s.labels}
    assert max(series) < 200
    assert abs(series[0] - series[1]) <= 4  # gauges that are known in one of the two


def test_the_knee_so_far_is_the_queues(tmp_path):
    """Sixteen slots: at 32 users half of each cycle is spent waiting."""
    made = ladder(tmp_path, levels=(8, 16, 32))
    for number, wait_s in enumerate((0.0, 0.0, 1.0)):
        made.enter(number, RAMP, 20.0 * number)
        made.enter(number, HOLD, 20.0 * number + 1.0)
        times = {"ttft_s": 0.1 + wait_s, "last_token_s": 1.0 + wait_s, "end_s": 1.0 + wait_s}
        record = {"worker": "w1", "stage": number, "started_s": 20.0 * number + 2.0, **times}
        made.report("w1", [make_record(**record) for _ in range(100)])
        made.look(20.0 * number + 19.0)
    during = families(made.run)
    made.enter(2, DRAIN, 60.0)
    made.look(62.0)
    after = families(made.run)

    assert (None, 16) == (value(during, "knee_users"), value(during, "knee_at_least_users"))
    assert (pytest.approx(16, rel=0.05), None) == (
        value(after, "knee_users"),
        value(after, "knee_at_least_users"),
    )


def test_a_shape_without_levels_has_no_knee(tmp_path):
    """A soak is one level, and no knee is guessed from it."""
    made = ladder(tmp_path)
    made.state.settings.shape = "soak"
    made.enter(0, HOLD, 0.0)
    made.report("w1", [make_record(worker="w1")])
    made.look(1.0)
    made.run.end(2.0)

    assert value(families(made.run), "knee_at_least_users") is None
