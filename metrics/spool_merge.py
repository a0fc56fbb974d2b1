"""Adds what workers kept in their spools to what a run's folder has; nothing counts twice.

The result is the same whatever the order of the spools, however often they are given, and wherever
they were cut: a request is known by its worker and its sequence, what rows cannot tell by its
worker and the number of the report that it went into.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from metrics.record import FIELD_NAMES, RequestRecord
from metrics.run_files import RunFileError
from metrics.spool import Aside, Numbers, Spool
from metrics.stage import PhaseMark
from metrics.tally import TallyBook


@dataclass(slots=True, kw_only=True)
class Measured:
    """What is known of a run's requests."""

    records: list[RequestRecord] = field(default_factory=list)
    marks: list[PhaseMark] = field(default_factory=list)
    aside: Aside = field(default_factory=Aside)
    reports: dict[str, Numbers] = field(default_factory=dict)
    """By worker: the reports that ``aside`` holds."""

    def book(self) -> TallyBook:
        """The tallies: counts and latencies from the rows, the rest from what workers told."""
        book = TallyBook()
        for record in self.records:
            book.add(record, ())
        self.aside.add_to(book)
        return book


@dataclass(frozen=True, slots=True)
class Added:
    """What the spools of one worker held, and how much of it was not known before."""

    requests: int = 0
    new_requests: int = 0
    new_marks: int = 0
    new_reports: int = 0

    @property
    def anything(self) -> bool:
        """Whether the run is another one now."""
        return bool(self.new_requests or self.new_marks or self.new_reports)


def merge_spools(
    known: Measured, spools: Sequence[Spool], known_name: str
) -> tuple[Measured, dict[str, Added]]:
    """All that is known with the spools, and by worker what they added; ``known`` stays as it is.

    Raises:
        RunFileError: two of them tell different things of the same request or report.
    """
    rows = _Rows()
    for record in known.records:
        rows.add(record, known_name)
    before = set(rows.by_key)
    marks = dict.fromkeys(known.marks)
    marks_before = set(marks)
    for spool in spools:
        for record in spool.records:
            rows.add(record, spool.name)
        marks.update(dict.fromkeys(spool.marks))
    health = {_sample_key(sample): sample for sample in known.aside.health}
    book = TallyBook()
    known.aside.add_to(book)
    reports = {w: Numbers(n.last, set(n.missed)) for w, n in known.reports.items()}
    new_reports: Counter[str] = Counter()
    for worker, number, aside in _asides(spools):
        numbers = reports.setdefault(worker, Numbers())
        if number in numbers:
            continue
        numbers.add(number)
        new_reports[worker] += 1
        aside.add_to(book)
        health.update({_sample_key(sample): sample for sample in aside.health})
    told = {(r.worker, r.sequence) for spool in spools for r in spool.records}
    total, fresh = Counter(w for w, _ in told), Counter(w for w, _ in told - before)
    new_marks = Counter(mark.worker for mark in set(marks) - marks_before)
    workers = {spool.worker_id for spool in spools if spool.worker_id is not None}
    added = {
        worker: Added(total[worker], fresh[worker], new_marks[worker], new_reports[worker])
        for worker in sorted(workers | set(total))
    }
    merged = Measured(
        records=[rows.by_key[key][0] for key in sorted(rows.by_key)],
        marks=sorted(marks, key=lambda mark: (mark.worker, mark.at_s)),
        aside=Aside.of(book, [health[key] for key in sorted(health)]),
        reports=reports,
    )
    return merged, added


def _sample_key(sample: dict[str, Any]) -> tuple[str, float]:
    return str(sample["worker"]), float(sample["at_s"])


class _Rows:
    """Records by worker and sequence, each with the name of the file it was found in first."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, int], tuple[RequestRecord, str]] = {}

    def add(self, record: RequestRecord, name: str) -> None:
        kept, kept_name = self.by_key.setdefault((record.worker, record.sequence), (record, name))
        if kept == record:
            return
        differences = [
            f"{field} is {getattr(kept, field)!r} there and {getattr(record, field)!r} here"
            for field in FIELD_NAMES
            if getattr(kept, field) != getattr(record, field)
        ]
        raise RunFileError(
            f"request {record.sequence} of worker {record.worker} is not the same in {kept_name} "
            f"(there) and {name} (here): {'; '.join(differences)}; one of them is not what the "
            "worker wrote: leave it out"
        )


def _asides(spools: Iterable[Spool]) -> list[tuple[str, int, Aside]]:
    """Each report's once, in an order of their own, so that sums come out the same."""
    found: dict[tuple[str, int], tuple[Aside, str]] = {}
    for spool in spools:
        if spool.worker_id is None:
            continue
        for number, aside in spool.asides.items():
            kept, name = found.setdefault((spool.worker_id, number), (aside, spool.name))
            if kept != aside:
                raise RunFileError(
                    f"report {number} of worker {spool.worker_id} is not the same in {name} and "
                    f"{spool.name}: one of them is not what the worker wrote: leave it out"
                )
    return [(worker, number, found[worker, number][0]) for worker, number in sorted(found)]
