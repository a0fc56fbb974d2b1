"""Keeps what a worker measured until it is handed on: spooled to disk, tallied, and in memory.

Every record is written to the worker's own spool within a second, so that nothing is lost when the
worker, the master or the line between them dies.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path
from typing import Any

from metrics.record import RequestRecord
from metrics.run_files import mark_to_wire, row_line
from metrics.spool import Aside, aside_line, end_line, mark_line
from metrics.stage import Phase, PhaseMark, Stage
from metrics.tally import TallyBook

log = logging.getLogger("swarmgauge.worker")


class Recorder:
    """The records, tallies and phase marks of one worker in one run."""

    def __init__(self, spool: Path | None, header: bytes = b"", keeps_rows: bool = False) -> None:
        """``keeps_rows``: rows stay in the spool and are handed on only where it lacks them."""
        self._lines: list[bytes] = []
        self._keeps_rows = keeps_rows
        self._marks: list[dict[str, Any]] = []
        self._book = TallyBook()
        self._report = 0
        self._unwritten: list[bytes] = []
        self._path = spool
        self._spool: BufferedWriter | None = None
        self._trouble: str | None = None
        if spool is not None:
            spool.parent.mkdir(parents=True, exist_ok=True)
            self._spool = spool.open("xb")
            self._write(header)

    def add(self, record: RequestRecord, gaps_s: Sequence[float]) -> None:
        """Keep one record and the gaps of its stream."""
        # Written out here and once: in one go they would stop the loop each second, and the master
        # of many workers has no time for it.
        line = row_line(record.to_row())
        if self._spool is None or not self._keeps_rows:
            self._lines.append(line)
        if self._spool is not None:
            self._unwritten.append(line)
        self._book.add(record, gaps_s)

    def mark(self, mark: PhaseMark) -> None:
        """Keep the beginning of a phase; the spool has it at once, for windows hang on it."""
        self._marks.append(mark_to_wire(mark))
        self._write(mark_line(mark))

    def add_health(self, stage: Stage | None, phase: Phase | None, name: str, value: float) -> None:
        """Keep one sample of the client's own health; only held windows count."""
        if stage is not None and phase is Phase.HOLD:
            self._book.stage(stage.id).health[name].add(max(0.0, value))

    def flush(self) -> None:
        """Write what is new to the spool."""
        lines, self._unwritten = self._unwritten, []
        if lines and not self._write(b"".join(lines)) and self._keeps_rows:
            self._lines += lines

    def _write(self, lines: bytes) -> bool:
        """Whether the spool has them."""
        if self._spool is None:
            return False
        try:
            self._spool.write(lines)
            self._spool.flush()
        except OSError as error:
            # The master still gets everything; a torn line may only be the last of a file.
            log.error("%s: the spool ends here, for it cannot be written (%s)", self._path, error)
            self._trouble = error.strerror or str(error)
            with suppress(OSError):
                self._spool.close()
            self._spool = None
        return self._spool is not None

    def take(self, health: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        """Everything that was not handed on yet, as plain values; the next call starts afresh.

        ``health`` are samples of the worker that go with it. Lists are replaced, never cleared,
        because the message may be packed later. What rows cannot tell goes to the spool as well,
        under the report's number, so that a merge adds it once; None when there is nothing such.
        """
        self.flush()
        lines, self._lines = self._lines, []
        marks, self._marks = self._marks, []
        book, self._book = self._book, TallyBook()
        if aside := Aside.of(book, health):
            self._report += 1
            self._write(aside_line(aside, self._report))
        return {
            "report": self._report if aside else None,
            "health": list(health),
            "rows": lines,
            "marks": marks,
            "tallies": book.to_wire(),
            **({"spool_trouble": self._trouble} if self._trouble else {}),
        }

    def close(self) -> None:
        """Write the rest and close the spool."""
        self.flush()
        self._write(end_line())
        if self._spool is not None:
            self._spool.close()
            self._spool = None
