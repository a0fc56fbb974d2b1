"""One logical request from wanting to record: the part of a user that knows no Locust."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from metrics.latency import arrived_in_one_lump, chunk_gaps_s, max_gap_s
from metrics.outcome import Outcome, ReadMode, TokenSource
from metrics.record import RequestRecord
from stream.reply import Reply, ReplyReader
from users.classify import Verdict, classify
from users.run_context import RunContext
from users.wire import ChatRequest, ChatTransport, WireFacts, WireFailure
from workloads.prompts import Prompt

_SERVED_BY = ("x-litellm-model-id", "x-served-by", "x-envoy-upstream-service", "server")


log = logging.getLogger("swarmgauge.users")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user wants, and who it is; ``think_s`` is the pause before it.

    ``due_at_s`` is when a schedule wanted it (``time.perf_counter``); None: now.
    """

    user: int
    user_class: str
    prompt: Prompt
    body: bytes
    stream: bool
    asked_max_tokens: int | None
    think_s: float
    due_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The record of one logical request, its chunk gaps (s) and a pending order to stop."""

    record: RequestRecord
    gaps_s: Sequence[float]
    interrupt: BaseException | None


def ask(context: RunContext, transport: ChatTransport, wish: Wish) -> Answer:
    """Send one logical request and say all that is known of it; never raises for a failed one."""
    sequence = context.next_sequence()
    begun_at_s = time.perf_counter()
    wanted_at_s = begun_at_s if wish.due_at_s is None else wish.due_at_s
    schedule_delay_s = begun_at_s - wanted_at_s
    started_at = _wall_time(schedule_delay_s)
    stage, phase = context.place_at(wanted_at_s)
    phase = context.phase_of_record(phase)
    started_s = wanted_at_s - context.joined_at_s
    context.in_flight += 1
    in_flight = context.in_flight
    reader = ReplyReader()
    request_id = f"{context.run_id}-{context.worker}-{sequence}"
    try:
        facts = transport.post(ChatRequest(wish.body, request_id), reader)
    except Exception as error:
        # A fault of our own must neither lose the record nor be blamed on the server.
        log.exception("the transport failed")
        failure = WireFailure(Outcome.CLIENT_RESOURCE, f"fault in the client: {error!r}")
        end_s = time.perf_counter() - begun_at_s
        facts = WireFacts(sent_at_s=begun_at_s, end_s=end_s, failure=failure)
    finally:
        context.in_flight -= 1
    reply = reader.close(facts.end_s)
    verdict = classify(reply, facts.failure)
    usage = reply.usage
    completion_tokens = usage.completion_tokens if usage is not None else None
    buffered = reply.streamed and arrived_in_one_lump(reply.output_at_s, completion_tokens)
    waited_s = facts.sent_at_s - wanted_at_s
    streamed = reply.streamed
    gaps_known = streamed and facts.read_mode is ReadMode.FULL
    last_token_s = reply.last_output_s if streamed else None
    record = RequestRecord(
        run_id=context.run_id,
        worker=context.worker,
        user=wish.user,
        sequence=sequence,
        stage=None if stage is None else stage.id,
        phase=phase,
        user_class=wish.user_class,
        traffic_class="interactive",
        prompt_id=wish.prompt.prompt_id,
        prefix_id=wish.prompt.prefix_id,
        started_at=started_at,
        started_s=started_s,
        schedule_delay_s=schedule_delay_s,
        client_wait_s=max(0.0, waited_s - schedule_delay_s - (facts.connect_s or 0.0)),
        connect_s=facts.connect_s,
        headers_s=reply.headers_s,
        ttft_s=reply.first_output_s if streamed else None,
        ttfa_s=reply.first_answer_s if streamed else None,
        last_token_s=last_token_s,
        end_s=facts.end_s,
        user_ttft_s=_plus(waited_s, reply.first_output_s if streamed else None),
        user_latency_s=waited_s + (facts.end_s if last_token_s is None else last_token_s),
        think_s=wish.think_s,
        streamed=streamed,
        stream_asked=wish.stream,
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
        asked_max_tokens=wish.asked_max_tokens,
        in_flight_at_send=in_flight,
        **_outcome_fields(verdict, reply, context),
        **_transport_fields(facts, request_id, context),
    )
    gaps_s = chunk_gaps_s(reply.output_at_s) if gaps_known else ()
    return Answer(record, gaps_s, facts.interrupt)


def not_sent(context: RunContext, wish: Wish, reason: str) -> Answer:
    """The record of an arrival that was due and that this client never sent."""
    due_s = time.perf_counter() if wish.due_at_s is None else wish.due_at_s
    stage, phase = context.place_at(due_s)
    late_s = time.perf_counter() - due_s
    record = RequestRecord(
        run_id=context.run_id,
        worker=context.worker,
        user=wish.user,
        sequence=context.next_sequence(),
        stage=None if stage is None else stage.id,
        phase=context.phase_of_record(phase),
        user_class=wish.user_class,
        traffic_class="interactive",
        prompt_id=wish.prompt.prompt_id,
        prefix_id=wish.prompt.prefix_id,
        started_at=_wall_time(late_s),
        started_s=due_s - context.joined_at_s,
        schedule_delay_s=late_s,
        end_s=0.0,
        user_latency_s=late_s,
        streamed=False,
        stream_asked=wish.stream,
        asked_max_tokens=wish.asked_max_tokens,
        outcome=Outcome.NOT_SENT,
        error_sample=reason,
        attempts=0,
    )
    return Answer(record, (), None)


def _wall_time(ago_s: float) -> str:
    moment = datetime.now(UTC) - timedelta(seconds=ago_s)
    return moment.isoformat(timespec="microseconds")


def _outcome_fields(verdict: Verdict, reply: Reply, context: RunContext) -> dict[str, object]:
    masker = context.masker
    return {
        "outcome": verdict.outcome,
        "status": reply.status,
        "error_code": masker.sample(verdict.error_code) if verdict.error_code else None,
        "error_sample": masker.sample(verdict.message) if verdict.message else None,
        "rate_limited_attempts": int(reply.status == 429),
    }


def _transport_fields(facts: WireFacts, request_id: str, context: RunContext) -> dict[str, object]:
    headers = facts.headers
    served_by = next((headers[name] for name in _SERVED_BY if headers.get(name)), None)
    return {
        "connection_reused": facts.connection_reused,
        "connections_opened": facts.connections_opened,
        "reconnects": facts.reconnects,
        "sent_bytes": facts.sent_bytes,
        "received_bytes": facts.received_bytes,
        "stamp_source": facts.stamp_source,
        "client_delay_s": facts.client_delay_s,
        "merged_reads": facts.merged_reads,
        "read_mode": facts.read_mode,
        "ttft_late_max_s": facts.ttft_late_max_s,
        "noticed_late_s": facts.noticed_late_s,
        "served_by": context.masker.sample(served_by) if served_by else None,
        "request_id": request_id,
        "limit_requests": _whole(headers, "x-ratelimit-limit-requests"),
        "remaining_requests": _whole(headers, "x-ratelimit-remaining-requests"),
        "limit_tokens": _whole(headers, "x-ratelimit-limit-tokens"),
        "remaining_tokens": _whole(headers, "x-ratelimit-remaining-tokens"),
    }


def _whole(headers: Mapping[str, str], name: str) -> int | None:
    value = headers.get(name, "").strip()
    return int(value) if value.isdecimal() and len(value) < 16 else None


def _plus(waited_s: float, measured_s: float | None) -> float | None:
    return None if measured_s is None else waited_s + measured_s


def failure_text(outcome: Outcome, status: int | None, error_code: str | None) -> str:
    """What Locust's own failure table groups by: few texts, whatever servers write."""
    if status is not None and status != 200:
        return f"{outcome.value} (HTTP {status})"
    return (
        outcome.value
        if not error_code or error_code == outcome.value
        else (f"{outcome.value} ({error_code})")
    )
