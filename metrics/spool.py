"""A worker's own spool: all it takes to rebuild that worker's part of a run.

Beside request rows it holds objects, one a line, each under the one name of its kind: ``mark``, the
beginning of a phase; ``aside``, what rows cannot tell, as it went into the worker's report of that
number; ``end``, written when the worker closed the file itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from metrics.histogram import Histogram
from metrics.record import FIELD_NAMES, RequestRecord
from metrics.run_files import (
    SPOOL_SCHEMA,
    RunFileError,
    json_line,
    mark_from_wire,
    mark_to_wire,
    read_lines,
)
from metrics.stage import PhaseMark
from metrics.tally import StageTally, TallyBook

_GAPS = "chunk_gap_s"
_OF_ROWS = "client_delay_s"
"""The one figure of a client's health that each row holds too."""


@dataclass(slots=True)
class Numbers:
    """Which of a worker's numbered reports are known; they count from 1."""

    last: int = 0
    missed: set[int] = field(default_factory=set)

    def __contains__(self, number: int) -> bool:
        return 0 < number <= self.last and number not in self.missed

    def add(self, number: int) -> None:
        """Note one; any order, and more than once."""
        if number > self.last:
            self.missed.update(range(self.last + 1, number))
            self.last = number
        else:
            self.missed.discard(number)

    def to_wire(self) -> dict[str, Any]:
        """Plain values."""
        return {"last": self.last, "missed": sorted(self.missed)}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_wire`."""
        return cls(int(wire["last"]), set(wire["missed"]))


@dataclass(slots=True)
class Aside:
    """What one report held beyond its rows: histograms by stage, and samples of the worker."""

    by_stage: dict[int, dict[str, Histogram]] = field(default_factory=dict)
    health: list[dict[str, Any]] = field(default_factory=list)
    """As in ``hooks.health_series``."""

    @classmethod
    def of(cls, book: TallyBook, health: Iterable[dict[str, Any]] = ()) -> Self:
        """What rows cannot tell of a book: the gaps between chunks and the client's health."""
        found: dict[int, dict[str, Histogram]] = {}
        for stage, tally in book.by_stage.items():
            parts = {_GAPS: tally.latency[_GAPS], **tally.health}
            parts.pop(_OF_ROWS, None)
            if kept := {name: histogram for name, histogram in parts.items() if histogram.n}:
                found[stage] = kept
        return cls(found, list(health))

    def __bool__(self) -> bool:
        return bool(self.by_stage or self.health)

    def add_to(self, book: TallyBook) -> None:
        """Add the histograms to the tallies of a book."""
        for stage, parts in self.by_stage.items():
            tally = book.stage(stage)
            for name, histogram in parts.items():
                _place(tally, name).merge(histogram)

    def to_wire(self, number: int) -> dict[str, Any]:
        """Plain values, with the number of the report."""
        stages = {
            str(stage): {name: histogram.to_wire() for name, histogram in parts.items()}
            for stage, parts in self.by_stage.items()
        }
        return {"report": number, "stages": stages, "health": self.health}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_wire`."""
        stages = {
            int(stage): {name: Histogram.from_wire(h) for name, h in parts.items()}
            for stage, parts in wire["stages"].items()
        }
        return cls(stages, list(wire["health"]))


def _place(tally: StageTally, name: str) -> Histogram:
    if name == _GAPS:
        return tally.latency[_GAPS]
    return tally.health.setdefault(name, Histogram())


def spool_header(worker: Mapping[str, Any], run: Mapping[str, Any]) -> bytes:
    """The first line of a spool: the worker (id, index, host), and of ``run.json`` what it knows.

    Neither may hold a secret.
    """
    return json_line(
        {"schema": SPOOL_SCHEMA, "fields": FIELD_NAMES, "worker": worker, "run": run},
    )


def mark_line(mark: PhaseMark) -> bytes:
    """The beginning of a phase as a line."""
    return json_line({"mark": mark_to_wire(mark)})


def aside_line(aside: Aside, number: int) -> bytes:
    """What a report held beyond its rows, as a line."""
    return json_line({"aside": aside.to_wire(number)})


def end_line() -> bytes:
    """The worker itself closed its spool."""
    return json_line({"end": True})


@dataclass(slots=True)
class Spool:
    """One spool as it was read. ``asides`` are by number of report."""

    name: str
    worker: dict[str, Any] | None = None
    """Its id, index and host; None in spools of older versions."""
    run: dict[str, Any] | None = None
    records: list[RequestRecord] = field(default_factory=list)
    marks: list[PhaseMark] = field(default_factory=list)
    asides: dict[int, Aside] = field(default_factory=dict)
    ended: bool = False

    @property
    def worker_id(self) -> str | None:
        """Whose spool it is; None when it is empty and of an older version."""
        if self.worker is not None:
            return str(self.worker["id"])
        return self.records[0].worker if self.records else None

    @property
    def run_ids(self) -> set[str]:
        """The runs that it tells of: one, unless it was garbled."""
        told = {record.run_id for record in self.records}
        return told if self.run is None else told | {str(self.run["run_id"])}


def read_spool(lines: Iterable[bytes], name: str) -> Spool:
    """Read a spool; a line that was never finished is left out, unknown kinds are skipped.

    Raises:
        RunFileError: a newer schema, or a finished line that does not parse.
    """
    spool = Spool(name)
    for number, item in enumerate(read_lines(lines, name), start=1):
        if isinstance(item, RequestRecord):
            spool.records.append(item)
            continue
        try:
            if number == 1:
                spool.worker, spool.run = item.get("worker"), item.get("run")
            elif "mark" in item:
                spool.marks.append(mark_from_wire(item["mark"]))
            elif "aside" in item:
                spool.asides[int(item["aside"]["report"])] = Aside.from_wire(item["aside"])
            elif "end" in item:
                spool.ended = True
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunFileError(f"{name} line {number}: cannot be read ({error})") from None
    return spool
