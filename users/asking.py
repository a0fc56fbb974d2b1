"""One logical request from wanting to record: the part of a user that knows no Locust."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gevent.event import Event

from metrics.latency import arrived_in_one_lump, chunk_gaps_s, max_gap_s
from metrics.outcome import Outcome, ReadMode, TokenSource
from metrics.record import RequestRecord
from users.attempts import Attempt, Attempts, make_attempts
from users.run_context import RunContext
from users.wire import ChatRequest, ChatTransport
from workloads.prompts import Prompt

_SERVED_BY = ("x-litellm-model-id", "x-served-by", "x-envoy-upstream-service", "server")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user wants, and who it is; ``think_s`` is the pause before it.

    ``due_at_s`` is when a schedule wanted it (``time.perf_counter``); None: now.
    ``leave_after_s`` is how long its user stays, from the first attempt on; None: to the end.
    ``leaving`` is set once the user is told to stop: it then waits for no retry.
    """

    user: int
    user_class: str
    prompt: Prompt
    body: bytes
    stream: bool
    asked_max_tokens: int | None
    think_s: float
    due_at_s: float | None = None
    leave_after_s: float | None = None
    leaving: Event | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The record of one logical request, its chunk gaps (s) and a pending order to stop."""

    record: RequestRecord
    gaps_s: Sequence[float]
    interrupt: BaseException | None


def ask(context: RunContext, transport: ChatTransport, wish: Wish) -> Answer:
    """Ask until there is an answer and say all that is known of it; never raises for a failure."""
    begun_at_s = time.perf_counter()
    wanted_at_s = begun_at_s if wish.due_at_s is None else wish.due_at_s
    identity = _identity(context, wish, wanted_at_s, begun_at_s - wanted_at_s)
    sequence = identity["sequence"]
    request = ChatRequest(wish.body, f"{context.run_id}-{context.worker}-{sequence}")
    attempts = make_attempts(
        context, transport, request, sequence, begun_at_s, wish.leaving, wish.leave_after_s
    )
    if not attempts.made:
        waited_s = attempts.slot_wait_s
        left = attempts.left
        record = _never_sent(identity, wish, attempts.outcome, left, wanted_at_s, waited_s)
        return Answer(record, (), attempts.interrupt)
    context.note_outcome(attempts.outcome)
    last = attempts.last
    facts, reply = last.facts, last.reply
    usage = reply.usage
    completion_tokens = usage.completion_tokens if usage is not None else None
    buffered = reply.streamed and arrived_in_one_lump(reply.output_at_s, completion_tokens)
    waited_s = facts.sent_at_s - wanted_at_s
    streamed = reply.streamed
    gaps_known = streamed and facts.read_mode is ReadMode.FULL
    last_token_s = reply.last_output_s if streamed else None
    client_wait_s = sum(made.client_wait_s for made in attempts.made)
    record = RequestRecord(
        **identity,
        client_wait_s=max(0.0, client_wait_s),
        connect_s=facts.connect_s,
        headers_s=reply.headers_s,
        ttft_s=reply.first_output_s if streamed else None,
        ttfa_s=reply.first_answer_s if streamed else None,
        last_token_s=last_token_s,
        end_s=facts.end_s,
        user_ttft_s=_plus(waited_s, reply.first_output_s if streamed else None),
        user_latency_s=waited_s + (facts.end_s if last_token_s is None else last_token_s),
        streamed=streamed,
        chunks=reply.chunks,
        max_gap_s=max_gap_s(reply.output_at_s) if gaps_known else None,
        keepalives=reply.keepalives,
        buffered=buffered,
        saw_done=reply.saw_done,
        finish_reason=reply.finish_reason,
        tool_calls=reply.tool_calls,
        prompt_tokens=usage.prompt_tokens if usage is not None else None,
        completion_tokens=completion_tokens,
        cached_tokens=usage.cached_tokens if usage is not None else None,
        reasoning_tokens=usage.reasoning_tokens if usage is not None else None,
        token_source=TokenSource.UNKNOWN if completion_tokens is None else TokenSource.SERVER,
        in_flight_at_send=attempts.in_flight_at_send,
        **_outcome_fields(attempts, context),
        **_retry_fields(attempts, wanted_at_s),
        **_transport_fields(attempts, request.request_id, context),
    )
    gaps_s = chunk_gaps_s(reply.output_at_s) if gaps_known else ()
    return Answer(record, gaps_s, attempts.interrupt)


def not_sent(context: RunContext, wish: Wish, reason: str) -> Answer:
    """The record of an arrival that was due and that this client never sent."""
    due_s = time.perf_counter() if wish.due_at_s is None else wish.due_at_s
    identity = _identity(context, wish, due_s, time.perf_counter() - due_s)
    return Answer(_never_sent(identity, wish, Outcome.NOT_SENT, reason, due_s), (), None)


def _identity(
    context: RunContext, wish: Wish, wanted_at_s: float, schedule_delay_s: float
) -> dict[str, Any]:
    """What is known of a logical request before anything is sent."""
    stage, phase = context.place_at(wanted_at_s)
    return {
        "run_id": context.run_id,
        "worker": context.worker,
        "user": wish.user,
        "sequence": context.next_sequence(),
        "stage": None if stage is None else stage.id,
        "phase": context.phase_of_record(phase),
        "user_class": wish.user_class,
        "traffic_class": "interactive",
        "prompt_id": wish.prompt.prompt_id,
        "prefix_id": wish.prompt.prefix_id,
        "started_at": _wall_time(schedule_delay_s),
        "started_s": wanted_at_s - context.joined_at_s,
        "schedule_delay_s": schedule_delay_s,
        "think_s": wish.think_s,
        "stream_asked": wish.stream,
        "asked_max_tokens": wish.asked_max_tokens,
    }


def _never_sent(
    identity: dict[str, Any],
    wish: Wish,
    outcome: Outcome,
    reason: str | None,
    wanted_at_s: float,
    slot_wait_s: float = 0.0,
) -> RequestRecord:
    return RequestRecord(
        **identity,
        client_wait_s=slot_wait_s,
        end_s=0.0,
        user_latency_s=time.perf_counter() - wanted_at_s,
        streamed=False,
        outcome=outcome,
        error_sample=reason,
        attempts=0,
    )


def _wall_time(ago_s: float) -> str:
    moment = datetime.now(UTC) - timedelta(seconds=ago_s)
    return moment.isoformat(timespec="microseconds")


def _outcome_fields(attempts: Attempts, context: RunContext) -> dict[str, Any]:
    masker, verdict = context.masker, attempts.last.verdict
    said = [text for text in (attempts.left, verdict.message) if text]
    if attempts.gave_up:
        said.insert(0, f"gave up: {attempts.gave_up};")
    return {
        "outcome": attempts.outcome,
        "status": attempts.last.reply.status,
        "error_code": masker.sample(verdict.error_code) if verdict.error_code else None,
        "error_sample": masker.sample(" ".join(said)) if said else None,
    }


def _retry_fields(attempts: Attempts, wanted_at_s: float) -> dict[str, Any]:
    """The ledger: what was sent, refused, waited for and wasted."""
    made, lost = attempts.made, attempts.lost
    useless = lost if attempts.outcome is Outcome.OK else made
    usages = [attempt.reply.usage for attempt in made]
    told = [usage.prompt_tokens for usage in usages if usage is not None]
    # It is one prompt, so that what one answer says of it holds for the others.
    prompt_tokens = next((tokens for tokens in told if tokens is not None), 0)
    made_in_vain = [a.reply.usage.completion_tokens for a in useless if a.reply.usage is not None]
    return {
        "attempts": len(made),
        "rate_limited_attempts": sum(attempt.reply.status == 429 for attempt in made),
        "retry_wait_s": attempts.retry_wait_s,
        "asked_wait_s": attempts.asked_wait_s,
        "wasted_tokens": sum(tokens or 0 for tokens in made_in_vain),
        "wasted_prompt_tokens": prompt_tokens * sum(map(_reached, useless)),
        "lost_sent_s": tuple(attempt.facts.sent_at_s - wanted_at_s for attempt in lost),
        "lost_end_s": tuple(attempt.over_at_s - wanted_at_s for attempt in lost),
        "lost_status": tuple(attempt.reply.status or 0 for attempt in lost),
    }


def _reached(attempt: Attempt) -> bool:
    return attempt.verdict.outcome.reached_wire


def _transport_fields(attempts: Attempts, request_id: str, context: RunContext) -> dict[str, Any]:
    facts, limits = attempts.last.facts, attempts.last.limits
    headers = facts.headers
    served_by = next((headers[name] for name in _SERVED_BY if headers.get(name)), None)
    every = [attempt.facts for attempt in attempts.made]
    return {
        "connection_reused": facts.connection_reused,
        "connections_opened": sum(one.connections_opened for one in every),
        "reconnects": sum(one.reconnects for one in every),
        "sent_bytes": sum(one.sent_bytes for one in every),
        "received_bytes": sum(one.received_bytes for one in every),
        "stamp_source": facts.stamp_source,
        "client_delay_s": facts.client_delay_s,
        "merged_reads": facts.merged_reads,
        "read_mode": facts.read_mode,
        "ttft_late_max_s": facts.ttft_late_max_s,
        "noticed_late_s": facts.noticed_late_s,
        "served_by": context.masker.sample(served_by) if served_by else None,
        "request_id": request_id,
        "limit_requests": limits.limit_requests,
        "remaining_requests": limits.remaining_requests,
        "limit_tokens": limits.limit_tokens,
        "remaining_tokens": limits.remaining_tokens,
        "reset_s": limits.shortest_reset_s,
    }


def _plus(waited_s: float, measured_s: float | None) -> float | None:
    return None if measured_s is None else waited_s + measured_s


class FailureTexts:
    """What Locust's own failure table groups by: few texts, whatever servers write.

    Some servers put a request's own number into the code, and each text is a row there for good.
    """

    def __init__(self) -> None:
        self._run_id: str | None = None
        self._codes: set[str] = set()

    def of(self, record: RequestRecord) -> str:
        """The text of a request that did not succeed; the first codes of a run stay apart."""
        outcome, status, code = record.outcome, record.status, record.error_code
        if status is not None and status != 200:
            return f"{outcome.value} (HTTP {status})"
        if not code or code == outcome.value:
            return outcome.value
        if record.run_id != self._run_id:
            self._run_id, self._codes = record.run_id, set()
        if len(self._codes) < _MOST_CODES:
            self._codes.add(code)
        return f"{outcome.value} ({code if code in self._codes else 'another code'})"


_MOST_CODES = 20
