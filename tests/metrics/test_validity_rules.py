"""Each rule of validity: facts that it finds fault with, and the nearest that it does not."""

import numpy as np
import pytest

from metrics.drift import find_drift
from metrics.littles_law import check_littles_law
from metrics.steady import halves_of_values, mser5
from metrics.validity import Severity, gravest_first, void_by, void_reason, void_stages
from metrics.validity_facts import LevelFacts, RunFacts
from metrics.validity_levels import LEVEL_RULES
from metrics.validity_runs import RUN_RULES, find_validity, rule_names

VOID, INVALID, ERROR, NOTICE = Severity.VOID, Severity.INVALID, Severity.ERROR, Severity.NOTICE


def level(**changes):
    """A level of 8 users that nothing speaks against."""
    values = {
        "stage": 0,
        "target_users": 8,
        "window_s": 60.0,
        "completed": 400,
        "finished": 400,
        "token_sources": {"server": 400},
        "streamed": 400,
        "output_n": 400,
        "output_tokens_mean": 100.0,
        "output_tokens_sd": 10.0,
    }
    return LevelFacts(**{**values, **changes})


def run(*levels, **changes):
    """A run of such levels, that nothing speaks against."""
    return RunFacts(**{"levels": levels or (level(),), "offered": 400, "ok": 400, **changes})


def found(facts):
    """Rule and severity of every finding."""
    return [(f.rule, f.severity) for f in find_validity(facts)]


def halves(second, n=400):
    """TTFT of 1 s in the first half and ``second`` in the other, varying by 5 %."""
    rng = np.random.default_rng(1)
    values = [*rng.normal(1, 0.05, n // 2), *rng.normal(second, 0.05, n // 2)]
    return {"TTFT": halves_of_values(values, cycle=8)}


def warm_up(share, excess=2.0):
    """A series whose first ``share`` is ``excess`` times the rest."""
    rng, n = np.random.default_rng(2), 400
    first = round(share * n)
    return mser5([*rng.normal(excess, 0.02, first), *rng.normal(1, 0.02, n - first)])


def drift(change, n=40):
    """A p99 that changes so over ``n`` windows."""
    noise = np.random.default_rng(3).normal(0, 0.004, n)
    return {"TTFT p99": find_drift(np.arange(n) * 20.0, np.linspace(1, 1 + change, n) + noise)}


def law(found_users, window_s=60.0):
    """8 users wanted and so many found, in cycles of 1 s."""
    return check_littles_law(8, found_users, 1.0, window_s, False)


AT_LEVEL = {
    "a worker's core is full": ({"client_limit": "95%"}, ("client_limited", VOID), {}),
    "a worker lost in it": (
        {"lost_workers": ("w-1",)},
        ("worker_lost", VOID),
        {"lost_workers": ()},
    ),
    "no descriptor": ({"without_descriptor": 1}, ("client_limited", VOID), {}),
    "users missing": ({"reached": False}, ("users_not_reached", VOID), {}),
    "users idle": ({"law": law(7.5)}, ("littles_law", VOID), {"law": law(7.7)}),
    "users idle, 12 s": (
        {"law": law(5.0, 12), "window_s": 12.0},
        ("littles_law", NOTICE),
        {"law": law(5.0), "kind": "rate"},
    ),
    "users idle, few requests": (
        {"law": law(5.0), "finished": 59},
        ("littles_law", NOTICE),
        {"law": law(7.9), "finished": 59},
    ),
    "halves differ": ({"halves": halves(1.4)}, ("not_steady", VOID), {"halves": halves(1.1)}),
    "halves of 29 s differ": (
        {"halves": halves(1.4), "window_s": 29.0},
        ("not_steady", NOTICE),
        {"halves": halves(1.4), "kind": "after"},
    ),
    "warm-up of 30 %": (
        {"mser": warm_up(0.3)},
        ("warm_up_too_long", VOID),
        {"mser": warm_up(0.2)},
    ),
    "warm-up of 30 % in 12 s": (
        {"mser": warm_up(0.3), "window_s": 12.0},
        ("warm_up_too_long", NOTICE),
        {"mser": warm_up(0.3, excess=1.1)},
    ),
    "drift of 30 %": ({"drift": drift(0.3)}, ("drift", VOID), {"drift": drift(0.03)}),
    "drift of 10 %": ({"drift": drift(0.1)}, ("drift", NOTICE), {"drift": drift(0.3, n=29)}),
    "drift of a soak": ({"drift": drift(0.3), "kind": "soak"}, ("drift", NOTICE), {}),
    "2 % failed": ({"failed": 8}, ("failures_over_limit", NOTICE), {"failed": 4}),
    "71 successes": ({"completed": 71}, ("too_few_samples", NOTICE), {"completed": 72}),
    "5 % counted": (
        {"token_sources": {"server": 380, "unknown": 20}},
        ("token_source_mixed", NOTICE),
        {"token_sources": {"server": 397, "unknown": 3}},
    ),
    "6 % buffered": ({"buffered": 24}, ("buffered_stream", NOTICE), {"buffered": 20}),
    "churned": ({"churned": "200 for 400 requests"}, ("connections_churned", NOTICE), {}),
}

OF_RUN = {
    "no request": (
        {"offered": 0, "ok": 0, "levels": ()},
        ("nothing_requested", ERROR),
        {"offered": 1, "ok": 1},
    ),
    "no success": (
        {"ok": 0, "failed": 400, "levels": ()},
        ("nothing_succeeded", ERROR),
        {"ok": 360, "failed": 40},
    ),
    "over a tenth failed": (
        {"ok": 359, "failed": 41},
        ("failures_over_limit", ERROR),
        {"ok": 359, "failed": 41, "max_fail_ratio": 0.5},
    ),
    "stopped": ({"complete": False}, ("partial", INVALID), {}),
    "a quota used up": (
        {"ended_by": "quota", "ended_early": "10 answers in a row"},
        ("quota_used_up", ERROR),
        {},
    ),
    "a budget spent": (
        {"ended_by": "budget", "ended_early": "stopped for the budget of $1"},
        ("budget_spent", NOTICE),
        {},
    ),
    "a full disk": (
        {"ended_by": "disk", "ended_early": "records can be kept no longer"},
        ("disk_full", INVALID),
        {},
    ),
    "a worker lost": ({"lost_workers": ("w-1",)}, ("worker_lost", INVALID), {}),
    "nothing held": ({"levels": ()}, ("nothing_held", INVALID), {}),
    "unaccounted": ({"unaccounted": 2}, ("accounts", INVALID), {}),
    "no tallies": ({"tallies_missing": True}, ("accounts", INVALID), {}),
    "tallies of another count": ({"tallied": 399}, ("accounts", INVALID), {}),
    "a clock set": ({"clock_steps_s": {"w-1": -2.0}}, ("clock_stepped", NOTICE), {}),
}


@pytest.mark.parametrize(("wrong", "expected", "right"), AT_LEVEL.values(), ids=AT_LEVEL)
def test_a_rule_of_levels_fires_and_does_not(wrong, expected, right):
    """One finding, of that rule and severity; the nearest facts that are in order have none."""
    assert [expected] == found(run(level(**wrong)))
    assert [] == found(run(level(**right)))


@pytest.mark.parametrize(("wrong", "expected", "right"), OF_RUN.values(), ids=OF_RUN)
def test_a_rule_of_runs_fires_and_does_not(wrong, expected, right):
    """One finding, of that rule and severity; the nearest facts that are in order have none."""
    assert [expected] == found(run(**wrong))
    assert [] == found(run(**right))


@pytest.mark.parametrize(
    ("cached", "planned", "n", "fires"),
    [(96, 0.2, 1, True), (50, 0.2, 1, False), (800, 0.8, 1, False), (950, 0.8, 1, True)],
    ids=["96 of 100, 20 planned", "prefix and template", "as planned", "warm"],
)
def test_X02_a_cached_share_above_the_plan_is_told(cached, planned, n, fires):
    """The plan, the chat template's 32 tokens and 5 points may be cached, and no more."""
    prompt = 100 if planned < 0.5 else 1000
    facts = run(
        prompt_tokens=prompt, cached_tokens=cached, cached_n=n, planned_cached_ratio=planned
    )

    assert fires == (("cached_share_above_plan", NOTICE) in found(facts))


@pytest.mark.parametrize(
    ("mean", "sd", "n", "fires"),
    [
        (80.0, 10.0, 400, True),
        (92.0, 10.0, 400, False),
        (80.0, 200.0, 400, False),
        (80, 1, 19, False),
    ],
    ids=["a fifth shorter", "within 5 %", "within chance", "too few"],
)
def test_levels_of_other_output_lengths_are_told(mean, sd, n, fires):
    """100 tokens in one level and others in the next: X in requests/s is not comparable then."""
    other = level(stage=1, output_tokens_mean=mean, output_tokens_sd=sd, output_n=n)

    rules = found(run(level(), other))

    assert fires == (("unequal_output_lengths", NOTICE) in rules)


def test_failures_silence_littles_law_because_users_pause_after_them():
    """2 % failed and 5 of 8 users found: the failures are told, no void."""
    assert [("failures_over_limit", NOTICE)] == found(run(level(law=law(5.0), failed=8)))


def test_lumps_are_no_proxys_fault_where_the_client_was_the_limit():
    """Half of the streams came in one lump and the core was full: no word of buffering."""
    assert [("client_limited", VOID)] == found(run(level(buffered=200, client_limit="95%")))


def test_a_lost_worker_voids_its_own_level_and_no_other():
    """Worker w-1 was lost in stage 2: that level's reason names it, stage 1 stays in use."""
    findings = find_validity(run(level(), level(stage=1, lost_workers=("w-1",))))

    assert "worker-lost: worker w-1 lost while it ran" == void_reason(findings, 1)
    assert frozenset({1}) == void_stages(findings)
    assert not void_by("client_limited", findings, 1)


ADVICE = {
    "ladder": "(--hold)",
    "open-loop": "(--hold)",
    "constant": "(-t)",
    "soak": "(-t)",
    "spike": "--spike-hold",
    "knee": "--shape constant -u 8",
}


@pytest.mark.parametrize(("shape", "option"), ADVICE.items())
def test_few_samples_are_met_with_an_option_of_the_shape(shape, option):
    """Each shape's own option makes its windows longer; a search has none, and is told so."""
    (finding,) = find_validity(run(level(completed=60, shape=shape)))

    assert option in finding.advice
    assert (shape == "knee") is ("enough for the knee" in finding.advice)


def test_a_search_is_not_told_to_hold_an_unsteady_level_longer():
    """It has no --hold: settle longer, or search again."""
    (searched,) = find_validity(run(level(halves=halves(1.4), shape="knee")))
    (held,) = find_validity(run(level(halves=halves(1.4))))

    assert "--hold" not in searched.advice
    assert "--hold" in held.advice


def test_only_a_void_finding_voids_its_level():
    """Stage 2 is void for its reason; stage 1, which drifted a little, is not; nor is the run."""
    findings = find_validity(
        run(level(drift=drift(0.1)), level(stage=1, client_limit="a worker used 95% of its core"))
    )

    assert frozenset({1}) == void_stages(findings)
    assert "client-limited: a worker used 95% of its core" == void_reason(findings, 1)
    assert void_reason(findings, 0) is None
    assert void_reason(findings, None) is None


def test_steps_of_a_search_for_limits_are_not_held_against_what_a_level_is():
    """Few samples, lumps, mixed counts and a drift: told of a level, nothing to a step."""
    wrong = {
        "kind": "rate",
        "completed": 10,
        "buffered": 200,
        "token_sources": {"server": 200, "chunks": 200},
        "drift": drift(0.5),
        "churned": "60 for 100 requests",
    }

    assert 5 == len(found(run(level(**wrong))))
    assert [] == found(run(level(**wrong, shape="limits")))


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"client_limit": "arrivals were sent 80 ms late"}, ("client_limited", VOID)),
        ({"without_descriptor": 1}, ("client_limited", VOID)),
        ({"reached": False}, ("users_not_reached", VOID)),
        ({"lost_workers": ("w-1",)}, ("worker_lost", VOID)),
        ({"failed": 8}, ("failures_over_limit", NOTICE)),
    ],
    ids=["late", "no descriptor", "users missing", "a worker lost", "other failures"],
)
def test_what_spoils_the_rate_of_a_search_is_told(wrong, rule):
    """A step whose rate was not offered shows no limit; other failures are told without a knee."""
    (finding,) = find_validity(run(level(kind="rate", shape="limits", **wrong)))

    assert rule == (finding.rule, finding.severity)
    assert "knee" not in finding.advice


def test_the_gravest_comes_first():
    """Error, void, invalid, notice, whatever order the rules have."""
    findings = find_validity(
        run(
            level(completed=3, reached=False),
            complete=False,
            ok=100,
            failed=300,
            clock_steps_s={"w": 1.0},
        )
    )

    severities = [finding.severity for finding in findings]
    assert sorted(severities, key=list(Severity).index) == severities
    assert set(Severity) == set(severities)
    assert findings == gravest_first(tuple(reversed(findings))) or len(findings) > len(Severity)


def test_every_finding_says_what_was_seen_and_what_is_allowed():
    """Evidence and threshold are never empty, and a level's sentence names the level from 1."""
    cases = [run(level(stage=4, **case[0])) for case in AT_LEVEL.values()]
    cases += [run(**case[0]) for case in OF_RUN.values()]
    findings = [finding for facts in cases for finding in find_validity(facts)]

    assert all(finding.evidence and finding.threshold for finding in findings)
    of_levels = [f for f in findings if f.stage is not None]
    assert all(f.sentence.startswith("stage 5") and f.advice in f.sentence for f in of_levels)


def test_every_rule_is_shown_to_fire():
    """Each rule's name is among those that the tables above make fire."""
    fired = {case[1][0] for case in (*AT_LEVEL.values(), *OF_RUN.values())}

    assert set(rule_names()) - {"cached_share_above_plan", "unequal_output_lengths"} == fired
    assert len(LEVEL_RULES) + len(RUN_RULES) == len({*LEVEL_RULES, *RUN_RULES})


def test_M05_a_level_and_a_run_of_nothing_divide_by_nothing():
    """No request at all: one error and no exception; a level that was never held is not few."""
    empty = LevelFacts(stage=0, target_users=0, held=False)

    assert [("nothing_requested", ERROR)] == found(RunFacts(levels=(empty,)))
