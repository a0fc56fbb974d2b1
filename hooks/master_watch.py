"""Tells a worker that its master is gone.

Locust goes on loading the target for a minute then, and ends as if nothing had happened.
"""

import time
from collections.abc import Callable
from typing import Any

import gevent
from locust.runners import WorkerRunner

LIMIT_S = 5.0
"""Locust's master answers a heartbeat every second."""
TURN_S = 0.25
MOST_OF_A_TURN_S = 2 * TURN_S


class Silence:
    """How long nothing was heard while this process was awake, in seconds.

    A process that was paused, or whose event loop was held up, could not have heard anything: of
    one turn at most ``MOST_OF_A_TURN_S`` count.
    """

    def __init__(self) -> None:
        self.awake_s = 0.0

    def heard(self) -> None:
        """The master gave a sign of life."""
        self.awake_s = 0.0

    def turn(self, passed_s: float) -> bool:
        """Count the time since the turn before; whether the master is lost by now."""
        self.awake_s += min(max(0.0, passed_s), MOST_OF_A_TURN_S)
        return self.awake_s > LIMIT_S


class MasterWatch:
    """Calls ``on_lost`` once, with the seconds of silence, when the master is lost.

    It stands in for Locust's own check, which takes a paused machine for a lost master.
    """

    def __init__(self, runner: WorkerRunner, on_lost: Callable[[float], None]) -> None:
        self._silence = Silence()
        self._on_lost = on_lost
        self._runner = runner
        runner.environment.events.heartbeat_received.add_listener(self._on_heartbeat)
        self._watching = gevent.spawn(self._watch)

    def _on_heartbeat(self, **_: Any) -> None:
        self._silence.heard()
        self._runner.last_heartbeat_timestamp = None  # by this Locust's check would go

    def _watch(self) -> None:
        last_s = time.monotonic()
        while True:
            gevent.sleep(TURN_S)
            now_s = time.monotonic()
            if self._silence.turn(now_s - last_s):
                self._on_lost(self._silence.awake_s)
                return
            last_s = now_s
