"""Server-sent events: body bytes in, the data of each complete event out.

The rules are those of the WHATWG HTML standard, "Interpreting an event stream": a line ends with
LF, CRLF or CR; a byte-order mark at offset 0 is skipped; one space after the colon is framing; the
``data`` lines of one event are joined with LF; an event that no blank line ends is dropped. Bytes
are never decoded here, so that a character cut by a read cannot be damaged.

Only ``data`` matters to a chat endpoint: ``event``, ``id``, ``retry`` and unknown fields are read
over. Deviation: memory is bounded, see :class:`EventTooLarge`.
"""

MAX_EVENT_BYTES = 1 << 20
"""A chat event is some hundred bytes; one with logprobs of many tokens may reach 100 kB."""

_BOM = b"\xef\xbb\xbf"
_LF = 10


class EventTooLarge(ValueError):
    """One event outgrew the decoder's limit; the decoder must not be fed again."""


class SseDecoder:
    """Incremental decoder; the payloads do not depend on how the body was cut into pieces."""

    __slots__ = (
        "_after_cr",
        "_head",
        "_limit_bytes",
        "_lines",
        "_lines_bytes",
        "_tail",
        "comments",
    )

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.comments = 0
        """Lines that began with a colon."""
        self._limit_bytes = max_event_bytes
        self._head: bytes | None = b""
        self._after_cr = False
        self._tail = bytearray()
        self._lines: list[bytes] = []
        self._lines_bytes = 0

    @property
    def pending(self) -> bool:
        """Whether bytes are held that make no event yet; at the end they are lost."""
        return bool(self._tail or self._lines or self._head)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next piece; return the data of the events that it completes.

        An event without data lines gives nothing; one with an empty data line gives ``b""``.

        Raises:
            EventTooLarge: one event, or one line, is longer than ``max_event_bytes``. Events of the
                same piece that were complete are lost.
        """
        if self._head is not None:
            data = self._without_bom(data)
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == _LF:
                data = data[1:]
        if b"\r" in data:
            # A CR ends its line at once; an LF that opens the next piece then belongs to it.
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._tail:
            if not lines:
                self._keep(rest)
                return []
            lines[0] = bytes(self._tail) + lines[0]
            self._tail.clear()
        events = self._read_lines(lines) if lines else []
        if rest:
            self._keep(rest)
        return events

    def _without_bom(self, data: bytes) -> bytes:
        start = (self._head or b"") + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._head = start
            return b""
        self._head = None
        return start.removeprefix(_BOM)

    def _keep(self, rest: bytes) -> None:
        if self._lines_bytes + len(self._tail) + len(rest) > self._limit_bytes:
            raise self._too_large()
        # A bytearray grows in place: joining bytes would copy a long line once for each piece.
        self._tail += rest

    def _read_lines(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        held = self._lines
        held_bytes, limit_bytes = self._lines_bytes, self._limit_bytes
        for line in lines:
            if not line:
                if held:
                    events.append(held[0] if len(held) == 1 else b"\n".join(held))
                    held.clear()
                    held_bytes = 0
                continue
            if held_bytes + len(line) > limit_bytes:
                raise self._too_large()
            if line.startswith(b"data: "):
                held.append(line[6:])
            elif line.startswith(b"data:"):
                held.append(line[5:])
            elif line == b"data":
                held.append(b"")
            else:
                self.comments += line.startswith(b":")
                continue
            held_bytes += len(line) + 1
        self._lines_bytes = held_bytes
        return events

    def _too_large(self) -> EventTooLarge:
        self._tail.clear()
        self._lines.clear()
        return EventTooLarge(f"an event is longer than {self._limit_bytes} bytes")
