"""Made-up workers: what each tells a master, built by the suite's own recorder before the run.

A worker that measured nothing still reports each second: how late its loop ran, its CPU, its users.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from locust.rpc.protocol import Message
from locust.stats import RequestStats

from hooks import messages
from hooks.recorder import Recorder
from metrics.outcome import Outcome, StampSource, TokenSource
from metrics.record import RequestRecord
from metrics.stage import Phase, PhaseMark, Stage

RUN_ID = "00000000T000000Z-000000"
"""Stands in packed reports for the id of the run, which only the master knows; of its length."""
STAGE = Stage(0, "constant", 1)
USER_CLASS = "StreamingChatUser"
HOLD_AT_S = 1.0
TOKENS = 64
LAG_SAMPLES_PER_S = 50
SERIES_PERIOD_S = 10
FAILS_EACH = 40
"""Every so many requests one fails, so that no count is always 0."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """One worker: its name and client id, and its messages, packed for Locust's line.

    ``stats`` are to be sent one a second from the hold on, ``final`` when the run ends.
    """

    name: str
    client_id: str
    records: int
    stats: tuple[bytes, ...]
    final: bytes


def make_worker(
    number: int,
    records_per_s: float,
    seconds: int,
    stage: Stage = STAGE,
    on_worker: bool = False,
) -> MadeUp:
    """The ``number``-th worker, which measures so many requests a second for so many seconds.

    ``on_worker``: it keeps the rows, as with ``--records workers``.
    """
    chance = Random(number)
    client_id = f"made-up_{number:024d}{chance.getrandbits(32):08x}"
    name = f"{number}-{client_id[-8:]}"
    recorder, locusts = Recorder(None), RequestStats(use_response_times_cache=False)
    recorder.mark(PhaseMark(name, stage, Phase.RAMP, 0.0, 0))
    recorder.mark(PhaseMark(name, stage, Phase.HOLD, HOLD_AT_S, stage.target_users))
    records = _records(name, stage, records_per_s, chance)
    stats, due, made = [], 0.0, 0
    for second in range(seconds):
        due += records_per_s
        while made < int(due + 1e-9):
            record, gaps_s = next(records)
            recorder.add(record, gaps_s)
            locusts.log_request("POST", "chat", int(1e3 * record.user_latency_s), 0)
            if record.outcome.failed:
                locusts.log_error("POST", "chat", record.outcome.value)
            made += 1
        for _ in range(LAG_SAMPLES_PER_S):
            recorder.add_health(stage, Phase.HOLD, "loop_lag_s", chance.expovariate(2000))
        recorder.add_health(stage, Phase.HOLD, "cpu_ratio", chance.uniform(0.2, 0.6))
        recorder.add_health(stage, Phase.HOLD, "gc_pause_s", chance.expovariate(1000))
        report = _report(name, recorder, _series(name, second))
        if on_worker:
            report[messages.REPORT_KEY]["rows"] = []
        stats.append(_packed(client_id, "stats", {**locust_part(locusts, 1), **report}))
    recorder.mark(PhaseMark(name, Stage(1, "drain", 0), Phase.DRAIN, HOLD_AT_S + seconds, 0))
    final = _report(name, recorder, [])[messages.REPORT_KEY]
    return MadeUp(name, client_id, made, tuple(stats), _packed(client_id, messages.FINAL, final))


def locust_part(stats: RequestStats, users: int) -> dict[str, Any]:
    """What Locust itself puts into a worker's report."""
    part = {
        "stats": stats.serialize_stats(),
        "stats_total": stats.total.get_stripped_report(),
        "errors": stats.serialize_errors(),
        "user_classes_count": {USER_CLASS: users},
        "user_count": users,
    }
    stats.errors = {}
    return part


def _report(name: str, recorder: Recorder, health: list[dict[str, Any]]) -> dict[str, Any]:
    told = {"run_id": RUN_ID, "worker": name, "host": "made-up", "in_flight": 0, "pending": 0}
    return {messages.REPORT_KEY: {**told, **recorder.take(health)}}


def _series(name: str, second: int) -> list[dict[str, Any]]:
    if second % SERIES_PERIOD_S:
        return []
    at_s = HOLD_AT_S + second
    return [{"worker": name, "at_s": at_s, "resident_mib": 100.0, "loop_lag_p99_s": 0.002}]


def _packed(client_id: str, kind: str, data: dict[str, Any]) -> bytes:
    packed: bytes = Message(kind, data, client_id).serialize()
    return packed


def _records(
    name: str, stage: Stage, per_s: float, chance: Random
) -> Iterator[tuple[RequestRecord, np.ndarray]]:
    """Endless streamed requests in the held window, with the gaps of each."""
    many = [np.abs(np.random.default_rng(n).normal(0.02, 0.003, TOKENS - 1)) for n in range(20)]
    sequence = 0
    while True:
        gaps_s = many[sequence % len(many)]
        ttft_s = 0.05 + chance.expovariate(10)
        last_s = ttft_s + float(gaps_s.sum())
        ok = sequence % FAILS_EACH != FAILS_EACH - 1
        yield _record(name, stage, sequence, sequence / per_s, ttft_s, last_s, ok), gaps_s
        sequence += 1


def _record(
    name: str, stage: Stage, sequence: int, after_s: float, ttft_s: float, last_s: float, ok: bool
) -> RequestRecord:
    answer: dict[str, Any] = {
        "ttft_s": ttft_s,
        "ttfa_s": ttft_s,
        "last_token_s": last_s,
        "user_ttft_s": ttft_s,
        "chunks": TOKENS,
        "max_gap_s": 0.03,
        "saw_done": True,
        "finish_reason": "length",
        "prompt_tokens": 310,
        "completion_tokens": TOKENS,
        "cached_tokens": 96,
        "token_source": TokenSource.SERVER,
        "status": 200,
    }
    return RequestRecord(
        run_id=RUN_ID,
        worker=name,
        user=0,
        sequence=sequence,
        stage=stage.id,
        phase=Phase.HOLD,
        user_class=USER_CLASS,
        traffic_class="interactive",
        prompt_id=f"{sequence:012x}",
        prefix_id="5b6c7d8e9f00",
        started_at="2026-01-02T03:04:05.000000+00:00",
        started_s=HOLD_AT_S + after_s,
        client_wait_s=0.0001,
        headers_s=0.02,
        end_s=last_s + 0.0002,
        user_latency_s=last_s,
        streamed=True,
        stream_asked=True,
        asked_max_tokens=TOKENS,
        outcome=Outcome.OK if ok else Outcome.SERVER_ERROR,
        connection_reused=True,
        sent_bytes=1900,
        received_bytes=15_000,
        request_id=f"{RUN_ID}-{name}-{sequence}",
        stamp_source=StampSource.KERNEL,
        client_delay_s=0.0003,
        in_flight_at_send=8,
        **(answer if ok else {"status": 500}),
    )
