"""Workers that were away for a while, or for good: a part of a stage was not run as planned."""

from collections.abc import Mapping, Set
from typing import Any


class Absences:
    """Notes in which stages a worker went missing or came back, and for how long it was missed.

    Locust misses a worker seconds after it fell silent: it went missing from the stage in which it
    was heard last up to that in which it was missed. What lies between that and its return was
    planned without it and is as good as any.
    """

    def __init__(self) -> None:
        self._gone: dict[str, tuple[float, frozenset[int]]] = {}
        self._missed_s: dict[tuple[str, int], float] = {}

    def check(
        self,
        heard_in: Mapping[str, int | None],
        alive: Set[str],
        stage: int | None,
        now_s: float,
    ) -> list[str]:
        """Look at the fleet; asked about once a second. The workers that are missed from now on.

        ``heard_in`` has each known worker's stage of its last report.
        """
        missed = sorted(set(heard_in) - alive - set(self._gone))
        for worker in missed:
            self._gone[worker] = now_s, _from_to(heard_in[worker], stage)
        for worker, (since_s, gone_in) in list(self._gone.items()):
            for one in gone_in:
                self._note(worker, one, now_s - since_s)
            if worker in alive:
                if stage is not None:
                    self._note(worker, stage, now_s - since_s)
                del self._gone[worker]
        return missed

    def _note(self, worker: str, stage: int, missed_s: float) -> None:
        self._missed_s[worker, stage] = missed_s

    def of(self, worker: str) -> list[dict[str, Any]]:
        """The stages of a worker's absences, and for how many seconds it was missed."""
        return [
            {"stage": stage, "missed_s": round(missed_s, 1)}
            for (name, stage), missed_s in sorted(self._missed_s.items())
            if name == worker
        ]


def _from_to(first: int | None, last: int | None) -> frozenset[int]:
    if first is None or last is None:
        return frozenset({first, last} - {None})
    return frozenset(range(min(first, last), last + 1))
