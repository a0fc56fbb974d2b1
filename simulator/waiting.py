"""Where requests wait: the engine's queue, and a front that may hold them back before it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from simulator.events import EngineRequest, Event, QueueEvent, QueueName


@dataclass(slots=True, eq=False)
class Sequence:
    """One request from its arrival to its last token."""

    request: EngineRequest
    arrived_at_s: float  # in the engine's queue, which may be after its time in the front
    could_start_at_s: float  # end of the step under way when it came
    last_token_at_s: float
    front_s: float = 0.0
    admitted_before: bool = False
    prefill_left_tokens: int = 0
    generated_tokens: int = 0
    kv_tokens: int = 0


class WaitingRoom:
    """Both queues.  The front lets at most `front_slots` requests through at a time; None is no
    front."""

    def __init__(self, front_slots: int | None) -> None:
        self._front_slots = front_slots
        self.front: deque[Sequence] = deque()
        self.queue: deque[Sequence] = deque()
        self._untold: list[Event] = []  # what happened between two calls of `advance`
        self._told: set[QueueName] = set()  # queues last told to be non-empty

    def add(self, sequence: Sequence, running: int) -> None:
        """Let a new request into the queue, or into the front if that is full."""
        slots = self._front_slots
        if slots is None or (not self.front and len(self.queue) + running < slots):
            self.queue.append(sequence)
            return
        self.front.append(sequence)
        self._tell(QueueName.FRONT, sequence.arrived_at_s, len(self.front), running, self._untold)

    def remove(self, request_id: str) -> bool:
        """Forget a request; False if it does not wait here."""
        for queue in (self.queue, self.front):
            for sequence in queue:
                if sequence.request.request_id == request_id:
                    queue.remove(sequence)
                    return True
        return False

    def first_arrival_s(self) -> float | None:
        """When the next in line came; None if nobody waits."""
        line = self.queue or self.front
        return line[0].arrived_at_s if line else None

    def untold(self) -> list[Event]:
        """Events since the last call."""
        events, self._untold = self._untold, []
        return events

    def pass_front(self, now_s: float, running: int, events: list[Event]) -> None:
        """Let through what the front has room for; for the engine they come now."""
        slots = self._front_slots
        if slots is None:
            return
        front, queue = self.front, self.queue
        while front and len(queue) + running < slots and front[0].arrived_at_s <= now_s:
            sequence = front.popleft()
            sequence.front_s = now_s - sequence.arrived_at_s
            sequence.arrived_at_s = sequence.could_start_at_s = sequence.last_token_at_s = now_s
            queue.append(sequence)
        self._tell(QueueName.FRONT, now_s, len(front), running, events)

    def tell_left(self, now_s: float, running: int, events: list[Event]) -> int:
        """How many requests a step that starts now has left behind; tells when that changes."""
        left = self._left(now_s)
        self._tell(QueueName.ENGINE, now_s, left, running, events)
        return left

    def tell_empty(self, now_s: float, running: int, events: list[Event]) -> None:
        """Tell of queues whose last request hung up: there may be no next step to do it."""
        if not self.queue:
            self._tell(QueueName.ENGINE, now_s, 0, running, events)
        if not self.front:
            self._tell(QueueName.FRONT, now_s, 0, running, events)

    def _left(self, now_s: float) -> int:
        queue = self.queue
        if not queue or queue[0].arrived_at_s > now_s:
            return 0
        if queue[-1].arrived_at_s <= now_s:
            return len(queue)
        # A late caller has handed in what comes after this step.
        return sum(sequence.arrived_at_s <= now_s for sequence in queue)

    def _tell(
        self, queue: QueueName, now_s: float, waiting: int, running: int, events: list[Event]
    ) -> None:
        if (waiting > 0) == (queue in self._told):
            return
        self._told ^= {queue}
        in_flight = len(self.front) + len(self.queue) + running
        events.append(QueueEvent(queue, now_s, waiting, running, in_flight))
