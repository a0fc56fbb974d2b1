"""Recognises a stream's ordinary chunk by its bytes, so that most chunks need no JSON decoder.

Within one stream the chunks of an engine differ in nothing but the text they add. Once one of them
has been decoded, a chunk with the same bytes before and after the text says the same again. That
is proved, not guessed: a template is made only if the decoder reads the same members when other
text stands in that place, and a chunk matches only if what stands there is the inside of a JSON
string and not empty, which cannot change the structure. Everything else goes to the decoder.
"""

import re
from dataclasses import dataclass

from msgspec.structs import replace

from stream.chat_chunk import ChatChunk, MalformedChunk
from stream.chat_events import parse_chunk

_MEMBERS = (b'"content":', b'"reasoning_content":', b'"reasoning":')
_OTHER_TEXT = b"~"
LONG_PIECE_BYTES = 4096
"""From here on a piece is worth being cut before a run of ordinary events that it may hold."""


_JSON_TEXT = rb"""(?>
    [ !#-\[\]-~]++                                  # ASCII without quote and backslash
  | \\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})
  | [\xc2-\xdf][\x80-\xbf]                         # the well-formed sequences of UTF-8
  | \xe0[\xa0-\xbf][\x80-\xbf]
  | [\xe1-\xec\xee\xef][\x80-\xbf]{2}
  | \xed[\x80-\x9f][\x80-\xbf]
  | \xf0[\x90-\xbf][\x80-\xbf]{2}
  | [\xf1-\xf3][\x80-\xbf]{3}
  | \xf4[\x80-\x8f][\x80-\xbf]{2}
)++"""
is_json_text = re.compile(_JSON_TEXT, re.VERBOSE).fullmatch
"""Whether bytes are the inside of a JSON string that is not empty: a match or None."""
_json_text = re.compile(_JSON_TEXT, re.VERBOSE).match


@dataclass(frozen=True, slots=True)
class ChunkTemplate:
    """The bytes around the text of a chunk with output: of its data, and of its whole event."""

    before: bytes
    after: bytes
    event_before: bytes
    event_after: bytes
    between: bytes
    """From the text of one event to that of the next."""

    def matches(self, payload: bytes) -> bool:
        """Whether the data of an event differs in nothing but its text, and has one."""
        before, after = self.before, self.after
        return (
            payload.startswith(before)
            and payload.endswith(after)
            and is_json_text(payload, len(before), len(payload) - len(after)) is not None
        )

    def matches_event(self, piece: bytes) -> bool:
        """The same of a piece of the body: one such event, whole, and nothing else."""
        before, after = self.event_before, self.event_after
        return (
            piece.startswith(before)
            and piece.endswith(after)
            and is_json_text(piece, len(before), len(piece) - len(after)) is not None
        )

    def run(self, piece: bytes) -> tuple[int, int]:
        """How many such events a piece begins with, one after the other, and their bytes."""
        between, after = self.between, self.event_after
        if not piece.startswith(self.event_before):
            return 0, 0
        count, end, start = 0, 0, len(self.event_before)
        # Nothing is cut out of the piece: that would cost as much again as comparing it.
        while (text := _json_text(piece, start)) is not None:
            stop = text.end()
            if not piece.startswith(between, stop):
                if piece.startswith(after, stop):
                    return count + 1, stop + len(after)
                break
            count += 1
            end = stop + len(after)
            start = stop + len(between)
        return count, end


def cut_before_run(piece: bytes, template: ChunkTemplate | None) -> tuple[bytes, bytes]:
    """A piece of the body in two, if it is long: the second may begin with ordinary events.

    Without a template the first part holds some events, to show what the ordinary ones are like:
    the first of an answer differ from the others. With one it ends the event that was under way.
    """
    if len(piece) < LONG_PIECE_BYTES:
        return piece, b""
    end = piece.find(b"\n\n", LONG_PIECE_BYTES // 4 if template is None else 0)
    return (piece, b"") if end < 0 else (piece[: end + 2], piece[end + 2 :])


def template_of(payload: bytes, chunk: ChatChunk) -> ChunkTemplate | None:
    """A template from one decoded chunk; None when the chunk is not of the ordinary kind."""
    if not chunk.output or chunk.finish_reasons or chunk.usage or chunk.tool_call_starts:
        return None
    for member in _MEMBERS:
        for opening in (member + b'"', member + b' "'):
            start = payload.find(opening) + len(opening)
            end = payload.find(b'"', start)
            if start < len(opening) or not is_json_text(payload, start, max(start, end)):
                continue
            before, after = payload[:start], payload[end:]
            if _says(before + _OTHER_TEXT + after, chunk) and not _has_output(before + after):
                return ChunkTemplate(
                    before=before,
                    after=after,
                    event_before=b"data: " + before,
                    event_after=after + b"\n\n",
                    between=after + b"\n\ndata: " + before,
                )
    return None


def _says(payload: bytes, chunk: ChatChunk) -> bool:
    """Whether the payload says the same as the chunk in all but the text itself."""
    try:
        other = parse_chunk(payload)
    except MalformedChunk:
        return False
    return replace(other, deltas=()) == replace(chunk, deltas=())


def _has_output(payload: bytes) -> bool:
    try:
        return parse_chunk(payload).output
    except MalformedChunk:
        return True
