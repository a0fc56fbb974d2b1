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


class EventTooLarge(ValueError):
    """One event outgrew the decoder's limit; the decoder must not be fed again."""


class SseDecoder:
    """Incremental decoder; the payloads do not depend on how the body was cut into pieces."""

    __slots__ = ("_after_cr", "_held", "_held_bytes", "_limit_bytes", "_start", "_tail", "comments")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.comments = 0
        """Lines that began with a colon."""
        self._limit_bytes = max_event_bytes
        self._start: bytes | None = b""
        self._after_cr = False
        self._tail = bytearray()
        self._held: list[bytes] = []
        self._held_bytes = 0

    @property
    def pending(self) -> bool:
        """Whether bytes are held that make no event yet; at the end they are lost."""
        return bool(self._tail or self._held or self._start)

    @property
    def between_events(self) -> bool:
        """Whether the next byte begins a line, and that line an event."""
        return not (self._tail or self._held or self._after_cr) and self._start is None

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next piece; return the data of the events that it completes.

        An event without data lines gives nothing; one with an empty data line gives ``b""``.

        Raises:
            EventTooLarge: one event, or one line, is longer than ``max_event_bytes``. Events of the
                same piece that were complete are lost.
        """
        if self._after_cr or self._start is not None or b"\r" in data:
            data = self._with_lf(data)
        if b"\n" not in data:
            self._keep(data)
            return []
        if not self._held and b"\n\n" in data and len(data) + len(self._tail) <= self._limit_bytes:
            events = self._plain_events(data)
            return self._read_lines(data) if events is None else events
        return self._read_lines(data)

    def _read_lines(self, data: bytes) -> list[bytes]:
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._tail:
            lines[0] = bytes(self._tail) + lines[0]
            self._tail.clear()
        events: list[bytes] = []
        held = self._held
        for line in lines:
            if not line:
                if held:
                    events.append(held[0] if len(held) == 1 else b"\n".join(held))
                    held.clear()
                    self._held_bytes = 0
            elif self._held_bytes + len(line) > self._limit_bytes:
                raise self._too_large()
            elif line.startswith(b"data: "):
                held.append(line[6:])
                self._held_bytes += len(line) + 1
            else:
                self._read_other(line)
        if rest:
            self._keep(rest)
        return events

    def _plain_events(self, data: bytes) -> list[bytes] | None:
        """The events of a piece in which each is one ``data: `` line; None when any is not.

        Nearly every piece is so. Split where an event's end meets the next one's beginning: when
        no other line end is left, every part is one line and what it begins with is known.
        """
        text = bytes(self._tail) + data if self._tail else data
        if not text.startswith(b"data: "):
            return None
        events = text.split(b"\n\ndata: ")
        line_ends = text.count(b"\n") - 2 * (len(events) - 1)
        rest = b""
        if line_ends == 2 and text.endswith(b"\n\n"):
            events[-1] = events[-1][:-2]
        elif line_ends == 0:
            rest = b"data: " + events.pop()
        else:
            return None
        events[0] = events[0][6:]
        self._tail[:] = rest
        return events

    def _with_lf(self, data: bytes) -> bytes:
        """The piece without a byte-order mark at offset 0, its line ends made LF."""
        if self._start is not None:
            start = self._start + data
            if len(start) < len(_BOM) and _BOM.startswith(start):
                self._start = start
                return b""
            self._start = None
            data = start.removeprefix(_BOM)
        if self._after_cr and data:
            # The CR ended its line at once; this LF only completes it.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _read_other(self, line: bytes) -> None:
        if line.startswith(b":"):
            self.comments += 1
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._held.append(value)
            self._held_bytes += len(line) + 1

    def _keep(self, rest: bytes) -> None:
        if self._held_bytes + len(self._tail) + len(rest) > self._limit_bytes:
            raise self._too_large()
        # A bytearray grows in place: joining bytes would copy a long line once for each piece.
        self._tail += rest

    def _too_large(self) -> EventTooLarge:
        self._tail.clear()
        self._held.clear()
        return EventTooLarge(f"an event is longer than {self._limit_bytes} bytes")
