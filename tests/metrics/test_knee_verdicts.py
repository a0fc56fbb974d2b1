"""Every kind of verdict on a saved ladder fires when it should, and not when it should not."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.knee import KneeStatus, Level, find_knee, level_of_means
from metrics.knee_explain import explain
from metrics.knee_hysteresis import hysteresis
from metrics.knee_limits import in_flight_at, in_flight_shares
from metrics.knee_rivals import broken_stick, kneedle, rivals, usl_peak
from metrics.knee_slo import falling, slo_capacity
from tests.support.knee_levels import refused, slots, steady

DOUBLING = (1, 2, 4, 8, 16, 32, 64)
CAP = [24.0] * 40
CROWD = [float(14 + n % 12) for n in range(40)]

# Llama-3.3-70B in FP8 on two H100, 5,000 tokens in and 500 out, as published for NIM 1.8.0 on
# docs.nvidia.com/nim/benchmarking/llm/1.0.0/performance: users, TTFT s, ITL s, output tokens/s.
NIM = (
    (1, 0.40677, 0.01858, 51.67),
    (5, 0.5467, 0.02183, 218.48),
    (25, 0.68869, 0.03875, 623.4),
    (50, 0.83451, 0.05973, 814.37),
    (100, 7.99625, 0.09291, 917.26),
    (150, 34.79422, 0.09286, 920.9),
    (200, 61.68022, 0.09306, 920.54),
    (250, 88.60532, 0.0932, 920.12),
)


def nim():
    """The published table as levels of means."""
    return [
        level_of_means(n, tokens / 500, ttft, ttft + 499 * itl, itl) for n, ttft, itl, tokens in NIM
    ]


def gradual(users):
    """20 users fit, but those from 12 on wait a little already."""
    extra = 0.12 if 12 <= users <= 20 else 0.0
    level = slots(users, 20)
    return steady(users, level.mean_ttft_s() + extra, level.mean_latency_s() + extra)


def buffered(users):
    """32 slots behind a proxy that sends each answer in one piece."""
    whole_s = slots(users, 32).mean_latency_s()
    return steady(users, whole_s, whole_s, buffered=True, tpot_s=[])


def role_only(users):
    """32 slots whose first chunk comes at once, without output."""
    return steady(users, 0.01, slots(users, 32).mean_latency_s())


def calm(users):
    return slots(users, 1_000)


LADDERS = {
    KneeStatus.KNEE: [slots(n, 20) for n in (*DOUBLING, 19)],
    KneeStatus.GRADUAL_KNEE: [gradual(n) for n in (1, 2, 4, 8, 18, 32, 64)],
    KneeStatus.NEAR_TOP: [slots(n, 57) for n in DOUBLING],
    KneeStatus.NO_KNEE: [calm(n) for n in DOUBLING],
    KneeStatus.HIDDEN_QUEUE: [role_only(n) for n in (*DOUBLING, 128, 256)],
    KneeStatus.RATE_LIMITED: [calm(1), calm(4), refused(32, 10.0, in_flight=CROWD)],
    KneeStatus.INFLIGHT_CAP: [calm(1), calm(4), refused(32, 24.0, in_flight=CAP)],
    KneeStatus.ERRORS: [calm(1), calm(4), steady(8, 0.05, 1, requests=200, failed=80)],
    KneeStatus.CLIENT_LIMITED: [
        calm(1),
        calm(4),
        slots(8, 4, void="client-limited: CPU 99 %", client_limited=True),
    ],
    KneeStatus.UNRESOLVED: [slots(n, 8) for n in (16, 32, 64)],
}


@pytest.mark.parametrize("status", list(LADDERS))
def test_each_verdict_fires_on_its_ladder_alone(status):
    """Ten ladders, ten verdicts; only those that measured a queue name a number of users."""
    estimate = find_knee(LADDERS[status])

    assert status is estimate.status
    numbered = {"knee", "gradual_knee", "near_top", "hidden_queue"}
    assert (status.value in numbered) is (estimate.users is not None)
    assert estimate.reason
    json.dumps(asdict(estimate), allow_nan=False)


@pytest.mark.parametrize("status", list(LADDERS))
def test_an_explanation_ends_in_the_verdict(status):
    """The lines name every level, the rule, and the sentence of the verdict."""
    lines = explain(LADDERS[status])

    assert len(LADDERS[status]) == sum(line.startswith("Level of") for line in lines)
    assert f"Rule: {status.value}:" in "\n".join(lines)
    assert f"Verdict: {find_knee(LADDERS[status]).sentence()}." in lines


def test_an_explanation_gives_weights_that_are_a_mean():
    """The estimate is the weighted mean of the levels that queue, and of no other."""
    lines = "\n".join(explain(LADDERS[KneeStatus.KNEE]))

    assert "Baseline: 1 user," in lines
    assert "from 32 users" in lines
    assert "from 64 users" in lines
    assert "from 16 users" not in lines


def test_a_published_table_of_means_gives_the_same_knee_at_every_saturated_level():
    """NVIDIA's table: 86.3, 86.6, 86.9 and 87.0 users carried, no interval, Kneedle says 50."""
    estimate = find_knee(nim())
    carried = {e.users: e.users * (1 - e.share) for e in estimate.evidence}

    assert KneeStatus.KNEE is estimate.status
    assert [150, 200, 250] == [e.users for e in estimate.evidence if e.used_for == "estimate"]
    assert [86.3, 86.6, 86.9, 87.0] == [round(carried[n], 1) for n in (100, 150, 200, 250)]
    assert 86.7 == pytest.approx(estimate.users, abs=0.4)
    assert estimate.low is None
    assert estimate.high is None
    assert (50, 100) == (estimate.calm_users, estimate.queueing_users)
    assert 50 == rivals(nim())["kneedle"]
    assert "interval n/a" in "\n".join(explain(nim()))


def test_a_queue_is_told_beside_a_limit_above_it():
    """429s at 128 users do not hide the knee at 20, and the limit stays named beside it."""
    estimate = find_knee([*LADDERS[KneeStatus.KNEE], refused(128, 20.0)])

    assert KneeStatus.KNEE is estimate.status
    assert KneeStatus.RATE_LIMITED is estimate.side.ceiling.status


def test_L12_levels_that_only_passed_on_the_burst_are_left_out():
    """16 users got 16/s while the limit is 10/s: at least 8, not 16."""
    levels = [slots(n, 1_000, completed_per_s=float(n)) for n in (1, 4, 8, 16)]
    estimate = find_knee([*levels, refused(32, 10.0, in_flight=CROWD)])

    assert KneeStatus.RATE_LIMITED is estimate.status
    assert 8 == estimate.at_least
    assert 10.0 == estimate.side.ceiling.completed_rps


def test_a_limit_right_above_the_only_level_is_still_named():
    """16 users alone show no calm, and 429s at 20: the limit, without a lower bound."""
    estimate = find_knee([calm(16), refused(20, 16.0, in_flight=CROWD)])

    assert KneeStatus.RATE_LIMITED is estimate.status
    assert estimate.at_least is None


def test_one_user_alone_meets_no_step_under_way() -> None:
    """From two users on each arrival waits half a decode step: no queue, on short answers too."""
    alone, step_s = 0.02, 0.018
    levels = [
        Level(
            users=users,
            ttft_s=[alone + (0.5 * step_s if users > 1 else 0.0)] * 60,
            tpot_s=[step_s] * 60,
            latency_s=[0.06] * 60,
            requests=60,
            held_s=0.06 * 60 / users,
        )
        for users in (1, 2, 4)
    ]

    found = find_knee(levels)
    assert KneeStatus.NO_KNEE is found.status
    assert 4 == found.at_least


def test_a_void_level_that_passed_when_held_again_stopped_nothing() -> None:
    """The client was late once at one user, and at its end at two: that is what ended the climb."""

    def level(users: int, void: str | None) -> Level:
        return Level(
            users=users,
            ttft_s=[0.05] * 60,
            tpot_s=[0.01] * 60,
            latency_s=[0.5] * 60,
            requests=60,
            held_s=30.0,
            void=void,
            client_limited=void is not None,
        )

    late = "the event loop ran 250 ms late"
    found = find_knee([level(1, late), level(1, None), level(2, late), level(2, late)])

    assert KneeStatus.CLIENT_LIMITED is found.status
    assert 1 == found.at_least


def test_one_of_two_users_refused_beside_the_other_is_no_cap() -> None:
    """Always one in flight at a 429; but at other times both were served: a rate limit."""
    served = [0.5] * 40
    level = Level(
        users=2,
        ttft_s=served,
        tpot_s=[0.01] * 40,
        latency_s=served,
        requests=80,
        rate_limited=40,
        held_s=10.0,
        in_flight_at_refusals=[1] * 40,
        in_flight_shares=[0.1, 0.6, 0.3],
    )
    below = Level(users=1, ttft_s=[0.1] * 40, tpot_s=[0.01] * 40, latency_s=served, requests=40)

    assert KneeStatus.RATE_LIMITED is find_knee([below, level]).status
    capped = replace(level, in_flight_shares=[0.1, 0.87, 0.03])
    assert KneeStatus.INFLIGHT_CAP is find_knee([below, capped]).status


def test_shares_of_the_time_by_what_is_in_flight() -> None:
    """One request for 2 s, two for 1 s, none for 1 s; one right after another is one."""
    assert [0.25, 0.5, 0.25] == in_flight_shares([(0, 2), (1, 2), (3, 4)])
    assert [0.0, 1.0] == in_flight_shares([(0, 1), (1, 2)])
    assert [] == in_flight_shares([])


def test_what_is_in_flight_at_a_429_is_counted_where_it_is_known():
    """Two answers under way at 1 s, one at 3 s; at 9 s the running ones are not known yet."""
    accepted = [(0.0, 2.0), (0.5, 4.5), (6.0, 10.0)]

    assert [2.0, 1.0] == in_flight_at(accepted, [1.0, 3.0, 9.0])
    assert [] == in_flight_at([], [1.0])


def test_a_single_failure_among_few_requests_ends_nothing():
    """One error in 60 is 1.7 %, and still an accident."""
    levels = [calm(1), calm(2), steady(4, 0.05, 1.0, 59, requests=60, failed=1)]

    assert KneeStatus.NO_KNEE is find_knee(levels).status


def test_a_buffering_proxy_hides_the_queue_and_its_number_is_found_in_latency():
    """TTFT is the whole answer: growth of the answer is not taken for waiting."""
    estimate = find_knee([buffered(n) for n in (*DOUBLING, 128)])

    assert KneeStatus.HIDDEN_QUEUE is estimate.status
    assert 32 == pytest.approx(estimate.users, rel=0.25)
    assert estimate.low < 32 < estimate.high
    assert "in one piece" in estimate.reason


def test_a_buffered_server_that_only_slows_has_no_hidden_queue():
    """Latency on the line A + D * N is batching, however long it gets."""
    levels = []
    for n in (*DOUBLING, 128):
        whole_s = 1 + 0.1 * n
        levels.append(steady(n, whole_s, whole_s, buffered=True, tpot_s=[]))

    estimate = find_knee(levels)

    assert KneeStatus.UNRESOLVED is estimate.status
    assert estimate.users is None


def test_a_slow_hour_at_the_top_is_no_hidden_queue_while_throughput_scales():
    """Latency half higher at 64 and 128 users, and still nearly twice the throughput at 128."""
    levels = [calm(n) for n in DOUBLING[:-1]] + [steady(n, 0.05, 1.5) for n in (64, 128)]

    assert KneeStatus.NO_KNEE is find_knee(levels).status


def test_one_odd_top_level_is_no_hidden_queue():
    """A single slow level may be an accident of the hour: two are asked for."""
    levels = [calm(n) for n in DOUBLING] + [steady(128, 0.05, 3.0)]

    assert KneeStatus.NO_KNEE is find_knee(levels).status


@pytest.mark.parametrize(
    ("growth_s", "elasticity", "words"),
    [(0.001, 1 / 1.064, "still scaling"), (0.2, 1 / 13.8, "plateau by batching")],
    ids=["scaling", "plateau"],
)
def test_L09_without_a_knee_the_shape_of_throughput_is_told(growth_s, elasticity, words):
    """At least 64, with the elasticity there; the plateau also with its efficiency knee of 5."""
    estimate = find_knee([slots(n, 1_000, growth_s=growth_s) for n in DOUBLING])

    assert KneeStatus.NO_KNEE is estimate.status
    assert 64 == estimate.at_least
    assert elasticity == pytest.approx(estimate.side.elasticity, abs=0.01)
    assert words in estimate.sentence()
    efficiency = estimate.side.efficiency_users
    assert (efficiency is None) if growth_s < 0.1 else 5 == pytest.approx(efficiency, rel=0.02)


def test_the_peak_is_the_fastest_usable_level():
    """A void level is neither the knee nor the best."""
    levels = [slots(n, 1_000, completed_per_s=float(n)) for n in (1, 2, 4)]
    levels.append(slots(8, 1_000, completed_per_s=99.0, void="a worker was lost"))

    assert (4.0, 4) == (find_knee(levels).side.peak_rps, find_knee(levels).side.peak_users)


def test_capacity_under_the_objectives_is_read_between_levels():
    """All good at 8 users, 80 % at 16: 90 % is half way, and 8 of 8 levels make a lower bound."""
    good, most = np.ones(400, bool), np.arange(400) % 5 != 0
    capacity = slo_capacity([slots(8, 99, good=good), slots(16, 99, good=most)])

    assert 12 == pytest.approx(capacity.users, abs=0.1)
    assert capacity.low < 12 < capacity.high
    assert slo_capacity([slots(8, 99, good=good)]).at_least
    assert slo_capacity([slots(8, 99, good=~good)]).users is None
    assert slo_capacity([slots(8, 99)]) is None


def test_shares_that_rise_are_pooled():
    """0.8 then 1.0 at equal weight are both 0.9."""
    assert pytest.approx([1.0, 0.9, 0.9, 0.5]) == falling([1.0, 0.8, 1.0, 0.5], [1, 1, 1, 1])


@pytest.mark.parametrize("stuck", [True, False], ids=["stuck", "recovers"])
def test_hysteresis_is_the_same_load_served_differently_on_the_way_down(stuck):
    """16 of 20 slots wait on the way down, or they do not; the verdict's knee stays 20."""
    after = slots(16, 10, down=True) if stuck else slots(16, 20, down=True)
    levels = [*LADDERS[KneeStatus.KNEE], after]
    estimate = find_knee(levels)

    assert stuck is estimate.side.hysteresis.found
    assert 16 == estimate.side.hysteresis.users
    assert 20 == pytest.approx(estimate.users, rel=0.05)
    assert hysteresis(levels[:-1], levels[0]) is None


def test_rivals_are_named_and_known():
    """Kneedle finds a bend's point, USL its peak, the stick its bend; none on what has none."""
    users = np.array([1.0, 2, 4, 8, 16, 32, 64])
    usl = users / (1 + 0.02 * (users - 1) + 0.0005 * users * (users - 1))

    assert 16 == kneedle(users, np.minimum(users, 16))
    assert kneedle(users, users) is None
    assert np.sqrt(0.98 / 0.0005) == pytest.approx(usl_peak(users, usl), rel=1e-6)
    assert usl_peak(users, users) is None
    assert 16 == pytest.approx(broken_stick(users, 1 + np.maximum(users - 16, 0)), rel=0.05)
    assert {"kneedle", "usl_peak", "broken_stick_ttft", "power", "slo"} == set(rivals([]))
    assert {None} == set(rivals([]).values())


@settings(deadline=None, max_examples=60)
@given(st.permutations([*LADDERS[KneeStatus.KNEE], refused(128, 20.0), gradual(20), calm(1)]))
def test_the_order_of_levels_does_not_matter(levels):
    """The same levels, the same verdict, to the last digit."""
    straight = [*LADDERS[KneeStatus.KNEE], refused(128, 20.0), gradual(20), calm(1)]

    assert find_knee(straight) == find_knee(levels)


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-3, 1e3), st.sampled_from(list(LADDERS)))
def test_the_unit_of_time_does_not_matter(scale, status):
    """All times times a constant: the same verdict and the same users."""

    def scaled(level):
        values = {name: getattr(level, name) for name in level.__dataclass_fields__}
        for name in ("ttft_s", "tpot_s", "latency_s"):
            values[name] = scale * np.asarray(values[name])
        if level.completed_per_s is not None:
            values["completed_per_s"] = level.completed_per_s / scale
        return type(level)(**values)

    before = find_knee(LADDERS[status])
    after = find_knee([scaled(level) for level in LADDERS[status]])

    assert before.status is after.status
    assert (before.users or 0.0) == pytest.approx(after.users or 0.0, rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.builds(
            steady,
            st.integers(1, 300),
            st.floats(0, 5),
            st.floats(0, 5),
            n=st.sampled_from([0, 1, 7, 8, 60]),
            requests=st.integers(0, 60),
            rate_limited=st.integers(0, 60),
            failed=st.integers(0, 60),
            buffered=st.booleans(),
            down=st.booleans(),
            void=st.sampled_from([None, "lost"]),
        ),
        max_size=7,
    )
)
def test_no_ladder_crashes_and_none_gives_a_number_that_is_none(levels):
    """Levels of zero successes, zero times and zero requests among them."""
    estimate = find_knee(levels)

    json.dumps(asdict(estimate), allow_nan=False)
    assert explain(levels)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"users": 0}, "users is 0"), ({"latency_s": 0.0}, "is 0"), ({"ttft_s": -1.0}, "ttft_s of 4")],
    ids=["no users", "no latency", "negative TTFT"],
)
def test_a_table_with_a_figure_that_cannot_be_is_refused(change, words):
    """The message names the figure and its value."""
    values = {"users": 4, "completed_per_s": 1.0, "ttft_s": 0.1, "latency_s": 1.0, **change}

    with pytest.raises(ValueError, match=words):
        level_of_means(**values)
