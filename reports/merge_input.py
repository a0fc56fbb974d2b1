"""What a merge reads: the run's folder as it is, and the spools."""

import fcntl
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from metrics.record import RequestRecord
from metrics.run_files import (
    REQUESTS_JSONL,
    REQUESTS_PARQUET,
    RUN_JSON,
    SPOOL_FOLDER,
    STAGES_JSON,
    RunFileError,
    check_schema,
    mark_from_wire,
    read_rows,
)
from metrics.spool import Aside, Numbers, Spool, read_spool
from metrics.spool_merge import Measured
from metrics.tally import TallyBook


def refuse_while_it_runs(folder: Path) -> None:
    """The master keeps its file of rows locked as long as it lives.

    Raises:
        RunFileError: it does.
    """
    try:
        with (folder / REQUESTS_JSONL).open("rb") as lines:
            fcntl.flock(lines, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunFileError(f"{folder}: the run still goes on; merge when it has ended") from None
    except OSError:
        return  # no such file, or a file system without locks


def read_json(path: Path, schema: str) -> dict[str, Any] | None:
    """One of a run's files; None when there is none.

    Raises:
        RunFileError: it cannot be read, or is of a newer version.
    """
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        check_schema(values.get("schema"), schema, str(path))
    except FileNotFoundError:
        return None
    except RunFileError:
        raise
    except (OSError, ValueError, AttributeError) as error:
        raise RunFileError(f"{path}: cannot be read ({error})") from None
    return values


def spool_paths(folder: Path, given: Sequence[Path]) -> list[Path]:
    """The spools in the run's folder and those that are given, as files or folders.

    Raises:
        RunFileError: there is none.
    """
    found: dict[Path, Path] = {}
    for path in (folder / SPOOL_FOLDER, *given):
        own = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if path in given and not own:
            raise RunFileError(f"{path}: no spool in this folder (*.jsonl)")
        if path in given or path.is_dir():
            found.update({one.resolve(): one for one in own})
    if not found:
        raise RunFileError(f"{folder}: no spool was given, and none lies in {SPOOL_FOLDER}/")
    return list(found.values())


def open_spool(path: Path) -> Spool:
    """Read a spool.

    Raises:
        RunFileError: it cannot be read.
    """
    try:
        with path.open("rb") as lines:
            return read_spool(lines, str(path))
    except OSError as error:
        raise RunFileError(f"{path}: cannot be read ({error.strerror})") from None


def one_run(meta: Mapping[str, Any] | None, spools: Sequence[Spool], folder: Path) -> str:
    """The id of the run that all of these are of.

    Raises:
        RunFileError: they are of several, or none tells.
    """
    wanted = str(meta["run_id"]) if meta is not None else None
    whose = str(folder)
    for spool in spools:
        if wanted is None:
            wanted, whose = min(spool.run_ids), spool.name
        foreign = sorted(spool.run_ids - {wanted})
        if foreign:
            raise RunFileError(
                f"{spool.name}: a spool of run {foreign[0]}, but {whose} is of run {wanted}; "
                "leave it out"
            )
    if wanted is None:
        raise RunFileError(f"{folder}: no {RUN_JSON}, and no spool tells which run it is")
    return wanted


def known_of(folder: Path, stages: Mapping[str, Any]) -> tuple[Measured, str]:
    """What the folder has itself, and the name of the file with its rows.

    Raises:
        RunFileError: it cannot be read.
    """
    kept, lines = folder / REQUESTS_PARQUET, folder / REQUESTS_JSONL
    records: list[RequestRecord] = []
    name = str(lines)
    try:
        if kept.exists():
            name = str(kept)
            records = [_record(row) for row in parquet.read_table(kept).to_pylist()]
        elif lines.exists():
            with lines.open("rb") as opened:
                records = list(read_rows(opened, name))
    except (OSError, ValueError) as error:
        raise error if isinstance(error, RunFileError) else _unreadable(Path(name), error) from None
    try:
        book = TallyBook.from_wire(stages.get("tallies") or {})
        measured = Measured(
            records=records,
            marks=[mark_from_wire(wire) for wire in stages.get("marks") or ()],
            aside=Aside.of(book, stages.get("health") or ()),
            reports={w: Numbers.from_wire(n) for w, n in (stages.get("reports") or {}).items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(folder / STAGES_JSON, error) from None
    return measured, name


def _unreadable(path: Path, error: Exception) -> RunFileError:
    return RunFileError(f"{path}: cannot be read ({error})")


_NEEDED = ("stage", "phase", "prefix_id")
"""Fields without a default in which None means something."""


def _record(row: Mapping[str, Any]) -> RequestRecord:
    """A row of Parquet, in which missing and the default of a field look alike."""
    given = {n: v for n, v in row.items() if v is not None or n in _NEEDED}
    return RequestRecord.from_mapping(given)
