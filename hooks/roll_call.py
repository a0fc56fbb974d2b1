"""Asks all workers before a run who can take part, and how their wall clocks stand."""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import gevent
from gevent.event import Event
from locust.runners import Runner

from hooks import messages

ROUNDS = 3
"""The quickest one tells the clocks best."""
WAIT_S = 3.0
NOTED_OFFSET_S = 0.5

log = logging.getLogger("swarmgauge")


@dataclass(frozen=True, slots=True)
class WallClock:
    """A worker's wall clock minus the master's, and how far off that may be, in seconds."""

    offset_s: float
    error_s: float

    @classmethod
    def of_round_trip(
        cls, asked_s: float, heard_s: float, answered_s: float, came_s: float
    ) -> "WallClock":
        """From the four instants of a question and its answer: the first and the last on the
        master's clock, the others on the worker's."""
        there_s, back_s = heard_s - asked_s, came_s - answered_s
        travel_s = came_s - asked_s - (answered_s - heard_s)
        return cls((there_s - back_s) / 2, max(0.0, travel_s) / 2)

    def describe(self) -> str | None:
        """A sentence's part when the clocks stand apart; None when they do not to speak of."""
        if abs(self.offset_s) <= max(NOTED_OFFSET_S, self.error_s):
            return None
        way = "ahead of" if self.offset_s > 0 else "behind"
        return (
            f"{abs(self.offset_s):.1f} s (to within {self.error_s:.3f} s) {way} the master's: "
            "its time stamps are shifted, no duration is"
        )


class RollCall:
    """The questions and what was answered; ``troubles`` by client id, ``clocks`` by our names."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._run_id = ""
        self._present: set[str] = set()
        self._came = Event()
        self.troubles: dict[str, str] = {}
        self.clocks: dict[str, WallClock] = {}
        runner.register_message(messages.PRESENT, self._on_present)

    def call(self, question: dict[str, Any], client_ids: Collection[str]) -> None:
        """Ask these workers and wait until they have answered, or a few seconds.

        ``question`` has ``run_id``, ``options`` and ``identity``.
        """
        self._run_id = question["run_id"]
        self.troubles, self.clocks = {}, {}
        asked = set(client_ids)
        for _ in range(ROUNDS):
            self._present.clear()
            for client_id in asked:
                self.ask(question, client_id)
            with gevent.Timeout(WAIT_S, False):
                while asked - self._present:
                    self._came.clear()
                    self._came.wait()
            asked = set(self._present)

    @property
    def sound(self) -> set[str]:
        """Those that have answered that they can take part, by client id."""
        return self._present - set(self.troubles)

    def ask(self, question: dict[str, Any], client_id: str) -> None:
        """Ask one worker without waiting."""
        self._runner.send_message(
            messages.ROLL_CALL, {**question, "asked_s": time.time()}, client_id
        )

    def _on_present(self, environment: Any, msg: Any, **_: Any) -> None:
        came_s, data = time.time(), msg.data
        if data["run_id"] != self._run_id:
            return
        if data["trouble"]:
            self.troubles[data["client_id"]] = data["trouble"]
        clock = WallClock.of_round_trip(
            data["asked_s"], data["heard_s"], data["answered_s"], came_s
        )
        known = self.clocks.get(data["worker"])
        if known is None or clock.error_s < known.error_s:
            self.clocks[data["worker"]] = clock
        self._present.add(data["client_id"])
        self._came.set()
