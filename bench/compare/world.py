"""A run of a simulated server in simulated time, as it would lie on disk."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from metrics.knee import verdict
from metrics.knee_assess import assess
from metrics.outcome import Outcome, TokenSource
from metrics.record import RequestRecord
from metrics.run_files import RUN_SCHEMA
from metrics.stage import Phase, PhaseMark, Stage
from metrics.tally import TallyBook
from reports.comparison.sides import Side, with_report
from reports.load import SavedRun, frame_of
from reports.model import RunReport
from reports.stages import stage_rows
from simulator.closed_loop import ClientRequest, ClosedLoop, Level, RequestOutcome
from simulator.profile import Profile
from simulator.workload import Workload

WORKER = "sim"
SETTLE_S = 5.0
_DRAIN_S = 120.0
_MANY = 10**9
_OUTCOMES = {
    RequestOutcome.OK: (Outcome.OK, 200),
    RequestOutcome.RATE_LIMITED: (Outcome.RATE_LIMITED, 429),
    RequestOutcome.QUEUE_FULL: (Outcome.OVERLOADED, 503),
}


def simulated_run(
    profile: Profile, workload: Workload, seed: int, users: Sequence[int], hold_s: float
) -> SavedRun:
    """One level after the other, each held for so long, from an idle server on."""
    loop = ClosedLoop(profile, workload, seed)
    now_s, marks, requests = 0.0, [], []
    for number, count in enumerate(users):
        stage = Stage(number, "level", count)
        for phase, length_s in ((Phase.SETTLE, SETTLE_S), (Phase.HOLD, hold_s)):
            marks.append(PhaseMark(WORKER, stage, phase, now_s, count))
            result = loop.run_level(Level(count, _MANY, longest_s=length_s))
            requests += result.requests
            now_s = result.ended_s
    marks.append(PhaseMark(WORKER, Stage(len(users), "drain", 0), Phase.DRAIN, now_s, 0))
    requests += loop.run_level(Level(0, _MANY, longest_s=_DRAIN_S)).requests
    requests.sort(key=lambda request: request.sent_s)
    records = [_record(n, request, marks, workload) for n, request in enumerate(requests)]
    return SavedRun(
        folder=Path(f"simulated/{profile.name}-{seed}"),
        meta=_meta(seed, profile, users),
        records=frame_of(records),
        marks=tuple(marks),
        book=_book(records),
        not_reached=frozenset(),
        notes=(),
    )


def _book(records: Sequence[RequestRecord]) -> TallyBook:
    book = TallyBook()
    for record in records:
        book.add(record, ())
    return book


def plain_side(label: str, run: SavedRun) -> Side:
    """The run with its stages alone: no knee, no costs, no rules of validity.

    They are most of an analysis' time, and no figure that is compared here depends on them.
    """
    report = SimpleNamespace(
        stages=stage_rows(run), validity=(), knee=_NO_KNEE, cost=None, valid=True, started_at=""
    )
    return with_report(label, run, cast(RunReport, report))


_NO_KNEE = verdict(assess([]))


def _meta(seed: int, profile: Profile, users: Sequence[int]) -> dict[str, object]:
    return {
        "schema": RUN_SCHEMA,
        "run_id": f"{profile.name}-{seed}",
        "name": "simulated",
        "started_at": "2026-01-02T03:04:05.000+00:00",
        "ended_at": "2026-01-02T04:04:05.000+00:00",
        "complete": True,
        "end_reason": "finished",
        "url": "http://127.0.0.1/v1/chat/completions",
        "model": "simulated-model",
        "settings": {"stages": ",".join(map(str, users))},
        "shape": "ladder",
        "salt": str(seed),
        "seed": None,
        "workers": [{"id": WORKER, "index": 0, "host": "h", "lost": False}],
        "stage_plan": [
            {"stage": n, "kind": "level", "target_users": count} for n, count in enumerate(users)
        ],
    }


def _record(
    number: int, request: ClientRequest, marks: Sequence[PhaseMark], workload: Workload
) -> RequestRecord:
    mark = [mark for mark in marks if mark.at_s <= request.sent_s][-1]
    outcome, status = _OUTCOMES[request.outcome]
    ok = outcome is Outcome.OK
    return RequestRecord(
        run_id="simulated",
        worker=WORKER,
        user=request.user,
        sequence=number,
        stage=mark.stage.id,
        phase=mark.phase,
        user_class="StreamingChatUser",
        traffic_class="interactive",
        prompt_id=str(number),
        prefix_id=None,
        started_at="2026-01-02T03:04:05.000000+00:00",
        started_s=request.sent_s,
        ttft_s=request.ttft_s if ok else None,
        ttfa_s=request.ttft_s if ok else None,
        last_token_s=request.latency_s if ok else None,
        end_s=request.latency_s,
        user_ttft_s=request.ttft_s if ok else None,
        user_latency_s=request.latency_s,
        think_s=workload.think_s,
        streamed=ok,
        stream_asked=True,
        chunks=request.tokens,
        saw_done=ok,
        finish_reason="stop" if ok else None,
        prompt_tokens=request.prompt_tokens if ok else None,
        completion_tokens=request.tokens if ok else None,
        token_source=TokenSource.SERVER if ok else TokenSource.UNKNOWN,
        outcome=outcome,
        status=status,
        rate_limited_attempts=int(outcome is Outcome.RATE_LIMITED),
    )
