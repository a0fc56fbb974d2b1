"""What an adaptive plan is told of its levels while they run."""

import pytest

from hooks.level_watch import LevelWatch
from hooks.stage_guard import FEWEST_SAMPLES, StageGuard
from metrics.outcome import Outcome
from metrics.stage import Phase, Stage
from metrics.tally import TallyBook
from tests.support.records import failed_record, make_record

LEVEL = Stage(3, "level", 2)


def mark(worker="local", at_s=10.0, stage=3, phase=Phase.HOLD):
    """A phase mark as it travels."""
    return {
        "worker": worker,
        "stage": stage,
        "kind": "level",
        "target_users": 2,
        "phase": phase.value,
        "at_s": at_s,
        "users": 2,
    }


def report(*records, marks=()):
    """A worker's report."""
    return {"rows": [record.to_row() for record in records], "marks": list(marks)}


def record(started_s, end_s=0.5, **changes):
    """A success of the level that began then and took so long."""
    latency = {"end_s": end_s, "last_token_s": end_s, "user_latency_s": end_s}
    values = {"stage": 3, "started_s": started_s, **latency, **changes}
    return make_record(**values)


def watching(*reports):
    """A watch that has been fed."""
    watch = LevelWatch(adaptive=True)
    for one in reports:
        watch.accept(one)
    return watch


def test_a_level_is_what_ended_in_its_hold():
    """Begun before and ended within counts; ended before does not, whatever its phase."""
    watch = watching(
        report(marks=[mark()]),
        report(record(9.0, phase=Phase.SETTLE), record(9.8, phase=Phase.SETTLE), record(10.1)),
    )

    level = watch.level(LEVEL, held_s=5.0)
    assert 2 == level.requests == len(level.ttft_s) == watch.progress(3).ok
    assert (2, 3, 5.0) == (level.users, level.stage, level.held_s)


def test_each_worker_has_its_own_clock():
    """The hold began at 10 s on one and at 1,000 s on the other."""
    watch = watching(
        report(record(10.2, worker="a"), record(8.0, worker="a"), marks=[mark("a")]),
        report(record(1000.2, worker="b"), record(999.0, worker="b"), marks=[mark("b", 1000.0)]),
    )

    assert 2 == watch.progress(3).ok


def test_warm_are_users_who_had_an_answer_at_this_level():
    """Two requests of one user are one user; another kind's user of that number is another."""
    watch = watching(
        report(
            record(1.0, user=0, phase=Phase.RAMP),
            record(2.0, user=0, phase=Phase.SETTLE),
            record(2.0, user=0, user_class="SdkChatUser"),
            record(2.0, user=1, stage=2),
        )
    )

    assert 2 == watch.progress(3).warm_users


def test_failures_and_refusals_are_counted_apart():
    """429s are what a limiter does; the others are failures."""
    refused = failed_record(Outcome.RATE_LIMITED, 429, stage=3, started_s=11.0)
    broken = failed_record(stage=3, started_s=11.0)
    watch = watching(report(record(11.0), refused, refused, broken, marks=[mark()]))

    level = watch.level(LEVEL, 5.0)
    assert (4, 2, 1) == (level.requests, level.rate_limited, level.failed)
    assert {"ok": 1, "rate_limited": 2, "server_error": 1} == dict(level.outcomes)
    assert 3 == watch.progress(3).failed


def test_who_was_left_or_never_asked_has_not_failed():
    """2 users left, one of them while it waited out a 429, and 1 request was never sent: of 4 that
    were asked to their end 1 failed. In the report it is the same."""
    left = failed_record(Outcome.CANCELLED, None, stage=3, started_s=11.0)
    left_refused = failed_record(Outcome.CANCELLED, 429, stage=3, started_s=11.0)
    unsent = failed_record(Outcome.NOT_SENT, None, stage=3, started_s=11.0)
    broken = failed_record(stage=3, started_s=11.0)
    answered = [record(11.0) for _ in range(3)]
    watch = watching(report(*answered, left, left_refused, unsent, broken, marks=[mark()]))

    level, progress = watch.level(LEVEL, 5.0), watch.progress(3)
    assert (4, 0, 1) == (level.requests, level.rate_limited, level.failed)
    assert (3, 1, 0, 7) == (progress.ok, progress.failed, progress.rate_limited, progress.ended)


def test_means_are_those_of_the_records():
    """TTFT, time per token and latency; a plain answer has its end as latency and no TTFT."""
    plain = record(12.0, 3.0, streamed=False, ttft_s=None, last_token_s=None)
    watch = watching(report(record(11.0), plain, marks=[mark()]))

    level = watch.level(LEVEL, 5.0)
    assert [0.1] == level.ttft_s
    assert pytest.approx([0.1]) == level.tpot_s
    assert [0.5, 3.0] == level.latency_s


def test_in_flight_at_a_refusal_is_over_the_whole_fleet():
    """Two workers' clocks are put together by the hold's beginning."""
    refused = failed_record(Outcome.RATE_LIMITED, 429, stage=3, started_s=11.0, worker="a")
    watch = watching(
        report(record(10.8, worker="a"), refused, record(15.0, worker="a"), marks=[mark("a")]),
        report(record(1000.9, worker="b"), marks=[mark("b", 1000.0)]),
    )

    assert [2] == watch.level(LEVEL, 5.0).in_flight_at_refusals


def test_only_the_last_levels_are_kept():
    """A search of hours holds no more than its newest levels; other runs hold nothing."""
    watch = LevelWatch(adaptive=True)
    fixed = LevelWatch()
    for stage in range(5):
        sent = report(record(11.0, stage=stage), marks=[mark(stage=stage)])
        watch.accept(sent)
        fixed.accept(sent)

    assert [0, 0, 0, 1, 1] == [watch.progress(stage).ok for stage in range(5)]
    assert [0] * 5 == [fixed.progress(stage).ok for stage in range(5)]


# --- what voids a level while it runs ---


def guarded(watch, workers=("a", "b")):
    """A guard in the hold of the level."""
    guard = StageGuard(watch)
    guard.enter(LEVEL, Phase.HOLD, frozenset(workers))
    return guard


def lagging(late_s, cpu=0.1, n=FEWEST_SAMPLES):
    """Tallies of a level whose event loop was so late."""
    book = TallyBook()
    health = book.stage(3).health
    for _ in range(n):
        health["loop_lag_s"].add(late_s)
        health["cpu_ratio"].add(cpu)
    return book


def test_a_lost_worker_voids_the_level():
    """Named, and only the level it was lost in."""
    watch = watching(report(record(11.0), marks=[mark()]))
    guarded(watch).check(frozenset({"a"}), TallyBook())

    assert "b was lost" in watch.level(LEVEL, 5.0).void
    assert watch.level(Stage(2, "level", 1), 5.0).void is None


def test_who_is_lost_in_the_pause_before_a_level_does_not_void_it():
    """The level is held by those that are there when its users come."""
    watch = watching(report(record(11.0), marks=[mark()]))
    guard = StageGuard(watch)
    guard.enter(LEVEL, Phase.IDLE, frozenset({"a", "b"}))
    guard.check(frozenset({"a"}), TallyBook())
    guard.enter(LEVEL, Phase.RAMP, frozenset({"a"}))
    guard.check(frozenset({"a"}), TallyBook())

    assert watch.level(LEVEL, 5.0).void is None


def test_a_lost_worker_spoils_the_level_and_a_busy_client_does_not():
    """Half a fleet's level tells nothing; a busy moment may yet be small in the whole window."""
    lost, busy = LevelWatch(adaptive=True), LevelWatch(adaptive=True)
    guarded(lost).check(frozenset({"a"}), TallyBook())
    guarded(busy).check(frozenset({"a", "b"}), lagging(0.2))

    assert lost.progress(3).spoilt
    assert not busy.progress(3).spoilt
    assert busy.level(LEVEL, 5.0).void


@pytest.mark.parametrize(
    ("book", "void"),
    [
        (lagging(0.2), True),
        (lagging(0.001, cpu=0.95), True),
        (lagging(0.001), False),
        (lagging(0.2, n=FEWEST_SAMPLES - 1), False),
    ],
    ids=["late loop", "full core", "well", "too early to tell"],
)
def test_M15_a_client_at_its_end_voids_the_level(book, void):
    """The search must not go on from figures that speak of the client."""
    watch = watching(report(record(11.0), marks=[mark()]))
    guarded(watch).check(frozenset({"a", "b"}), book)

    level = watch.level(LEVEL, 5.0)
    assert void is (level.void is not None) is level.client_limited
