"""A made-up run of any size: a closed loop on an endpoint with slots, written by the suite itself.

Eight levels, from a quarter of the endpoint's slots to three times as many users, on four workers.
Rows and tallies go through the workers' recorder and the master's folder, as in a real run.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hooks.recorder import Recorder
from hooks.run_folder import RunFolder, create_run_folder
from metrics.outcome import Outcome, StampSource, TokenSource
from metrics.record import RequestRecord
from metrics.run_files import RUN_SCHEMA
from metrics.stage import Phase, PhaseMark, Stage
from metrics.tally import TallyBook

LOADS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
"""Users of each level, as a share of the slots."""
WORKERS = tuple(f"{number}-{number:08x}" for number in range(4))
CYCLE_S = 2.0
SETTLE_S = 2.0
THROUGH_SLOTS = sum(min(1.0, load) for load in LOADS)
LOST_SHARE = 0.02
RETRIED_SHARE = 0.02
GAPS = 63
AT_ONCE = 20_000
"""Records that are handed on together."""
BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_LOST = (
    (Outcome.RATE_LIMITED, 429),
    (Outcome.SERVER_ERROR, 500),
    (Outcome.OVERLOADED, 503),
    (Outcome.TOTAL_TIMEOUT, None),
    (Outcome.CANCELLED, 200),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many requests, and the slots and the length of a level that go with them."""

    requests: int

    @property
    def slots(self) -> int:
        """More requests are of a larger endpoint and of a longer run."""
        return max(8, round(math.sqrt(self.requests) / 2))

    @property
    def hold_s(self) -> float:
        """Seconds of each level, in which all requests of the run find their place."""
        return 1.02 * self.requests * CYCLE_S / (THROUGH_SLOTS * self.slots)


def make_run(runs_dir: Path, requests: int) -> Path:
    """A run that has just ended and was never rendered: its folder.

    Raises:
        OSError: it cannot be written.
    """
    size, rng = Size(requests), np.random.default_rng(7)
    stages = [Stage(n, "level", max(1, round(size.slots * load))) for n, load in enumerate(LOADS)]
    folder = create_run_folder(runs_dir, BEGAN, f"made-up-{requests}")
    recorders = {worker: Recorder(None) for worker in WORKERS}
    book, marks = TallyBook(), list(_marks(stages, size.hold_s))
    _add_health(recorders, stages, rng)
    gaps = [np.abs(rng.normal(0.028, 0.004, GAPS)).tolist() for _ in range(20)]
    waiting = 0
    for number, record in enumerate(_records(size, stages, rng)):
        recorders[record.worker].add(record, gaps[number % len(gaps)] if record.chunks else [])
        waiting += 1
        if waiting == AT_ONCE:
            _hand_on(recorders, folder, book)
            waiting = 0
    _hand_on(recorders, folder, book)
    folder.write_stages([wire for _, wire in marks], book, ())
    folder.write_run(_meta(folder.path.name, stages, size.hold_s))
    folder.close()
    return folder.path


def _hand_on(recorders: dict[str, Recorder], folder: RunFolder, book: TallyBook) -> None:
    for recorder in recorders.values():
        report = recorder.take()
        folder.append(report["rows"])
        book.merge(TallyBook.from_wire(report["tallies"]))


def _marks(stages: list[Stage], hold_s: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each worker's phases, as it tells them."""
    for worker in WORKERS:
        teller = Recorder(None)
        for stage in stages:
            begin_s = stage.id * (SETTLE_S + hold_s)
            for phase, at_s in ((Phase.SETTLE, begin_s), (Phase.HOLD, begin_s + SETTLE_S)):
                teller.mark(PhaseMark(worker, stage, phase, at_s, stage.target_users))
        end_s = len(stages) * (SETTLE_S + hold_s)
        teller.mark(PhaseMark(worker, Stage(len(stages), "drain", 0), Phase.DRAIN, end_s, 0))
        yield from ((worker, wire) for wire in teller.take()["marks"])


def _add_health(
    recorders: dict[str, Recorder], stages: list[Stage], rng: np.random.Generator
) -> None:
    for recorder in recorders.values():
        for stage in stages:
            for late_s in rng.exponential(5e-4, 200):
                recorder.add_health(stage, Phase.HOLD, "loop_lag_s", float(late_s))
            recorder.add_health(stage, Phase.HOLD, "cpu_ratio", 0.4)
            recorder.add_health(stage, Phase.HOLD, "gc_pause_s", 1e-3)


def _records(size: Size, stages: list[Stage], rng: np.random.Generator) -> Iterator[RequestRecord]:
    """In the order of their start, each worker's users in turn, until there are enough."""
    left, sequences = size.requests, dict.fromkeys(WORKERS, 0)
    for stage in stages:
        begin_s = stage.id * (SETTLE_S + size.hold_s)
        user, start_s, wait_s, ttft_s, last_s = _cycles(stage, size, rng)
        order = np.argsort(start_s, kind="stable")[: left if left > 0 else 0]
        left -= len(order)
        for at in order.tolist():
            worker = WORKERS[int(user[at]) % len(WORKERS)]
            phase = Phase.HOLD if start_s[at] >= SETTLE_S else Phase.SETTLE
            yield _record(
                worker,
                sequences[worker],
                stage,
                phase,
                int(user[at]),
                (begin_s + float(start_s[at]), float(wait_s[at])),
                (float(ttft_s[at]), float(last_s[at])),
                rng.random(3).tolist(),
            )
            sequences[worker] += 1


def _cycles(
    stage: Stage, size: Size, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], ...]:
    """User, start after the stage's begin, wait for a retry, TTFT and last token of each request.

    Users beyond the slots wait for their first token, so that as many answers come as slots carry.
    """
    users, length_s = stage.target_users, SETTLE_S + size.hold_s
    queue_s = CYCLE_S * max(0.0, users / size.slots - 1)
    each = int(1.2 * length_s / (CYCLE_S + queue_s)) + 2
    ttft_s = (
        0.06 + queue_s * rng.uniform(0.9, 1.1, (users, each)) + rng.gamma(2, 0.01, (users, each))
    )
    last_s = ttft_s + rng.normal(CYCLE_S - 0.1, 0.1, (users, each))
    wait_s = np.where(rng.random((users, each)) < RETRIED_SHARE, 0.25, 0.0)
    cycles_s = wait_s + last_s + 0.02
    start_s = np.cumsum(cycles_s, axis=1) - cycles_s + rng.uniform(0, 1, (users, 1))
    inside = start_s < length_s
    user = np.repeat(np.arange(users, dtype=np.float64)[:, None], each, axis=1)
    return tuple(values[inside] for values in (user, start_s, wait_s, ttft_s, last_s))


def _record(
    worker: str,
    sequence: int,
    stage: Stage,
    phase: Phase,
    user: int,
    times_s: tuple[float, float],
    answer_s: tuple[float, float],
    chance: list[float],
) -> RequestRecord:
    (started_s, wait_s), (ttft_s, last_s) = times_s, answer_s
    values: dict[str, Any] = {
        "run_id": BEGAN.strftime("%Y%m%dT%H%M%SZ-abcdef"),
        "worker": worker,
        "user": user,
        "sequence": sequence,
        "stage": stage.id,
        "phase": phase,
        "user_class": "StreamingChatUser",
        "traffic_class": "interactive",
        "prompt_id": f"{hash((worker, sequence)) & 0xFFFFFFFFFFFF:012x}",
        "prefix_id": f"{user % 4:012x}",
        "started_at": (BEGAN + timedelta(seconds=started_s)).isoformat(timespec="microseconds"),
        "started_s": started_s,
        "client_wait_s": 0.0001,
        "stream_asked": True,
        "asked_max_tokens": GAPS + 1,
        "connection_reused": sequence > 0,
        "sent_bytes": 1_800 + int(400 * chance[0]),
        "request_id": f"abcdef-{worker}-{sequence}",
        "served_by": f"replica-{user % 3}",
        "in_flight_at_send": stage.target_users // len(WORKERS),
        "limit_requests": 1_000_000,
        "remaining_requests": int(1_000_000 * chance[1]),
    }
    if wait_s:
        values |= {
            "attempts": 2,
            "rate_limited_attempts": 1,
            "retry_wait_s": wait_s,
            "asked_wait_s": 0.2,
            "lost_sent_s": (0.0,),
            "lost_end_s": (0.01,),
            "lost_status": (429,),
        }
    if chance[2] < LOST_SHARE:
        return _lost(values, int(chance[2] / LOST_SHARE * len(_LOST)), wait_s)
    tokens = GAPS + 1 - int(8 * chance[0])
    return RequestRecord(
        **values,
        headers_s=0.02,
        ttft_s=ttft_s,
        ttfa_s=ttft_s,
        last_token_s=last_s,
        end_s=last_s + 0.0003,
        user_ttft_s=wait_s + ttft_s,
        user_latency_s=wait_s + last_s,
        streamed=True,
        chunks=tokens,
        max_gap_s=0.04,
        saw_done=True,
        finish_reason="length",
        prompt_tokens=200 + int(200 * chance[0]),
        completion_tokens=tokens,
        cached_tokens=int(150 * chance[1]),
        token_source=TokenSource.SERVER,
        outcome=Outcome.OK,
        status=200,
        received_bytes=15_000 + int(2_000 * chance[1]),
        stamp_source=StampSource.KERNEL,
        client_delay_s=0.0002 + 0.0004 * chance[1],
    )


def _lost(values: dict[str, Any], kind: int, wait_s: float) -> RequestRecord:
    outcome, status = _LOST[kind]
    attempts = values.get("attempts", 1)
    return RequestRecord(
        **values | {"rate_limited_attempts": attempts - 1 + (status == 429), "attempts": attempts},
        end_s=0.05,
        user_latency_s=wait_s + 0.05,
        streamed=False,
        outcome=outcome,
        status=status,
        error_code=None if status is None else f"made_up_{status}",
        error_sample=f"{outcome.value}: made up",
    )


def _meta(name: str, stages: list[Stage], hold_s: float) -> dict[str, Any]:
    ended = BEGAN + timedelta(seconds=len(stages) * (SETTLE_S + hold_s))
    plan = [{"stage": s.id, "kind": s.kind, "target_users": s.target_users} for s in stages]
    return {
        "schema": RUN_SCHEMA,
        "run_id": BEGAN.strftime("%Y%m%dT%H%M%SZ-abcdef"),
        "name": name,
        "started_at": BEGAN.isoformat(timespec="milliseconds"),
        "ended_at": ended.isoformat(timespec="milliseconds"),
        "complete": True,
        "end_reason": "finished",
        "url": "http://127.0.0.1:8000/v1/chat/completions",
        "model": "made-up",
        "settings": {
            "stages": ",".join(str(stage.target_users) for stage in stages),
            "hold": f"{hold_s:g}s",
            "price_in": 0.27,
            "price_out": 1.1,
        },
        "versions": {},
        "seed": 7,
        "salt": "seed-7",
        "prefix_hashes": [],
        "shape": "ladder",
        "slo": "ttft_p95<1s,ok>90%",
        "max_fail_ratio": 0.1,
        "stage_plan": plan,
        "workers": [
            {"id": worker, "index": n, "host": "made-up", "lost": False, "wall_offset_s": 0.0}
            for n, worker in enumerate(WORKERS)
        ],
        "notices": [],
        "preflight": None,
        "insecure": False,
    }
