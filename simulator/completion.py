"""POST /v1/chat/completions: one request from its first header to its line in the log."""

from __future__ import annotations

import asyncio
import hmac
import time
from dataclasses import dataclass
from uuid import uuid4

from simulator.asgi import (
    BodyTooLarge,
    ClientGone,
    Headers,
    Receive,
    Scope,
    Send,
    body_part,
    header,
    read_body,
    respond,
    response_start,
    wait_for_hang_up,
)
from simulator.chat import ChatRequest, parse_chat
from simulator.driver import Driver, Ticket, TicketState
from simulator.errors import ApiError
from simulator.events import EngineRequest
from simulator.metrics_page import MetricsPage
from simulator.prefix_cache import block_keys
from simulator.profile import Buffering
from simulator.refusals import limit_headers, refusal_error
from simulator.reply import Reply, plan_reply
from simulator.request_log import LogEntry, Outcome, RequestLog, short_sha256, utc_now
from simulator.sse import ChunkWriter, Usage, completion_body

_MAX_BODY_BYTES = 32 * 1024 * 1024

# A write that took longer than this has waited for the reader: its bytes left at its end.
_BLOCKED_WRITE_S = 0.1


_EVENT_STREAM: Headers = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
)


class ConnectionCut(Exception):
    """Ends a response in the middle, which makes uvicorn close the connection."""


@dataclass(slots=True)
class Exchange:
    """One request while it is served."""

    entry: LogEntry
    send: Send
    headers: Headers = ()

    def elapsed_s(self) -> float:
        """Seconds since the request was received."""
        return round(time.monotonic() - self.entry.received_monotonic_s, 6)

    async def write(self, body: bytes, more: bool) -> float:
        """Send part of the body; when it left, in seconds since the request was received."""
        before_s = self.elapsed_s()
        await self.send(body_part(body, more))
        after_s = self.elapsed_s()
        return after_s if after_s - before_s > _BLOCKED_WRITE_S else before_s


class CompletionEndpoint:
    """Serves chat completions for one model."""

    def __init__(
        self,
        driver: Driver,
        page: MetricsPage,
        log: RequestLog,
        model: str,
        seed: int,
        api_key: str | None,
    ) -> None:
        self._driver = driver
        self._profile = driver.engine.profile
        self._page = page
        self._log = log
        self._model = model
        self._seed = seed
        self._api_key = api_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; its log line is written however it ends."""
        exchange = Exchange(self._new_entry(scope), send)
        entry = exchange.entry
        try:
            await self._serve(exchange, scope, receive)
        except ApiError as error:
            entry.status, entry.error_code = error.status, error.code
            entry.outcome = Outcome.REJECTED
            headers = exchange.headers + error.headers
            await respond(send, error.status, error.body(), "application/json", headers)
        except ClientGone:
            entry.outcome = Outcome.CANCELLED
        except BaseException:
            entry.outcome = entry.outcome or Outcome.ERROR
            raise
        finally:
            entry.end_s = exchange.elapsed_s()
            self._log.write(entry)

    def check_key(self, scope: Scope) -> None:
        """Raises ApiError 401 if a key is required and not given."""
        if self._api_key is None:
            return
        given = (header(scope, "authorization") or "").encode("latin-1")
        if not hmac.compare_digest(given, f"Bearer {self._api_key}".encode()):
            raise ApiError(401, "Missing or wrong API key", "invalid_api_key", kind="auth_error")

    def _new_entry(self, scope: Scope) -> LogEntry:
        received_s = time.monotonic()
        client = scope.get("client")
        return LogEntry(
            id=f"chatcmpl-{uuid4().hex}",
            received_at=utc_now(),
            received_monotonic_s=received_s,
            connection=f"{client[0]}:{client[1]}" if client else None,
            headers=[name.decode("latin-1").lower() for name, _ in scope["headers"]],
            request_id=header(scope, "x-request-id"),
        )

    async def _serve(self, exchange: Exchange, scope: Scope, receive: Receive) -> None:
        entry = exchange.entry
        exchange.headers = (("x-request-id", entry.request_id or entry.id),)
        self.check_key(scope)
        try:
            body = await read_body(receive, _MAX_BODY_BYTES)
        except BodyTooLarge:
            raise ApiError(413, "The body is over 32 MiB", "request_too_large") from None
        request = parse_chat(body, self._model, self._profile.context_tokens)
        self._describe(entry, request)
        reply = plan_reply(request, self._seed, self._profile.mean_output_tokens)
        ticket = self._submit(exchange, request, reply)
        entry.queued_s = round(ticket.submitted_at_s - entry.received_monotonic_s, 6)
        hang_up = asyncio.ensure_future(wait_for_hang_up(receive))
        hang_up.add_done_callback(lambda _: self._driver.cancel(ticket))
        try:
            if request.stream:
                await self._stream(exchange, request, reply, ticket)
            else:
                await self._answer(exchange, reply, ticket)
        except BaseException:
            self._driver.cancel(ticket, TicketState.CUT)
            raise
        finally:
            hang_up.cancel()
            self._conclude(entry, reply, ticket)
        if ticket.state is TicketState.CUT:
            raise ConnectionCut

    def _describe(self, entry: LogEntry, request: ChatRequest) -> None:
        entry.model = request.model
        entry.stream = request.stream
        entry.prompt_tokens = len(request.prompt)
        entry.max_tokens = request.asked_max_tokens
        entry.system_sha256 = short_sha256(request.system_text)
        entry.user_sha256 = short_sha256(request.user_text)

    def _submit(self, exchange: Exchange, request: ChatRequest, reply: Reply) -> Ticket:
        profile, entry = self._profile, exchange.entry
        keys = block_keys(request.prompt, profile.prefix_block_tokens)
        submission, ticket = self._driver.submit(
            EngineRequest(
                request_id=entry.id,
                prompt_tokens=len(request.prompt),
                output_tokens=len(reply.pieces),
                block_keys=keys if profile.prefix_cache else (),
                charged_tokens=len(request.prompt) + request.max_tokens,
            )
        )
        entry.queued_behind = submission.waiting_before
        entry.running_at_arrival = submission.running_before
        if profile.limit_hints:
            exchange.headers += limit_headers(self._driver.engine.limits(time.monotonic()))
        if submission.refusal is not None:
            raise refusal_error(submission.refusal, profile.limit_hints)
        return ticket

    async def _stream(
        self, exchange: Exchange, request: ChatRequest, reply: Reply, ticket: Ticket
    ) -> None:
        entry, interval_tokens = exchange.entry, self._profile.stream_interval_tokens
        writer = ChunkWriter(reply, entry.id, int(time.time()), self._model, interval_tokens)
        buffering = self._profile.buffering
        state = TicketState.LIVE
        if buffering is Buffering.ANSWER:
            state = await self._whole(ticket)
            if state is not TicketState.FINISHED:
                return
        entry.status = 200
        await exchange.send(response_start(200, _EVENT_STREAM + exchange.headers))
        head = writer.role()
        if buffering is Buffering.ROLE_FIRST:
            await exchange.write(head, more=True)
            head = b""
            state = await self._whole(ticket)
        while True:
            if state is TicketState.LIVE:
                state = await ticket.progress()
            if state in (TicketState.CANCELLED, TicketState.CUT):
                return
            chunks = writer.output(ticket.tokens)
            finished = state is TicketState.FINISHED
            ending = b""
            if finished:
                usage = self._usage(entry, reply, ticket) if request.include_usage else None
                ending = writer.ending(usage)
            if not chunks and not ending:
                continue
            sent_s = await exchange.write(head + b"".join(chunks) + ending, more=not finished)
            head = b""
            entry.completion_tokens = writer.written_tokens
            entry.chunk_sent_s += [sent_s] * len(chunks)
            if finished:
                return

    async def _whole(self, ticket: Ticket) -> TicketState:
        """How a request ended, once it has."""
        while (state := await ticket.progress()) is TicketState.LIVE:
            pass
        return state

    async def _answer(self, exchange: Exchange, reply: Reply, ticket: Ticket) -> None:
        entry = exchange.entry
        if await self._whole(ticket) is not TicketState.FINISHED:
            return
        usage = self._usage(entry, reply, ticket)
        body = completion_body(reply, entry.id, int(time.time()), self._model, usage)
        entry.status = 200
        entry.first_sent_s = entry.last_sent_s = exchange.elapsed_s()
        await respond(exchange.send, 200, body, "application/json", exchange.headers)
        entry.completion_tokens = usage.completion_tokens

    def _usage(self, entry: LogEntry, reply: Reply, ticket: Ticket) -> Usage:
        return Usage(
            prompt_tokens=entry.prompt_tokens or 0,
            completion_tokens=len(reply.pieces),
            cached_tokens=ticket.cached_tokens,
            reasoning_tokens=reply.reasoning_tokens,
        )

    def _conclude(self, entry: LogEntry, reply: Reply, ticket: Ticket) -> None:
        entry.reasoning_tokens = min(reply.reasoning_tokens, entry.completion_tokens)
        if (admitted := ticket.admitted) is not None:
            entry.front_s = round(admitted.front_s, 6)
            entry.queue_s = round(admitted.queue_s, 6)
            entry.held_s = round(admitted.held_s, 6)
            entry.admitted_s = round(admitted.at_s - entry.received_monotonic_s, 6)
            entry.cached_tokens = admitted.cached_tokens
        if entry.chunk_sent_s:
            entry.first_sent_s, entry.last_sent_s = entry.chunk_sent_s[0], entry.chunk_sent_s[-1]
        if ticket.state is TicketState.FINISHED:
            entry.outcome, entry.finish_reason = Outcome.OK, reply.finish_reason
            self._page.count_finished("length" if reply.finish_reason == "length" else "stop")
        elif ticket.state is TicketState.CANCELLED:
            entry.outcome = Outcome.CANCELLED
        else:
            entry.outcome, entry.error_code = Outcome.ERROR, "shutdown"
