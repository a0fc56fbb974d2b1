"""Saved runs for tests, built from records: the folder as a real run leaves it."""

import json

from metrics.run_files import (
    REQUESTS_JSONL,
    RUN_JSON,
    RUN_SCHEMA,
    STAGES_JSON,
    STAGES_SCHEMA,
    header_line,
    mark_to_wire,
    row_line,
)
from metrics.stage import Phase, PhaseMark, Stage
from metrics.tally import TallyBook
from tests.support.records import make_record

META = {
    "schema": RUN_SCHEMA,
    "run_id": "20260102T030405Z-abcdef",
    "name": "ladder",
    "started_at": "2026-01-02T03:04:05.000+00:00",
    "ended_at": "2026-01-02T03:06:05.000+00:00",
    "complete": True,
    "end_reason": "finished",
    "url": "http://127.0.0.1:8000/v1/chat/completions",
    "model": "m",
    "settings": {"stages": "1,2", "hold": "10s"},
    "versions": {"python": "3.11"},
    "seed": None,
    "salt": "salt",
    "prefix_hashes": [],
    "shape": "ladder",
    "slo": "",
    "max_fail_ratio": 0.1,
    "workers": [{"id": "local", "index": 0, "host": "h", "lost": False, "wall_offset_s": None}],
    "notices": [],
    "preflight": None,
    "insecure": False,
}


def build_run(folder, records, levels=(1,), hold_s=10.0, not_reached=(), stages=True, **meta):
    """A run whose levels are held one after the other for ``hold_s``; gives its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = [Stage(number, "level", users) for number, users in enumerate(levels)]
    drain = Stage(len(plan), "drain", 0)
    wanted = [{"stage": s.id, "kind": s.kind, "target_users": s.target_users} for s in plan]
    values = {**META, "stage_plan": wanted, **meta}
    (folder / RUN_JSON).write_text(json.dumps(values), encoding="utf-8")
    rows = b"".join(row_line(record.to_row()) for record in records)
    (folder / REQUESTS_JSONL).write_bytes(header_line() + rows)
    if stages:
        marks = []
        for worker in sorted({record.worker for record in records} or {"local"}):
            for stage in plan:
                at_s = stage.id * hold_s
                phase = Phase.RAMP if stage.id in not_reached else Phase.HOLD
                marks.append(PhaseMark(worker, stage, phase, at_s, stage.target_users))
            marks.append(PhaseMark(worker, drain, Phase.DRAIN, len(plan) * hold_s, 0))
        book = TallyBook()
        for record in records:
            book.add(record, [0.1] * max(0, record.chunks - 1))
        contents = {
            "schema": STAGES_SCHEMA,
            "marks": [mark_to_wire(mark) for mark in marks],
            "tallies": book.to_wire(),
            "not_reached": list(not_reached),
        }
        (folder / STAGES_JSON).write_text(json.dumps(contents), encoding="utf-8")
    return folder


def numbered(records):
    """The same records with a sequence of their own each."""
    rows = [dict(zip(type(r).__dataclass_fields__, r.to_row(), strict=True)) for r in records]
    return [make_record(**{**row, "sequence": n}) for n, row in enumerate(rows)]
