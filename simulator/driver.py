"""Runs the engine against the wall clock inside an asyncio loop.

One timer serves all streams: it fires at the end of the engine's current step, hands each
stream its tokens and is set again for the next.  Steps are timed by the engine's own clock, so a
loop that runs late catches up and never drifts.
"""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from enum import Enum, auto

from simulator.engine import Engine
from simulator.events import (
    AdmitEvent,
    EngineRequest,
    FinishEvent,
    PreemptEvent,
    QueueEvent,
    Submission,
    TokenEvent,
)
from simulator.metrics_page import MetricsPage
from simulator.request_log import QueueTrace

# uvloop counts timers in whole milliseconds and may round down: a timer that fires early would
# find nothing to do and spin.
_TIMER_GRAIN_S = 0.001


class TicketState(Enum):
    LIVE = auto()
    FINISHED = auto()
    CANCELLED = auto()  # the client hung up
    CUT = auto()  # the server shuts down


@dataclass(slots=True, eq=False)
class Ticket:
    """One accepted request while the engine works on it; `tokens` is what it gave so far.

    `admitted` tells when it got its slot, and what it waited for; None until then.
    """

    request: EngineRequest
    submitted_at_s: float
    state: TicketState = TicketState.LIVE
    tokens: int = 0
    admitted: AdmitEvent | None = None
    _seen_tokens: int = 0
    _waiter: asyncio.Future[None] | None = None

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that the prefix cache held; 0 before it has a slot."""
        return self.admitted.cached_tokens if self.admitted else 0

    async def progress(self) -> TicketState:
        """The state, once there are tokens that were not seen before or it is not LIVE."""
        if self.tokens == self._seen_tokens and self.state is TicketState.LIVE:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._seen_tokens = self.tokens
        return self.state

    def wake(self) -> None:
        """Let `progress` look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Driver:
    """Engine, timer and open tickets.  To be used from one loop only."""

    def __init__(self, engine: Engine, page: MetricsPage, trace: QueueTrace) -> None:
        self.engine = engine
        self._page = page
        self._trace = trace
        self._tickets: dict[str, Ticket] = {}
        self._timer: asyncio.TimerHandle | None = None

    def submit(self, request: EngineRequest) -> tuple[Submission, Ticket]:
        """Hand a request to the engine; the ticket means nothing if it was refused."""
        now_s = time.monotonic()
        self._run(now_s)  # so that counts and limits are those of this instant
        submission = self.engine.submit(request, now_s)
        ticket = Ticket(request, now_s)
        if submission.refusal is None:
            self._tickets[request.request_id] = ticket
            self._set_timer(now_s)
        return submission, ticket

    def cancel(self, ticket: Ticket, state: TicketState = TicketState.CANCELLED) -> None:
        """Take a request out of the engine, which frees its slot; no effect once it has ended.

        Tokens that were due but not handed out yet are not counted: nobody will read them.
        """
        if ticket.state is not TicketState.LIVE:
            return
        self.engine.cancel(ticket.request.request_id)
        del self._tickets[ticket.request.request_id]
        self._page.count_finished("abort")
        ticket.state = state
        ticket.wake()
        self._set_timer(time.monotonic())

    def cut_all(self) -> None:
        """Break off every open request."""
        for ticket in list(self._tickets.values()):
            self.cancel(ticket, TicketState.CUT)

    def _on_timer(self) -> None:
        self._timer = None
        now_s = time.monotonic()
        self._run(now_s)
        self._set_timer(now_s)

    def _run(self, now_s: float) -> None:
        events = self.engine.advance(now_s)
        self._page.observe(events)
        touched: dict[Ticket, None] = {}
        for event in events:
            if isinstance(event, QueueEvent):
                self._trace.write(event)
                continue
            if isinstance(event, PreemptEvent):
                continue
            ticket = self._tickets[event.request_id]
            if isinstance(event, TokenEvent):
                ticket.tokens = event.ordinal
                touched[ticket] = None
            elif isinstance(event, AdmitEvent):
                ticket.admitted = event
            elif isinstance(event, FinishEvent):
                ticket.state = TicketState.FINISHED
                del self._tickets[event.request_id]
        for ticket in touched:
            ticket.wake()

    def _set_timer(self, now_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_at_s = self.engine.next_event_at_s()
        if next_at_s is None:
            return
        delay_s = max(0.0, next_at_s - now_s)
        delay_s = math.ceil(delay_s / _TIMER_GRAIN_S) * _TIMER_GRAIN_S
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)
