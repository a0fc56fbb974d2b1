"""What must hold after any faults; pure, so that it can be shown broken evidence."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.faults.evidence import Asked, Deed, Evidence, WorkerEnd
from bench.faults.plan import NOTICED_S, PAUSES, Kind

LOSES_AT_MOST_S = 2.0
STOPS_WITHIN_S = 12.0
"""5 s of silence, awake; the rest is for a busy machine, on which a worker is not always awake."""
_ENDS_A_WORKER = frozenset({Kind.KILL, Kind.TERMINATE, Kind.CUT_OFF})
_RENDERED = (0, 3, 4)
_ENDS = ("finished", "no worker was left")
_VOIDED_BY = frozenset({"worker_lost", "users_not_reached"})


@dataclass(frozen=True, slots=True)
class Lost:
    """A request that only the server knows of. ``age_s`` is for how long its worker could have
    written it down before it was killed, neither paused nor waiting for a core; None when the
    request was under way then."""

    request_id: str
    age_s: float | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run showed. ``loads_on_s`` is the longest that a worker without a master went on to
    send requests; None when no worker was left without one."""

    breaches: tuple[str, ...]
    asked: int
    spooled: int
    merged: int
    lost: tuple[Lost, ...]
    loads_on_s: float | None


def check(seen: Evidence) -> Verdict:
    """Hold a run against the server's log."""
    lost = tuple(_lost(seen))
    breaches = [
        *_spools(seen),
        *_losses(seen, lost),
        *_merge(seen),
        *_master(seen),
        *_workers(seen),
        *_stages(seen),
    ]
    loads_on_s = [found for worker in seen.workers if (found := _loads_on_s(seen, worker))]
    return Verdict(
        breaches=tuple(breaches),
        asked=len(seen.asked),
        spooled=sum(len(worker.spooled) for worker in seen.workers),
        merged=len(seen.ids_merged),
        lost=lost,
        loads_on_s=max(loads_on_s, default=None),
    )


def _twice(ids: Iterable[str]) -> list[str]:
    return sorted(name for name, times in Counter(ids).items() if times > 1)


def _spooled(seen: Evidence) -> list[str]:
    return [name for worker in seen.workers for name, _ in worker.spooled]


def _spools(seen: Evidence) -> Iterator[str]:
    for name in _twice(_spooled(seen)):
        yield f"request {name} is twice in the spools"
    for name in _twice(one.request_id for one in seen.asked):
        yield f"the server was asked twice for {name}"
    sent = {name for worker in seen.workers for name, was_sent in worker.spooled if was_sent}
    for name in sorted(sent - {one.request_id for one in seen.asked}):
        yield f"request {name} is in a spool and never reached the server"


def _worker_of(seen: Evidence, request_id: str) -> WorkerEnd | None:
    for worker in seen.workers:
        if any(f"-{own}-" in request_id for own in worker.ids):
            return worker
    return None


def _lost(seen: Evidence) -> Iterator[Lost]:
    kept = set(_spooled(seen))
    for one in seen.asked:
        worker = _worker_of(seen, one.request_id)
        if one.request_id not in kept and worker is not None and worker.stopped_s is not None:
            yield Lost(one.request_id, _age_s(worker, one.ended_s, worker.stopped_s))


def _age_s(worker: WorkerEnd, ended_s: float, stopped_s: float) -> float | None:
    if ended_s > stopped_s:
        return None
    since_s = max(ended_s, worker.woken_s)
    before = [waited_s for at_s, waited_s in worker.waits if at_s <= since_s]
    until = [waited_s for at_s, waited_s in worker.waits if at_s <= stopped_s]
    waited_s = until[-1] - before[-1] if before else 0.0
    return max(0.0, stopped_s - since_s - waited_s)


def _losses(seen: Evidence, lost: Iterable[Lost]) -> Iterator[str]:
    excused = {one.request_id for one in lost}
    missing = {one.request_id for one in seen.asked} - set(_spooled(seen))
    for name in sorted(missing - excused):
        yield f"request {name} is in no spool, and its worker was not killed"
    for one in lost:
        if one.age_s is not None and one.age_s > LOSES_AT_MOST_S:
            yield (
                f"request {one.request_id} is in no spool, {one.age_s:.2f} s after its end, when "
                "its worker was killed"
            )


def _merge(seen: Evidence) -> Iterator[str]:
    spooled = set(_spooled(seen))
    if seen.merge_code not in _RENDERED:
        yield f"the merge ended with {seen.merge_code}: {seen.merge_output[-300:]}"
    for what, ids in (("the run", seen.ids_before), ("the merged run", seen.ids_merged)):
        for name in _twice(ids):
            yield f"request {name} is twice in {what}"
    for name in sorted(set(seen.ids_before) - spooled):
        yield f"request {name} is at the master and in no spool"
    if set(seen.ids_merged) != spooled:
        yield f"{len(seen.ids_merged)} requests are in the merged run, {len(spooled)} in the spools"
    counted = (seen.merged.get("totals") or {}).get("planned")
    if counted != len(spooled):
        yield f"the report counts {counted} requests, {len(spooled)} are in the spools"


def _master(seen: Evidence) -> Iterator[str]:
    if seen.master_hung:
        yield "the master did not end"
    if seen.master_killed:
        return
    if "Traceback" in seen.master_output:
        yield "the master printed a traceback"
    if not seen.summary:
        yield f"the master left no report and ended with {seen.master_code}"
        return
    if seen.run.get("end_reason") not in _ENDS:
        yield f"the run says of its end: {seen.run.get('end_reason')}"
    noticed = [deed for deed in seen.deeds if _is_noticed(deed)]
    if seen.master_code not in (0, 4):
        yield f"the master ended with {seen.master_code}"
    elif (seen.master_code == 0) != bool(seen.summary["valid"]):
        yield f"the master ended with {seen.master_code}, its report says otherwise"
    if seen.master_code == 0 and [*_taking_part(seen, noticed)]:
        yield "the master ended with 0 although a worker was lost"


def _workers(seen: Evidence) -> Iterator[str]:
    for worker in seen.workers:
        if not worker.met_the_master or worker.killed:
            continue
        lost_it = "taken for lost" in worker.output
        told_to_go = any(
            deed.worker == worker.name and deed.injection.kind is Kind.TERMINATE
            for deed in seen.deeds
        )
        if not worker.left_by_itself:
            yield f"{worker.name} did not end"
        elif not (worker.code == int(lost_it) or (told_to_go and not worker.spooled)):
            yield f"{worker.name} ended with {worker.code}"
        if "Traceback" in worker.output:
            yield f"{worker.name} printed a traceback"
        on_s = _loads_on_s(seen, worker)
        if on_s is not None and on_s > STOPS_WITHIN_S:
            yield f"{worker.name} sent requests {on_s:.1f} s after it had lost its master"


def _loads_on_s(seen: Evidence, worker: WorkerEnd) -> float | None:
    if worker.alone_s is None or worker.killed:
        return None
    own = [one for one in seen.asked if _is_of(one, worker)]
    return max((one.received_s - worker.alone_s for one in own), default=None)


def _is_of(one: Asked, worker: WorkerEnd) -> bool:
    return any(f"-{own}-" in one.request_id for own in worker.ids)


def _is_noticed(deed: Deed) -> bool:
    """Whether the master must miss the worker for it."""
    kind, lasts_s = deed.injection.kind, deed.injection.lasts_s
    if kind in _ENDS_A_WORKER:
        return True
    return kind in PAUSES | {Kind.LONG_CUT} and lasts_s is not None and lasts_s >= NOTICED_S


def _taking_part(seen: Evidence, deeds: Iterable[Deed]) -> Iterator[Deed]:
    """Of these, what was done to a worker in a stage that it was part of."""
    known = {str(worker["id"]) for worker in seen.run.get("workers") or ()}
    ids = {worker.name: worker.ids for worker in seen.workers}
    for deed in deeds:
        if deed.stage is None or deed.worker is None or not known & set(ids[deed.worker]):
            continue
        before = seen.deeds[: seen.deeds.index(deed)]
        if any(one.worker == deed.worker and _may_be_away(one) for one in before):
            continue
        yield deed


def _may_be_away(deed: Deed) -> bool:
    lasting = PAUSES | {Kind.CUT, Kind.LONG_CUT}
    return deed.injection.kind in _ENDS_A_WORKER | lasting


def _stages(seen: Evidence) -> Iterator[str]:
    if seen.master_killed or not seen.summary:
        return
    void = {
        finding.get("stage")
        for finding in seen.summary["validity"]
        if finding["rule"] in _VOIDED_BY
    }
    for deed in _taking_part(seen, filter(_is_noticed, seen.deeds)):
        if deed.stage not in void:
            yield (
                f"stage {deed.stage} ({deed.phase}) is not void although {deed.worker} "
                f"suffered: {deed.injection.kind.value}"
            )
