"""The attempts of one logical request: sent, perhaps refused, waited for, and sent again.

Nothing below this retries: the transports' only second try is that of a kept connection that
turned out closed before any byte of an answer.
"""

import logging
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

import gevent
from gevent import GreenletExit
from gevent.event import Event

from metrics.outcome import Outcome
from metrics.trace_context import traceparent
from stream.limit_headers import LimitHeaders, read_limit_headers
from stream.reply import Reply, ReplyReader
from users.classify import Verdict, classify
from users.retry_policy import AttemptEnd, GiveUp, Retry, status_in_code
from users.run_context import RunContext
from users.slots import Slots
from users.wire import ChatRequest, ChatTransport, WireFacts, WireFailure

log = logging.getLogger("swarmgauge.users")


_STOPPED = "told to stop while it waited to ask"


class UserLeft(GreenletExit):
    """The user closed the tab."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt; instants are ``time.perf_counter``."""

    begun_at_s: float
    """When this client turned to it; it may have waited for a slot after that."""
    facts: WireFacts
    reply: Reply
    verdict: Verdict
    limits: LimitHeaders

    @property
    def over_at_s(self) -> float:
        """When its answer, or the failure, was complete."""
        return self.facts.sent_at_s + self.facts.end_s

    @property
    def client_wait_s(self) -> float:
        """What passed in this client before the attempt was sent, opening a connection apart."""
        return self.facts.sent_at_s - self.begun_at_s - (self.facts.connect_s or 0.0)


@dataclass(slots=True)
class Attempts:
    """All attempts of one logical request, the last of which decides; seconds."""

    made: list[Attempt] = field(default_factory=list)
    retry_wait_s: float = 0.0
    slot_wait_s: float = 0.0
    """Until one of the allowed requests in flight was over; within the attempts' client waits."""
    asked_wait_s: float | None = None
    gave_up: str | None = None
    """Why there was no further attempt although the failure was of a kind that is retried."""
    left: str | None = None
    """Why the user did not wait for an answer; the request then counts as cancelled."""
    interrupt: BaseException | None = None
    """What told this greenlet to stop, to be raised again once the record is written."""
    in_flight_at_send: int = 0

    @property
    def last(self) -> Attempt:
        """The one that decides."""
        return self.made[-1]

    @property
    def lost(self) -> list[Attempt]:
        """Those before it."""
        return self.made[:-1]

    @property
    def outcome(self) -> Outcome:
        """How the logical request ended."""
        if not self.made and self.left == _STOPPED:
            return Outcome.NOT_SENT
        return Outcome.CANCELLED if self.left is not None else self.last.verdict.outcome


def make_attempts(
    context: RunContext,
    transport: ChatTransport,
    request: ChatRequest,
    sequence: int,
    begun_at_s: float,
    leaving: Event | None,
    leave_after_s: float | None,
) -> Attempts:
    """Send until an answer is good, the policy gives up or the user leaves; never raises for it.

    ``begun_at_s`` is when this client turned to the request (``time.perf_counter``).
    ``leaving`` is set when the user is told to stop: it then waits for no further attempt.
    ``leave_after_s`` is when the user closes the tab; None: never.
    """
    attempts = Attempts()
    context.retry_budget.earn()
    context.pending += 1
    with gevent.Timeout(leave_after_s, UserLeft()) as patience:
        try:
            _attempt_again_and_again(
                context, transport, request, sequence, begun_at_s, leaving, attempts
            )
        except GreenletExit as stop:
            # It struck between two attempts, or while the first had to wait.
            attempts.interrupt = stop
            attempts.left = _STOPPED
        finally:
            context.pending -= 1
    if attempts.made and attempts.last.facts.interrupt is not None:
        attempts.interrupt = attempts.last.facts.interrupt
    if attempts.interrupt is patience.exception:
        attempts.interrupt, attempts.left = None, "the user left"
    return attempts


def _attempt_again_and_again(
    context: RunContext,
    transport: ChatTransport,
    request: ChatRequest,
    sequence: int,
    begun_at_s: float,
    leaving: Event | None,
    attempts: Attempts,
) -> None:
    previous_s, chance = 0.0, None
    while True:
        number = len(attempts.made)
        # Servers' logs then tell the attempts of one logical request apart.
        name = f"{request.request_id}.{number}" if number else request.request_id
        if context.slots is not None and not _takes_slot(context.slots, leaving, attempts):
            return
        try:
            trace = traceparent(request.request_id, number, context.settings.traceparent)
            named = ChatRequest(request.body, name, trace)
            attempt = _attempt(context, transport, named, begun_at_s, attempts)
        finally:
            if context.slots is not None:
                context.slots.release()
        attempts.made.append(attempt)
        if attempt.verdict.outcome is Outcome.OK or attempt.facts.interrupt is not None:
            return
        _note_asked_wait(context, attempts, attempt)
        # One source for all waits of a request: a fresh one would repeat its first draw.
        chance = chance or context.chance("backoff", sequence)
        decision = context.retry_policy.decide(_end_of(attempt), number + 1, previous_s, chance)
        if isinstance(decision, GiveUp):
            attempts.gave_up = decision.reason
            return
        if not context.retry_budget.take():
            attempts.gave_up = "the retry budget was spent"
            return
        previous_s = decision.wait_s
        if not _waits(decision, leaving, attempts):
            return
        begun_at_s = time.perf_counter()


def _takes_slot(slots: Slots, leaving: Event | None, attempts: Attempts) -> bool:
    """Wait for a slot; False when the user is told to stop before there is one."""
    asked_at_s = time.perf_counter()
    try:
        taken = slots.take(leaving)
        if not taken:
            attempts.left = _STOPPED
        return taken
    finally:
        attempts.slot_wait_s += time.perf_counter() - asked_at_s


def _attempt(
    context: RunContext,
    transport: ChatTransport,
    request: ChatRequest,
    begun_at_s: float,
    attempts: Attempts,
) -> Attempt:
    context.in_flight += 1
    if not attempts.made:
        attempts.in_flight_at_send = context.in_flight
    asked_at_s = time.perf_counter()
    reader = ReplyReader()
    try:
        facts = transport.post(request, reader)
    except Exception as error:
        # A fault of our own must neither lose the record nor be blamed on the server.
        log.exception("the transport failed")
        failure = WireFailure(Outcome.CLIENT_RESOURCE, f"fault in the client: {error!r}")
        end_s = time.perf_counter() - asked_at_s
        facts = WireFacts(sent_at_s=asked_at_s, end_s=end_s, failure=failure)
    finally:
        context.in_flight -= 1
    reply = reader.close(facts.end_s)
    verdict = classify(reply, facts.failure)
    limits = read_limit_headers(facts.headers, datetime.now(UTC))
    return Attempt(begun_at_s, facts, reply, verdict, limits)


def _end_of(attempt: Attempt) -> AttemptEnd:
    reply, limits = attempt.reply, attempt.limits
    return AttemptEnd(
        outcome=attempt.verdict.outcome,
        status=reply.status,
        output_seen=reply.has_output,
        asked_wait_s=limits.retry_after_s,
        hinted_wait_s=limits.wait_hint_s,
        error_status=status_in_code(reply.error.code) if reply.error is not None else None,
    )


def _note_asked_wait(context: RunContext, attempts: Attempts, attempt: Attempt) -> None:
    if attempt.limits.unreadable and not context.warned_of_limits:
        context.warned_of_limits = True
        names = ", ".join(attempt.limits.unreadable)
        log.warning("what the server says in %s cannot be read; our own backoff is used", names)
    asked_s = attempt.limits.retry_after_s
    if asked_s is not None:
        attempts.asked_wait_s = max(asked_s, attempts.asked_wait_s or 0.0)


def _waits(decision: Retry, leaving: Event | None, attempts: Attempts) -> bool:
    """Wait before a retry; False when the user is told to stop meanwhile."""
    began_at_s = time.perf_counter()
    try:
        if leaving is None:
            gevent.sleep(decision.wait_s)
        elif leaving.wait(decision.wait_s):
            attempts.left = _STOPPED
    finally:
        attempts.retry_wait_s += time.perf_counter() - began_at_s
    return attempts.left is None
