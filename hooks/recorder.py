"""Keeps what a worker measured until it is handed on: spooled to disk, tallied, and in memory.

Every record is written to the worker's own spool within a second, so that nothing is lost when the
worker, the master or the line between them dies.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metrics.record import RequestRecord
from metrics.run_files import header_line, mark_to_wire, row_line
from metrics.stage import Phase, PhaseMark, Stage
from metrics.tally import TallyBook


class Recorder:
    """The records, tallies and phase marks of one worker in one run."""

    def __init__(self, spool: Path | None) -> None:
        self._rows: list[list[Any]] = []
        self._marks: list[dict[str, Any]] = []
        self._book = TallyBook()
        self._unwritten: list[list[Any]] = []
        self._spool = None
        if spool is not None:
            spool.parent.mkdir(parents=True, exist_ok=True)
            self._spool = spool.open("xb")
            self._spool.write(header_line())

    def add(self, record: RequestRecord, gaps_s: Sequence[float]) -> None:
        """Keep one record and the gaps of its stream."""
        row = record.to_row()
        self._rows.append(row)
        if self._spool is not None:
            self._unwritten.append(row)
        self._book.add(record, gaps_s)

    def mark(self, mark: PhaseMark) -> None:
        """Keep the beginning of a phase."""
        self._marks.append(mark_to_wire(mark))

    def add_health(self, stage: Stage | None, phase: Phase | None, name: str, value: float) -> None:
        """Keep one sample of the client's own health; only held windows count."""
        if stage is not None and phase is Phase.HOLD:
            self._book.stage(stage.id).health[name].add(max(0.0, value))

    def flush(self) -> None:
        """Write what is new to the spool."""
        if self._spool is not None and self._unwritten:
            rows, self._unwritten = self._unwritten, []
            self._spool.write(b"".join(map(row_line, rows)))
            self._spool.flush()

    def take(self) -> dict[str, Any]:
        """Everything that was not handed on yet, as plain values; the next call starts afresh.

        Lists are replaced, never cleared, because the message may be packed later.
        """
        rows, self._rows = self._rows, []
        marks, self._marks = self._marks, []
        book, self._book = self._book, TallyBook()
        return {"rows": rows, "marks": marks, "tallies": book.to_wire()}

    def close(self) -> None:
        """Write the rest and close the spool."""
        self.flush()
        if self._spool is not None:
            self._spool.close()
            self._spool = None
