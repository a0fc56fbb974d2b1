"""Builds one reply from the pieces of its body and the times at which they arrived.

Nothing is judged here: a reply states what was seen, ``users.classify`` decides what it means. All
times are float seconds since the request was sent; the caller reads the clock.
"""

from array import array

from stream.body_kind import HEAD_BYTES, BodyKind, kind_from_bytes, kind_from_head
from stream.chat_chunk import ChatChunk, MalformedChunk, ReplyError, ToolCallKey, Usage
from stream.chat_events import parse_chunk
from stream.chat_reply import Reply, whole_text
from stream.chunk_template import ChunkTemplate, cut_before_run, template_of
from stream.plain_body import PlainReply, read_error_body, read_plain
from stream.sse import SseDecoder

_TAIL_BYTES = 32
_TRIES = 4
"""Templates made for one reply at most: one costs as much as some ten chunks decoded."""

__all__ = ["Reply", "ReplyError", "ReplyReader"]

ERROR_BODY_BYTES = 64 * 1024
PLAIN_BODY_BYTES = 16 * 1024 * 1024
"""More than any chat completion; what exceeds it is counted and not kept."""


class ReplyReader:
    """Reads one answer: ``begin``, then ``feed`` or ``feed_payload``, then ``close``."""

    def __init__(self, keep_text: bool = False) -> None:
        self._kind = BodyKind.UNDECIDED
        self._declared_events = False
        self._status: int | None = None
        self._headers_s: float | None = None
        self._sse = SseDecoder()
        self._body = bytearray()
        self._body_bytes = 0
        self._keepalives = 0
        self._parse_errors = 0
        self.output_at_s: array[float] = array("d")
        """Arrival times of the chunks with output so far; only to be read."""
        self._at_boundary = False
        self._first_answer_s: float | None = None
        self._done = False
        self._template: ChunkTemplate | None = None
        self._untemplated = 0
        self._first_shared = False
        self._choices: set[int] = set()
        self._finish_reasons: dict[int, str] = {}
        self._calls: set[ToolCallKey] = set()
        self._usage: Usage | None = None
        self._error: ReplyError | None = None
        self._model: str | None = None
        self._texts: dict[int, list[str]] | None = {} if keep_text else None

    @property
    def started(self) -> bool:
        """Whether generated output of any kind has been seen in a stream."""
        return bool(self.output_at_s)

    @property
    def outputs(self) -> int:
        """How many chunks with output have been seen."""
        return len(self.output_at_s)

    @property
    def answered(self) -> bool:
        """Whether visible text has been seen in a stream."""
        return self._first_answer_s is not None

    @property
    def first_output_shared(self) -> bool:
        """Whether more came in the first output's piece, whose time is then the last packet's."""
        return self._first_shared

    @property
    def last_output_s(self) -> float | None:
        """When the newest chunk with output arrived; None before the first."""
        return self.output_at_s[-1] if self.output_at_s else None

    @property
    def ordinary(self) -> ChunkTemplate | None:
        """What an event may be compared with now, in place of decoding it; None for not now."""
        return self._template if self._at_boundary else None

    @property
    def done(self) -> bool:
        """Whether ``[DONE]`` has been seen; what follows it is not read."""
        return self._done

    @property
    def failed(self) -> bool:
        """Whether an event of the stream has reported an error."""
        return self._error is not None

    def begin(self, status: int, content_type: str | None, at_s: float) -> None:
        """The response head arrived ``at_s`` seconds after the request was sent."""
        self._status = status
        self._headers_s = at_s
        media_type = (content_type or "").partition(";")[0].strip().lower()
        self._declared_events = media_type == "text/event-stream"
        self._kind = kind_from_head(status, media_type)

    def feed(self, data: bytes, at_s: float) -> None:
        """Bytes of the body, cut anywhere, that arrived at ``at_s``.

        Raises:
            EventTooLarge: one event outgrew the decoder; ``close`` still gives what was read.
        """
        self._body_bytes += len(data)
        template = self._template
        if template is not None and self._at_boundary:
            if template.matches_event(data):
                self.output_at_s.append(at_s)
                return
            data = self._take_run(data, at_s)
            if not data:
                return
        if self._kind is not BodyKind.EVENTS:
            self._keep(data)
            if self._kind is BodyKind.UNDECIDED:
                self._kind = kind_from_bytes(bytes(self._body[:HEAD_BYTES]), self._declared_events)
            if self._kind is not BodyKind.EVENTS:
                return
            data = bytes(self._body)
            self._body.clear()
        if self._done:
            return
        may_run = self._texts is None and self._untemplated < _TRIES
        rest = b""
        if may_run or self._template is not None:
            data, rest = cut_before_run(data, self._template)
        self._feed_events(data, rest, at_s)
        if rest and (rest := self._take_run(rest, at_s)):
            self._feed_events(rest, b"", at_s)

    def take_ordinary(self, body_bytes: int, at_s: float) -> None:
        """In place of ``feed``: the caller has found an event of so many bytes ``ordinary``."""
        self._body_bytes += body_bytes
        self.output_at_s.append(at_s)

    def feed_payload(self, payload: bytes, at_s: float) -> None:
        """The data of one event, from another decoder; read in place of ``feed``."""
        self._body_bytes += len(payload)
        if self._kind in (BodyKind.ERROR, BodyKind.PLAIN):
            self._keep(payload + b"\n")
            return
        self._kind = BodyKind.EVENTS
        self._read(payload, at_s)

    def keepalive(self) -> None:
        """Another decoder saw a comment line."""
        self._keepalives += 1

    def close(self, at_s: float) -> Reply:
        """The body ended, or was given up, at ``at_s``: the reply as far as it was read."""
        plain = read_plain(bytes(self._body)) if self._is_plain() else None
        if plain is not None:
            self._take_plain(plain)
        elif self._kind is BodyKind.ERROR:
            self._error = read_error_body(bytes(self._body))
        reasons = self._finish_reasons
        finished = bool(reasons) and reasons.keys() >= self._choices
        texts = self._texts
        streamed = self._is_streamed()
        return Reply(
            status=self._status,
            streamed=streamed,
            headers_s=self._headers_s,
            output_at_s=self.output_at_s,
            first_output_s=self.output_at_s[0] if self.output_at_s else None,
            first_answer_s=self._first_answer_s,
            last_output_s=self.last_output_s,
            end_s=at_s,
            chunks=len(self.output_at_s),
            keepalives=self._keepalives + self._sse.comments,
            saw_done=self._done,
            finish_reason=reasons[min(reasons)] if finished else None,
            finish_reasons=reasons,
            tool_calls=len(self._calls),
            usage=self._usage,
            error=self._error,
            parse_errors=self._parse_errors,
            pending_tail=streamed and self._sse.pending and not self._done,
            body_bytes=self._body_bytes,
            texts=None if texts is None else {i: whole_text(texts[i]) for i in sorted(texts)},
            has_output=self.started or (plain is not None and plain.has_output),
            wire_shape_ok=plain is not None and plain.shape_ok,
            model=self._model,
        )

    def _is_plain(self) -> bool:
        return bool(self._body) and self._kind in (BodyKind.PLAIN, BodyKind.UNDECIDED)

    def _is_streamed(self) -> bool:
        # An empty body is what its content type says.
        undecided = self._kind is BodyKind.UNDECIDED and self._declared_events
        return self._kind is BodyKind.EVENTS or undecided

    def _keep(self, data: bytes) -> None:
        limit_bytes = ERROR_BODY_BYTES if self._kind is BodyKind.ERROR else PLAIN_BODY_BYTES
        self._body += data[: max(0, limit_bytes - len(self._body))]

    def _take_run(self, data: bytes, at_s: float) -> bytes:
        """Take the ordinary events that a piece begins with; what is left of it."""
        if self._template is None or not self._at_boundary:
            return data
        count, size = self._template.run(data)
        if count:
            self.output_at_s.extend(array("d", (at_s,)) * count)
        return data[size:]

    def _feed_events(self, data: bytes, rest: bytes, at_s: float) -> None:
        """Decode events; ``rest`` came with them and is read later."""
        started = self.started
        payloads = self._sse.feed(data)
        place = self._read_all(payloads, at_s)
        if place is not None and not started:
            # Whatever follows the first output in its piece, a comment too, came later.
            end = payloads[place][-_TAIL_BYTES:]
            self._first_shared = not data.rstrip(b"\r\n").endswith(end)
            self._first_shared |= place + 1 < len(payloads) or bool(rest.strip(b"\r\n"))
        self._at_boundary = self._sse.between_events and not self._done

    def _read_all(self, payloads: list[bytes], at_s: float) -> int | None:
        """The place of the first of these events with output that was decoded; None without."""
        first = None
        for place, payload in enumerate(payloads):
            template = self._template
            if template is not None and not self._done and template.matches(payload):
                # The chunk that the template was made from has already set the first times.
                self.output_at_s.append(at_s)
                continue
            before = len(self.output_at_s)
            self._read(payload, at_s)
            if first is None and len(self.output_at_s) > before:
                first = place
        return first

    def _read(self, payload: bytes, at_s: float) -> None:
        if self._done:
            return
        if not payload.startswith(b"{"):
            word = payload.strip()
            if word == b"[DONE]":
                self._done = True
                return
            if word in (b"", b'""') or word.startswith(b":"):
                self._keepalives += 1
                return
        try:
            chunk = parse_chunk(payload)
        except MalformedChunk:
            self._parse_errors += 1
            return
        if chunk.output:
            if self._untemplated < _TRIES and self._texts is None:
                self._learn(payload, chunk)
            self.output_at_s.append(at_s)
            if chunk.answer and self._first_answer_s is None:
                self._first_answer_s = at_s
        elif chunk.empty:
            self._keepalives += 1
        self._take(chunk)

    def _learn(self, payload: bytes, chunk: ChatChunk) -> None:
        """Look for a template, unless each chunk of this stream is of its own kind."""
        self._untemplated += 1
        self._template = template_of(payload, chunk) or self._template

    def _take(self, chunk: ChatChunk) -> None:
        self._choices.update(chunk.choices)
        if chunk.finish_reasons is not None:
            self._finish_reasons.update(chunk.finish_reasons)
        if chunk.tool_call_starts:
            self._calls |= chunk.tool_call_starts
        if chunk.usage is not None:
            self._usage = chunk.usage if self._usage is None else self._usage.merged(chunk.usage)
        if self._error is None:
            self._error = chunk.error
            if self._error is None and "error" in (chunk.finish_reasons or {}).values():
                self._error = ReplyError(None, "finish_reason", "finished with an error")
        if self._model is None:
            self._model = chunk.model
        if self._texts is not None:
            for delta in chunk.deltas:
                self._texts.setdefault(delta.index, []).append(delta.text)

    def _take_plain(self, plain: PlainReply) -> None:
        self._parse_errors += plain.malformed
        self._choices.update(plain.texts)
        self._finish_reasons.update(plain.finish_reasons)
        self._calls |= plain.tool_calls
        self._usage, self._error, self._model = plain.usage, plain.error, plain.model
        if self._texts is not None:
            self._texts = {index: [text] for index, text in plain.texts.items()}
