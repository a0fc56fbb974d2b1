"""Reads a run's folder, whole or killed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from metrics.record import FIELD_NAMES, RequestRecord
from metrics.run_files import (
    REQUESTS_JSONL,
    REQUESTS_PARQUET,
    RUN_JSON,
    RUN_SCHEMA,
    SPOOL_FOLDER,
    STAGES_JSON,
    STAGES_SCHEMA,
    RunFileError,
    check_schema,
    mark_from_wire,
    read_rows,
)
from metrics.stage import Phase, PhaseMark
from metrics.tally import TallyBook


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as it lies on disk.

    ``records`` has a row per request with the fields of :class:`RequestRecord`, in the order they
    were started, and the columns that :func:`complete_columns` adds. ``book`` is None when the run
    was killed before its tallies were written.
    """

    folder: Path
    meta: Mapping[str, Any]
    records: pd.DataFrame
    marks: tuple[PhaseMark, ...]
    book: TallyBook | None
    not_reached: frozenset[int]
    notes: tuple[str, ...]
    health: tuple[Mapping[str, Any], ...] = ()
    """Each worker's own state every 10 s; ``at_s`` is on that worker's clock."""
    void_reasons: Mapping[int, str] = field(default_factory=dict)
    """Why a search set stages aside while it ran, by the stage's id."""


def load_run(folder: Path) -> SavedRun:
    """Read a run.

    Raises:
        RunFileError: no such folder, not a run, a file of a newer version, or a garbled one.
    """
    if not folder.is_dir():
        raise RunFileError(f"{folder}: no such folder; give one of runs/")
    meta = _json(folder / RUN_JSON, RUN_SCHEMA)
    if meta is None:
        raise RunFileError(f"{folder}: not a run, for it holds no {RUN_JSON}")
    stages = _json(folder / STAGES_JSON, STAGES_SCHEMA)
    records, notes = _records(folder)
    if stages is None:
        notes = (*notes, "the run was killed before its stages were written")
    try:
        marks = tuple(map(mark_from_wire, stages["marks"])) if stages else ()
        book = TallyBook.from_wire(stages["tallies"]) if stages else None
        voids = (stages or {}).get("void_reasons") or {}
        void_reasons = {int(stage): str(reason) for stage, reason in voids.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunFileError(f"{folder / STAGES_JSON}: cannot be read ({error})") from None
    return SavedRun(
        folder=folder,
        meta=meta,
        records=records,
        marks=marks,
        book=book,
        not_reached=frozenset(stages.get("not_reached", ())) if stages else frozenset(),
        notes=notes,
        health=tuple(stages.get("health") or ()) if stages else (),
        void_reasons=void_reasons,
    )


def _json(path: Path, schema: str) -> dict[str, Any] | None:
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunFileError(f"{path}: cannot be read ({error})") from None
    check_schema(values.get("schema"), schema, str(path))
    return values


def _records(folder: Path) -> tuple[pd.DataFrame, tuple[str, ...]]:
    parquet = folder / REQUESTS_PARQUET
    if parquet.exists():
        try:
            return complete_columns(pd.read_parquet(parquet)), ()
        except (OSError, ValueError) as error:
            raise RunFileError(f"{parquet}: cannot be read ({error})") from None
    sources = [folder / REQUESTS_JSONL, *sorted((folder / SPOOL_FOLDER).glob("*.jsonl"))]
    rows = chain.from_iterable(map(_rows, sources))
    # A worker's spool holds what it also sent: the same request is kept once.
    unique = {(record.worker, record.sequence): record for record in rows}
    missing = not (folder / REQUESTS_JSONL).exists()
    notes = ("read from the workers' spools",) if missing and unique else ()
    return frame_of(list(unique.values())), notes


def _rows(path: Path) -> list[RequestRecord]:
    if not path.exists():
        return []
    with path.open("rb") as lines:
        return list(read_rows(lines, str(path)))


def frame_of(records: list[RequestRecord]) -> pd.DataFrame:
    """The table of records, also for none at all."""
    rows = [record.to_row() for record in records]
    return complete_columns(pd.DataFrame(rows, columns=list(FIELD_NAMES)))


_NUMBERS = [
    "started_s",
    "schedule_delay_s",
    "client_wait_s",
    "connect_s",
    "headers_s",
    "ttft_s",
    "ttfa_s",
    "last_token_s",
    "end_s",
    "user_ttft_s",
    "user_latency_s",
    "think_s",
    "max_gap_s",
    "retry_wait_s",
    "asked_wait_s",
    "client_delay_s",
    "reset_s",
]
_WHOLE = [
    "user",
    "sequence",
    "stage",
    "turn",
    "chunks",
    "keepalives",
    "tool_calls",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "asked_max_tokens",
    "status",
    "attempts",
    "rate_limited_attempts",
    "wasted_tokens",
    "wasted_prompt_tokens",
    "connections_opened",
    "reconnects",
    "sent_bytes",
    "received_bytes",
    "merged_reads",
    "in_flight_at_send",
    "limit_requests",
    "remaining_requests",
    "limit_tokens",
    "remaining_tokens",
]
_FLAGS = ("streamed", "stream_asked", "buffered", "saw_done", "connection_reused")


def complete_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Give columns their types, order the rows by start, and add the derived columns.

    ``counted``, ``tpot_s`` and ``e2e_latency_s`` are the record's own; ``sent_s`` and ``ended_s``
    are the winning attempt's send and end on the worker's clock, ``elapsed_s`` the time from
    wanting the answer to the end.
    """
    frame = frame.reindex(columns=list(FIELD_NAMES)).copy()
    for name in _NUMBERS:
        frame[name] = pd.to_numeric(frame[name]).astype("float64")
    for name in _WHOLE:
        frame[name] = pd.to_numeric(frame[name]).astype("Int64")
    for name in _FLAGS:
        frame[name] = frame[name].astype("bool")
    frame = frame.sort_values(["started_s", "worker", "sequence"], ignore_index=True)
    frame["counted"] = frame["stage"].notna() & (frame["phase"] == Phase.HOLD.value)
    streamed = (
        frame["streamed"]
        & ~frame["buffered"]
        & (frame["completion_tokens"] >= 2).fillna(False).astype(bool)
    )
    tokens = frame["completion_tokens"].astype("float64")
    tpot_s = (frame["last_token_s"] - frame["ttft_s"]) / (tokens - 1)
    frame["tpot_s"] = tpot_s.where(streamed)
    frame["e2e_latency_s"] = frame["last_token_s"].where(
        frame["streamed"] & frame["last_token_s"].notna(), frame["end_s"]
    )
    waited_s = frame["user_latency_s"] - frame["e2e_latency_s"]
    frame["sent_s"] = frame["started_s"] + waited_s
    frame["ended_s"] = frame["sent_s"] + frame["end_s"]
    frame["elapsed_s"] = waited_s + frame["end_s"]
    return frame
