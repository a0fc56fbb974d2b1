"""Reads a run's folder, whole or killed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

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
)
from metrics.stage import Phase, PhaseMark
from metrics.tally import TallyBook
from reports.memory import give_back
from reports.parquet import read_parquet
from reports.row_columns import FLAGS, NUMBERS, READ_NAMES, WHOLE
from reports.row_lines import TRIMMED, start_order, table_of_lines, table_of_records


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run as it lies on disk.

    ``records`` has a row per request with the fields of :class:`RequestRecord` that figures are
    read from, in the order they were started, and the columns that :func:`complete_columns` adds.
    ``book`` is None when the run was killed before its tallies were written.
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
    unread: pa.Table | None = None
    """The fields that no figure is read from, of a run that lies in lines, if they were wanted."""


def load_run(folder: Path, whole_rows: bool = False) -> SavedRun:
    """Read a run; ``whole_rows``: also the fields that no figure is read from, to keep them.

    Raises:
        RunFileError: no such folder, not a run, a file of a newer version, or a garbled one.
    """
    if not folder.is_dir():
        if folder.is_file():
            raise RunFileError(f"{folder}: a file; give the run's folder, {folder.parent}")
        raise RunFileError(f"{folder}: no such folder; give one of runs/")
    meta = _json(folder / RUN_JSON, RUN_SCHEMA)
    if meta is None:
        raise RunFileError(f"{folder}: not a run, for it holds no {RUN_JSON}")
    stages = _json(folder / STAGES_JSON, STAGES_SCHEMA)
    records, unread, notes = _records(folder, whole_rows)
    if stages is None:
        notes = (*notes, "the run was killed before its stages were written")
    try:
        marks = tuple(map(mark_from_wire, stages["marks"])) if stages else ()
        book = TallyBook.from_wire(stages["tallies"]) if stages else None
        voids = (stages or {}).get("void_reasons") or {}
        void_reasons = {int(stage): str(reason) for stage, reason in voids.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(folder / STAGES_JSON, error) from None
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
        unread=unread,
    )


def _unreadable(path: Path, why: object) -> RunFileError:
    return RunFileError(
        f"{path}: cannot be read ({why}); restore it, or rebuild the run from its spools: "
        f"python -m reports merge NEW_FOLDER {path.parent / SPOOL_FOLDER}"
    )


def _json(path: Path, schema: str) -> dict[str, Any] | None:
    values: Any
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not isinstance(values, dict):
        raise _unreadable(path, "not a JSON object")
    check_schema(values.get("schema"), schema, str(path))
    return values


def _records(
    folder: Path, whole_rows: bool
) -> tuple[pd.DataFrame, pa.Table | None, tuple[str, ...]]:
    parquet = folder / REQUESTS_PARQUET
    if parquet.exists():
        try:
            return _frame(_columns(read_parquet(parquet, READ_NAMES)), READ_NAMES), None, ()
        except RunFileError:
            raise
        except (OSError, ValueError) as error:
            raise _unreadable(parquet, error) from None
    sources = [folder / REQUESTS_JSONL, *sorted((folder / SPOOL_FOLDER).glob("*.jsonl"))]
    table, unread = table_of_lines(sources, FIELD_NAMES if whole_rows else READ_NAMES), None
    if whole_rows:
        unread, table = table.drop_columns(READ_NAMES), table.select(READ_NAMES)
    missing = not (folder / REQUESTS_JSONL).exists()
    notes = ("read from the workers' spools",) if missing and table.num_rows else ()
    columns = _columns(table)
    del table
    return _frame(columns, READ_NAMES), unread, notes


def frame_of(records: Sequence[RequestRecord]) -> pd.DataFrame:
    """The table of records with all their fields, also for none at all."""
    return _frame(_columns(table_of_records(records)), FIELD_NAMES)


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _frame(columns: dict[str, pa.ChunkedArray], names: Sequence[str]) -> pd.DataFrame:
    """Takes the columns out one by one, so that never all of them are there twice."""
    found = {}
    for name in list(columns):
        column = columns.pop(name)
        if not len(columns) % TRIMMED:
            give_back()
        if pa.types.is_list(column.type):
            found[name] = _tuples(column)
            continue
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        found[name] = column.to_pandas(types_mapper=_TYPES.get)
    frame = pd.DataFrame(found, copy=False)
    found.clear()
    return complete_columns(frame, names)


_TYPES = {pa.int64(): pd.Int64Dtype()}
_KINDS = {
    **dict.fromkeys(NUMBERS, "float64"),
    **dict.fromkeys(WHOLE, "Int64"),
    **dict.fromkeys(FLAGS, "bool"),
}


def _tuples(column: pa.ChunkedArray) -> pd.Series:
    """Most are empty, and these are one and the same object."""
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy()
    found = np.fromiter((() if n >= 0 else None for n in lengths), object, len(lengths))
    some = np.flatnonzero(lengths > 0)
    for place, values in zip(some, column.take(some).to_pylist(), strict=True):
        found[place] = tuple(values)
    return pd.Series(found)


def complete_columns(frame: pd.DataFrame, names: Sequence[str] = FIELD_NAMES) -> pd.DataFrame:
    """Give columns their types, order the rows by start, and add the derived columns.

    ``counted``, ``tpot_s`` and ``e2e_latency_s`` are the record's own; ``sent_s`` and ``ended_s``
    are the winning attempt's send and end on the worker's clock, ``elapsed_s`` the time from
    wanting the answer to the end.
    """
    frame = frame.reindex(columns=list(names))
    for name in frame.columns:
        kind = _KINDS.get(name)
        if kind is not None and frame[name].dtype != kind:
            column = frame[name]
            frame[name] = (column if kind == "bool" else pd.to_numeric(column)).astype(kind)
    order = start_order(frame["started_s"].to_numpy(), frame["worker"], frame["sequence"])
    if (order[1:] < order[:-1]).any():
        frame = frame.iloc[order]
    frame.index = pd.RangeIndex(len(frame))
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
