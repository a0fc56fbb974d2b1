"""One answer as it was seen, whole or as far as it came; all times are seconds since the send."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from stream.chat_chunk import ReplyError, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What was seen of one answer. ``streamed`` is about the answer, whatever was asked for."""

    status: int | None
    """None when no response head arrived."""
    streamed: bool
    headers_s: float | None
    output_at_s: "array[float]"
    """Arrival times of the chunks with generated output; empty for a plain answer."""
    first_output_s: float | None
    first_answer_s: float | None
    """First visible text; None for a reply that is all reasoning, and for a plain one."""
    last_output_s: float | None
    end_s: float
    chunks: int
    """Chunks with generated output."""
    keepalives: int
    """Comment lines and events without meaning."""
    saw_done: bool
    finish_reason: str | None
    """Of the lowest choice index; None until every choice seen has finished."""
    finish_reasons: Mapping[int, str]
    tool_calls: int
    usage: Usage | None
    error: ReplyError | None
    """From an event, a 2xx body, or the body of a non-2xx answer (where it is never None)."""
    parse_errors: int
    """Events, or one plain body, that were not JSON objects."""
    pending_tail: bool
    """The stream ended inside an event; that event was dropped."""
    body_bytes: int
    texts: Mapping[int, str] | None
    """Visible text by choice index; None unless it was asked to be kept."""
    has_output: bool
    wire_shape_ok: bool
    """A plain 2xx body is a chat completion; False for streams and for errors."""
    model: str | None


def whole_text(parts: list[str]) -> str:
    """The parts as one text; halves of a character that two chunks carried are put together."""
    text = "".join(parts)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
