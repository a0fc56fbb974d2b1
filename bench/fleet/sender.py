"""Plays the workers of a fleet to a master over Locust's own line, in one process and one thread.

Each has a socket of its own, answers as a worker does, sends its heartbeats, and once a second what
was made up for it.
"""

import heapq
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import locust
import zmq
from locust.rpc.protocol import Message
from locust.stats import RequestStats

from bench.fleet.made_up import RUN_ID, USER_CLASS, MadeUp, locust_part
from hooks import messages
from metrics.stage import Phase

PERIOD_S = 1.0
MODEL = "made-up"


@dataclass(slots=True)
class _Played:
    """One worker as it stands."""

    made_up: MadeUp
    socket: Any
    state: str = "ready"
    users: int = 0
    sent: int = 0
    ended: bool = False
    idle: RequestStats = field(default_factory=lambda: RequestStats(use_response_times_cache=False))

    def send(self, kind: str, data: Any) -> None:
        self.socket.send(Message(kind, data, self.made_up.client_id).serialize())


class FleetSender:
    """The fleet; on the monotonic clock ``began_s`` is when the hold was announced, ``sent_s`` when
    the last report went out, ``finished_s`` when the master asked for the end."""

    def __init__(self, workers: Sequence[MadeUp], port: int) -> None:
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._workers: dict[Any, _Played] = {}
        for made_up in workers:
            socket = self._context.socket(zmq.DEALER)
            socket.setsockopt(zmq.IDENTITY, made_up.client_id.encode())
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.connect(f"tcp://127.0.0.1:{port}")
            self._workers[socket] = _Played(made_up, socket)
            self._poller.register(socket, zmq.POLLIN)
        self._due: list[tuple[float, int, str, _Played]] = []
        self._run_id = b""
        self.began_s: float | None = None
        self.sent_s: float | None = None
        self.finished_s: float | None = None

    def join(self) -> None:
        """Say that all are ready."""
        now_s = time.monotonic()
        for number, played in enumerate(self._workers.values()):
            played.send("client_ready", locust.__version__)
            # Machines are not in step: the reports of a second come one after the other.
            at_s = now_s + number * PERIOD_S / len(self._workers)
            for kind in ("heartbeat", "stats"):
                heapq.heappush(self._due, (at_s, number, kind, played))

    @property
    def ended(self) -> bool:
        """Whether the master has sent all of them home."""
        return all(played.ended for played in self._workers.values())

    def turn(self, longest_s: float) -> None:
        """Send what is due and answer what came, for no longer than this."""
        until_s = time.monotonic() + longest_s
        while (now_s := time.monotonic()) < until_s and not self.ended:
            while self._due and self._due[0][0] <= now_s:
                at_s, number, kind, played = heapq.heappop(self._due)
                self._send_due(kind, played, now_s)
                heapq.heappush(self._due, (at_s + PERIOD_S, number, kind, played))
            next_s = min(until_s, self._due[0][0] if self._due else until_s)
            for socket, _ in self._poller.poll(max(0.0, 1e3 * (next_s - now_s))):
                self._answer(self._workers[socket], Message.unserialize(socket.recv()))

    def close(self) -> None:
        """Leave; what was not sent by now is not sent."""
        self._context.destroy(linger=0)

    def _send_due(self, kind: str, played: _Played, now_s: float) -> None:
        if played.ended:
            return
        if kind == "heartbeat":
            usage = {"current_cpu_usage": 10.0, "current_memory_usage": 0}
            played.send("heartbeat", {"state": played.state, **usage})
        elif self.began_s is None or played.sent == len(played.made_up.stats):
            played.send("stats", locust_part(played.idle, played.users))
        else:
            self._replay(played, now_s)

    def _replay(self, played: _Played, now_s: float) -> None:
        packed = played.made_up.stats[played.sent]
        played.socket.send(packed.replace(RUN_ID.encode(), self._run_id))
        played.sent += 1
        if all(one.sent == len(one.made_up.stats) for one in self._workers.values()):
            self.sent_s = now_s

    def _answer(self, played: _Played, message: Message) -> None:
        kind, data = message.type, message.data
        if kind == messages.PREFLIGHT:
            nothing = {"error": None, "notices": [], "requests": 0, "proxy": None}
            told = {"run_id": data["run_id"], "model": MODEL, "include_usage": True, **nothing}
            played.send(messages.PREFLIGHT_RESULT, told)
        elif kind == messages.ROLL_CALL:
            self._say_present(played, data)
        elif kind == messages.BEGIN:
            self._begin(data["run_id"])
        elif kind == messages.PHASE and data["phase"] == Phase.HOLD.value:
            self.began_s = self.began_s or time.monotonic()
        elif kind == messages.FINISH:
            self.finished_s = self.finished_s or time.monotonic()
            # What is late would come after the last report: a worker never sends it so.
            while played.sent < len(played.made_up.stats):
                self._replay(played, time.monotonic())
            played.socket.send(played.made_up.final.replace(RUN_ID.encode(), self._run_id))
        elif kind in ("spawn", "stop", "quit"):
            self._obey(played, kind, data)

    def _begin(self, run_id: str) -> None:
        self._run_id = run_id.encode()
        if len(self._run_id) != len(RUN_ID):
            raise SystemExit(f"the run's id {run_id} is not as long as {RUN_ID}")

    def _say_present(self, played: _Played, data: dict[str, Any]) -> None:
        now_s = time.time()
        told = {name: data[name] for name in ("run_id", "asked_s")}
        me = {"client_id": played.made_up.client_id, "worker": played.made_up.name}
        clocks = {"heard_s": now_s, "answered_s": now_s}
        played.send(messages.PRESENT, {**told, **me, **clocks, "trouble": None})

    @staticmethod
    def _obey(played: _Played, kind: str, data: Any) -> None:
        if kind == "spawn":
            played.users = sum(data["user_classes_count"].values())
            played.send("spawning", None)
            users = {"user_classes_count": {USER_CLASS: played.users}, "user_count": played.users}
            played.send("spawning_complete", users)
            played.state = "running"
        elif kind == "stop":
            played.users, played.state = 0, "ready"
            played.send("client_stopped", None)
            played.send("client_ready", locust.__version__)
        else:
            played.ended = True
            played.send("quit", None)
