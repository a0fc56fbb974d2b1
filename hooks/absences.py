"""Workers that were away for a while and came back: a part of a stage was not run as planned."""

from collections.abc import Set
from typing import Any


class Absences:
    """Notes in which stages a worker went missing or came back, and for how long it was missed.

    What lies between those two stages was planned without it and is as good as any.
    """

    def __init__(self) -> None:
        self._gone: dict[str, tuple[float, int | None]] = {}
        self._missed_s: dict[tuple[str, int], float] = {}

    def check(self, known: Set[str], alive: Set[str], stage: int | None, now_s: float) -> list[str]:
        """Look at the fleet; asked about once a second. The workers that are missed from now on."""
        missed = sorted(known - alive - set(self._gone))
        for worker in missed:
            self._gone[worker] = now_s, stage
        for worker, (since_s, gone_in) in list(self._gone.items()):
            self._note(worker, gone_in, now_s - since_s)
            if worker in alive:
                self._note(worker, stage, now_s - since_s)
                del self._gone[worker]
        return missed

    def _note(self, worker: str, stage: int | None, missed_s: float) -> None:
        if stage is not None:
            self._missed_s[worker, stage] = missed_s

    def of(self, worker: str) -> list[dict[str, Any]]:
        """The stages of a worker's absences, and for how many seconds it was missed."""
        return [
            {"stage": stage, "missed_s": round(missed_s, 1)}
            for (name, stage), missed_s in sorted(self._missed_s.items())
            if name == worker
        ]
