"""The checks after injected faults: each promise, broken in made-up evidence, is told."""

from dataclasses import replace

import pytest

from bench.faults.check import LOSES_AT_MOST_S, STOPS_WITHIN_S, check
from bench.faults.evidence import Asked, Deed, Evidence, WorkerEnd
from bench.faults.plan import MOST, SPAN_S, Injection, Kind, plan_faults

IDS = ("r-0-aa-0", "r-0-aa-1", "r-1-bb-0")


def worker(name, own, requests, **changes):
    """One that ended with its run."""
    values = {
        "code": 0,
        "output": "",
        "met_the_master": True,
        "killed": False,
        "stopped_s": None,
        "alone_s": None,
        "left_by_itself": True,
        "ids": (own,),
        "spooled": tuple((one, True) for one in requests),
    }
    return WorkerEnd(name=name, **{**values, **changes})


def deed(kind, name="w0", stage=1, lasts_s=None):
    """A fault in mid-run."""
    return Deed(Injection(kind, 7.0, 0.5, lasts_s), name, 107.0, stage, "measuring")


RUN = {"workers": [{"id": "0-aa"}, {"id": "1-bb"}], "end_reason": "finished"}

SOUND = Evidence(
    seed=1,
    deeds=(deed(Kind.BLINK, lasts_s=1.0),),
    asked=tuple(Asked(one, 100.0 + n, 100.5 + n) for n, one in enumerate(IDS)),
    workers=(worker("w0", "0-aa", IDS[:2]), worker("w1", "1-bb", IDS[2:])),
    master_code=0,
    master_killed=False,
    master_hung=False,
    master_output="",
    ids_before=IDS,
    ids_merged=IDS,
    merge_code=0,
    merge_output="",
    run=RUN,
    summary={"valid": True, "validity": []},
    merged={"totals": {"planned": 3}},
)


def without_last(**changes):
    """The last request of the first worker is in no spool."""
    ends = (worker("w0", "0-aa", IDS[:1], **changes), SOUND.workers[1])
    kept = (IDS[0], IDS[2])
    merged = {"totals": {"planned": 2}}
    return replace(SOUND, workers=ends, ids_before=kept, ids_merged=kept, merged=merged, deeds=())


def first(**changes):
    """The first worker ended in another way."""
    return replace(SOUND, workers=(worker("w0", "0-aa", IDS[:2], **changes), SOUND.workers[1]))


KILLED = {"killed": True, "code": -9}
FOUND = [{"rule": "worker_lost", "stage": 1}]
LOST = {"master_code": 4, "deeds": (deed(Kind.KILL),)}
BROKEN = {
    "a request in two spools": (
        replace(SOUND, workers=(SOUND.workers[0], worker("w1", "1-bb", (IDS[0], IDS[2])))),
        "is twice in the spools",
    ),
    "a request in no spool": (without_last(), "is in no spool, and its worker was not killed"),
    "too old a loss": (
        without_last(**KILLED, stopped_s=101.5 + LOSES_AT_MOST_S + 0.01),
        "s after its end, when its worker was killed",
    ),
    "a request of nobody": (replace(SOUND, asked=SOUND.asked[:2]), "never reached the server"),
    "asked twice": (replace(SOUND, asked=SOUND.asked + SOUND.asked[:1]), "the server was asked"),
    "twice in the report": (replace(SOUND, ids_merged=(*IDS, IDS[0])), "twice in the merged run"),
    "missing in the report": (replace(SOUND, ids_merged=IDS[:2]), "2 requests are in the merged"),
    "a wrong count": (replace(SOUND, merged={"totals": {"planned": 4}}), "the report counts 4"),
    "at the master alone": (replace(SOUND, ids_before=(*IDS, "r-0-aa-9")), "and in no spool"),
    "a refused merge": (replace(SOUND, merge_code=2), "the merge ended with 2"),
    "a master that hangs": (replace(SOUND, master_hung=True), "the master did not end"),
    "a code that lies": (replace(SOUND, master_code=4), "its report says otherwise"),
    "a code of no meaning": (replace(SOUND, master_code=-6), "the master ended with -6"),
    "no report": (replace(SOUND, summary={}), "left no report"),
    "a wrong reason": (replace(SOUND, run={**RUN, "end_reason": "interrupted"}), "says of its end"),
    "a traceback": (replace(SOUND, master_output="Traceback (most"), "printed a traceback"),
    "a worker that hangs": (first(left_by_itself=False, code=None), "w0 did not end"),
    "a worker's wrong code": (first(code=1), "w0 ended with 1"),
    "a silent worker's wrong code": (first(output="is taken for lost"), "w0 ended with 0"),
    "load without a master": (
        first(code=1, output="taken for lost", alone_s=101.0 - STOPS_WITHIN_S - 0.1),
        "after it had lost its master",
    ),
    "a stage that is not void": (
        replace(first(**KILLED), **LOST, summary={"valid": False, "validity": []}),
        "stage 1 (measuring) is not void although w0 suffered",
    ),
    "another stage that is void": (
        replace(
            first(**KILLED),
            **LOST,
            summary={"valid": False, "validity": [{"rule": "worker_lost", "stage": 0}]},
        ),
        "stage 1 (measuring) is not void",
    ),
    "a lost worker and 0": (
        replace(
            first(**KILLED),
            deeds=(deed(Kind.KILL),),
            summary={"valid": True, "validity": FOUND},
        ),
        "the master ended with 0 although",
    ),
}


@pytest.mark.parametrize(("seen", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_promise_is_told(seen, words):
    """Each alone, in words that say what is wrong."""
    (told,) = check(seen).breaches
    assert words in told


HELD = {
    "nothing happened": SOUND,
    "a killed worker": replace(
        first(**KILLED), **LOST, summary={"valid": False, "validity": FOUND}
    ),
    "a master killed": replace(
        first(code=1, output="taken for lost", alone_s=90.0),
        master_killed=True,
        master_code=-9,
        summary={},
        workers=(
            worker("w0", "0-aa", IDS[:2], code=1, output="taken for lost", alone_s=99.0),
            SOUND.workers[1],
        ),
    ),
    "one that came too late": replace(
        SOUND,
        workers=(*SOUND.workers, worker("w2", "", (), met_the_master=False, ids=(), code=None)),
    ),
    "a short pause": replace(SOUND, deeds=(deed(Kind.PAUSE, lasts_s=5.0),)),
}


@pytest.mark.parametrize("seen", HELD.values(), ids=HELD)
def test_what_is_as_promised_is_left_alone(seen):
    """No breach in a run that went as the faults allow."""
    assert () == check(seen).breaches


def test_what_a_worker_could_not_do_is_no_age():
    """Killed 5 s after the answer, 2 s after a pause, of which it waited 1.5 s for a core."""
    waits = ((99.0, 1.0), (104.0, 1.25), (105.0, 2.5), (106.4, 2.75), (107.0, 9.0))
    times = {"stopped_s": 106.5, "woken_s": 104.5, "waits": waits}
    (lost,) = check(without_last(**KILLED, **times)).lost

    assert 0.5 == lost.age_s


@pytest.mark.parametrize(
    ("stopped_s", "age_s"), [(101.2, None), (102.5, 1.0)], ids=["under way", "just answered"]
)
def test_what_a_kill_may_lose_is_counted_apart(stopped_s, age_s):
    """A request under way, and one that was answered less than 2 s before."""
    verdict = check(without_last(**KILLED, stopped_s=stopped_s))

    assert () == verdict.breaches
    assert (3, 2, 2) == (verdict.asked, verdict.spooled, verdict.merged)
    (lost,) = verdict.lost
    assert IDS[1] == lost.request_id
    assert age_s == lost.age_s


def test_faults_follow_from_the_seed():
    """The same seed, the same faults; over many seeds every kind, in time, never too many."""
    plans = [plan_faults(seed) for seed in range(200)]

    assert plans == [plan_faults(seed) for seed in range(200)]
    assert set(Kind) == {fault.kind for plan in plans for fault in plan}
    assert all(0 <= fault.at_s <= SPAN_S for plan in plans for fault in plan)
    assert {3} == {len(plan_faults(seed, 3)) for seed in range(20)}
    assert max(len(plan) for plan in plans) == MOST
    for plan in plans:
        assert Kind.KILL_MASTER not in [fault.kind for fault in plan[:-1]]
