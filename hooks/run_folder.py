"""The folder of one run while it is written."""

import fcntl
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from hooks.this_host import this_host
from metrics.calibration import CALIBRATION_JSON, RUN_HOST
from metrics.run_files import (
    REQUESTS_JSONL,
    RUN_JSON,
    STAGES_JSON,
    STAGES_SCHEMA,
    header_line,
)
from metrics.tally import TallyBook
from reports.whole_files import write_whole

NAME_CHARS = 60
CALIBRATION = Path(__file__).resolve().parent.parent / ".cache" / CALIBRATION_JSON


class RunFolder:
    """Writes ``run.json``, ``stages.json`` and the request rows of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unwritable: str | None = None
        """Why rows can be kept no longer; None while they can."""
        self.rows_left_out = 0
        # Without a buffer: what a full disk refused must not be tried again behind a torn line.
        self._requests = (path / REQUESTS_JSONL).open("xb", buffering=0)
        with suppress(OSError):  # not every file system has locks
            # Held as long as this process lives: nobody merges into a run that goes on.
            fcntl.flock(self._requests, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._write(header_line())

    def append(self, rows: Collection[bytes]) -> None:
        """Add request rows, as the lines that they came as, and let the system have them.

        Once they cannot be written none is any more, because a torn line may only be the last;
        ``unwritable`` says why, and ``rows_left_out`` counts them.
        """
        if self.unwritable is None:
            try:
                self._write(b"".join(rows))
                return
            except OSError as error:
                self.unwritable = f"{self.path / REQUESTS_JSONL}: {error.strerror or error}"
        self.rows_left_out += len(rows)

    def _write(self, lines: bytes) -> None:
        left = memoryview(lines)
        while left:
            left = left[self._requests.write(left) :]

    def write_run(self, values: dict[str, Any]) -> None:
        """Write ``run.json`` anew."""
        _write_json(self.path / RUN_JSON, values)

    def write_stages(
        self,
        marks: Sequence[dict[str, Any]],
        book: TallyBook,
        not_reached: Iterable[int],
        health: Sequence[dict[str, Any]] = (),
        void_reasons: Mapping[int, str] | None = None,
        reports: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        """Write ``stages.json`` anew; ``reports`` tells which of each worker's are in it."""
        values = {
            "schema": STAGES_SCHEMA,
            "marks": list(marks),
            "tallies": book.to_wire(),
            "not_reached": sorted(not_reached),
            "health": list(health),
            "void_reasons": {str(stage): why for stage, why in (void_reasons or {}).items()},
            "reports": dict(reports or {}),
        }
        try:
            content = msgspec.json.encode(values)
        except UnicodeEncodeError:  # half a character, out of an endpoint's answer
            _write_json(self.path / STAGES_JSON, values)
        else:
            # Many workers' samples add up over hours, and this is written every 2 s.
            write_whole(self.path / STAGES_JSON, content)

    def close(self) -> None:
        """No rows come any more."""
        self._requests.close()


def create_run_folder(runs_dir: Path, started_at: datetime, name: str) -> RunFolder:
    """Make a new folder ``<UTC start>-<name>``; an existing one is never touched.

    Raises:
        OSError: the folder cannot be made or written.
    """
    runs_dir.mkdir(parents=True, exist_ok=True)
    stem = f"{started_at:%Y%m%dT%H%M%SZ}-{safe_name(name)}"
    for number in range(1, 1000):
        path = runs_dir / (stem if number == 1 else f"{stem}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            continue
        keep_calibration(path)
        return RunFolder(path)
    raise FileExistsError(f"{runs_dir / stem}: a thousand runs of that name in one second")


def keep_calibration(folder: Path, source: Path = CALIBRATION) -> None:
    """Copy this host's calibration into a run's folder, with the host that the run is made on.

    A calibration that is missing or cannot be read is left out: it is no part of the measurement.
    """
    try:
        values = json.loads(source.read_text(encoding="utf-8"))
        if isinstance(values, dict):
            _write_json(folder / CALIBRATION_JSON, {**values, RUN_HOST: this_host()})
    except (OSError, ValueError):
        return


def safe_name(name: str) -> str:
    """A name fit to be part of a folder's: no separators, no dots in front, not long."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-_")
    return plain[:NAME_CHARS].encode("utf-8", "ignore")[:180].decode("utf-8", "ignore") or "run"


def _write_json(path: Path, values: dict[str, Any]) -> None:
    write_whole(path, json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1))
