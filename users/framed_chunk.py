"""Recognises a read that is one HTTP chunk with one ordinary event, before any parser sees it.

That is what a stream's reads are, nearly always: a line with the chunk's length, an event that
differs from those before in its text alone, and the end of a line. The length is checked, and what
is not so in every byte goes to the parser.
"""

import re

from stream.chunk_template import ChunkTemplate, is_json_text

_LENGTHS_KEPT = 64
_length_line = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n").match
_LINE_END = b"\r\n"


class FramedChunk:
    """The bytes around the text of one stream's ordinary chunk, by the size of the whole read."""

    __slots__ = ("_befores", "_event_before", "after", "template")

    def __init__(self, template: ChunkTemplate) -> None:
        self.template = template
        self._event_before = template.event_before
        self.after = template.event_after + _LINE_END
        """The bytes with which such a chunk ends."""
        self._befores: dict[int, bytes] = {}

    def body_bytes(self, read: bytes) -> int:
        """The size of the event that the read is, framing left out; 0 when it is anything else."""
        before = self._befores.get(len(read)) or self._before(read)
        after = self.after
        if (
            before
            and read.startswith(before)
            and read.endswith(after)
            and is_json_text(read, len(before), len(read) - len(after))
        ):
            return len(read) - len(before) + len(self._event_before) - len(_LINE_END)
        return 0

    def _before(self, read: bytes) -> bytes:
        """What a read of this size begins with, written as this server writes lengths; or b""."""
        line = _length_line(read)
        if line is None or int(line[1], 16) != len(read) - line.end() - len(_LINE_END):
            return b""
        if len(self._befores) >= _LENGTHS_KEPT:
            self._befores.clear()
        before = self._befores[len(read)] = line[0] + self._event_before
        return before
