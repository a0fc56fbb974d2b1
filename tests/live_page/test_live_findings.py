"""What is said against a run while it goes on: the report's rules, and none before its time."""

import pytest

from hooks.live.findings import live_findings
from metrics.outcome import Outcome
from tests.support.live_runs import HOLD, Played, live_state
from tests.support.records import failed_record, make_record


def rules(state, running=True, open_stage=0, lost=(), lost_in=None):
    """The rules that fired, with the stage."""
    found = live_findings(state, running, open_stage, lost, lost_in or {}, {})
    return {(finding.rule, finding.stage) for finding in found}


@pytest.fixture
def state(tmp_path):
    """A run in its first stage."""
    return live_state(tmp_path)


def add(state, count, make=make_record, **changes):
    """So many requests of the first stage."""
    for _ in range(count):
        state.book.add(make(**changes), [])


def test_a_young_run_has_nothing_against_it(state):
    """That nothing was asked yet, or that the plan is not through, is no fault while it runs."""
    assert set() == rules(state)
    add(state, 1)
    assert set() == rules(state)


def test_few_samples_are_told_when_the_stage_is_over(state):
    """While it is held more of them come."""
    add(state, 5)

    assert set() == rules(state, open_stage=0)
    assert {("too_few_samples", 0)} == rules(state, open_stage=1)


def test_failures_over_the_limit_are_told_at_once(state):
    """Of the level and of the run, as in the report."""
    add(state, 10)
    add(state, 5, failed_record)

    assert {("failures_over_limit", None), ("failures_over_limit", 0)} == rules(state)


def test_what_a_search_for_limits_looks_for_is_no_failure(state):
    """Its 429s are its result; other failures are failures."""
    state.settings.shape = "limits"
    add(state, 10)
    add(state, 5, lambda: failed_record(Outcome.RATE_LIMITED, 429, rate_limited_attempts=1))

    assert set() == rules(state)
    add(state, 5, failed_record)
    assert {("failures_over_limit", None), ("failures_over_limit", 0)} == rules(state)


def test_a_late_client_voids_its_stage(state):
    """Once enough of its lateness is known, and not for a single hiccup."""
    add(state, 10)
    lag = state.book.stage(0).health["loop_lag_s"]
    lag.add(0.2)
    assert set() == rules(state)
    for _ in range(300):
        lag.add(0.2)
    assert {("client_limited", 0)} == rules(state)


def test_a_lost_worker_is_told_of_the_run_and_its_stage(tmp_path):
    """Of the stage in which it went, also when it comes back in a later one."""
    played = Played(live_state(tmp_path, workers={"w1": "a", "w2": "b"}))
    played.enter(0, HOLD, 0.0)
    played.look(2.0, alive=("w1", "w2"))
    before = {finding.rule for finding in played.run.findings}
    played.look(4.0, alive=("w1",))
    gone = {(finding.rule, finding.stage) for finding in played.run.findings}

    assert "worker_lost" not in before
    assert {("worker_lost", None)} <= gone
    played.report("w1", [make_record(worker="w1")])
    played.enter(1, HOLD, 5.0)
    played.look(6.0, alive=("w1", "w2"))
    assert ("worker_lost", 0) in {(f.rule, f.stage) for f in played.run.findings}
    assert "w2" in played.line(0).remark


def test_what_a_search_set_aside_is_told_with_its_reason(state):
    """Unless a rule has told of the same stage already."""
    add(state, 1)
    state.plan.void_reasons = {0: "its users did not all run throughout"}
    (found,) = live_findings(state, True, 0, (), {}, {})

    assert "its users did not all run throughout" in found.sentence
    state.plan.not_reached = frozenset({0})
    assert {("users_not_reached", 0)} == rules(state)


def test_after_its_end_a_run_that_was_stopped_is_partial(state):
    """The report says the same."""
    add(state, 100)
    state.end_reason = "stopped"

    assert set() == rules(state, open_stage=None)
    assert {("partial", None)} == rules(state, running=False, open_stage=None)
