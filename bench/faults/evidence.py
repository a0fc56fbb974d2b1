"""What a run with faults left behind, as plain values: all that the checks look at."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from bench.faults.plan import Injection
from metrics.run_files import REQUESTS_JSONL, REQUESTS_PARQUET, read_rows


@dataclass(frozen=True, slots=True)
class Deed:
    """A fault that was done. ``stage`` is the one under way, None outside of any."""

    injection: Injection
    worker: str | None
    at_s: float
    stage: int | None
    phase: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the server saw it; seconds of the machine's monotonic clock."""

    request_id: str
    received_s: float
    ended_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """How one worker ended. ``stopped_s`` is when it did its last, if it was killed; ``woken_s``
    when its last pause had ended; ``alone_s`` since when it had no master, awake."""

    name: str
    code: int | None
    output: str
    met_the_master: bool
    killed: bool
    stopped_s: float | None
    woken_s: float = 0.0
    waits: tuple[tuple[float, float], ...] = ()
    """At some moments, for how many seconds in all it had waited for a core."""
    alone_s: float | None
    left_by_itself: bool
    ids: tuple[str, ...]
    spooled: tuple[tuple[str, bool], ...]
    """The ids of its spools' requests, each with whether an attempt of it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything of one run."""

    seed: int
    deeds: tuple[Deed, ...]
    asked: tuple[Asked, ...]
    workers: tuple[WorkerEnd, ...]
    master_code: int | None
    master_killed: bool
    master_hung: bool
    master_output: str
    ids_before: tuple[str, ...]
    ids_merged: tuple[str, ...]
    merge_code: int
    merge_output: str
    run: Mapping[str, Any]
    """``run.json`` before the merge."""
    summary: Mapping[str, Any]
    """``summary.json`` before the merge; empty when none was made."""
    merged: Mapping[str, Any]
    """``summary.json`` after it."""
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())


def read_server_log(path: Path) -> tuple[Asked, ...]:
    """The simulator's account, the preflight's left out."""
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return tuple(
        Asked(
            entry["request_id"],
            entry["received_monotonic_s"],
            entry["received_monotonic_s"] + (entry["end_s"] or 0.0),
        )
        for entry in entries
        if not (entry["request_id"] or "").endswith("-preflight")
    )


def read_spools(paths: Iterable[Path]) -> tuple[tuple[str, bool], ...]:
    """The ids of their requests, as often as they are there, and whether each was sent."""
    found = []
    for path in paths:
        with path.open("rb") as lines:
            for record in read_rows(lines, str(path)):
                found.append((record.request_id or "", record.attempts > 0))
    return tuple(found)


def read_ids(folder: Path) -> tuple[str, ...]:
    """The ids of a run's own requests, as often as they are there."""
    whole, growing = folder / REQUESTS_PARQUET, folder / REQUESTS_JSONL
    if whole.exists():
        return tuple(parquet.read_table(whole, columns=["request_id"])["request_id"].to_pylist())
    return tuple(name for name, _ in read_spools([growing])) if growing.exists() else ()


def read_json(path: Path) -> dict[str, Any]:
    """A file of the run; empty when there is none."""
    if not path.exists():
        return {}
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values
