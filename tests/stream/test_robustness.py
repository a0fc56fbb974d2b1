"""No bytes, however broken, raise anything but the documented errors."""

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from stream.chat_chunk import MalformedChunk
from stream.chat_events import parse_chunk
from stream.plain_body import read_error_body, read_plain
from stream.reply import ReplyReader
from stream.sse import EventTooLarge, SseDecoder
from tests.stream.playing import untimed
from tests.support.case_notation import C, D, F, R, T, U

MEMBERS = st.sampled_from(
    [
        "choices",
        "delta",
        "message",
        "content",
        "usage",
        "error",
        "index",
        "finish_reason",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "prompt_tokens",
        "prompt_tokens_details",
        "object",
        "code",
        "detail",
    ]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=4),
    max_leaves=12,
)
EVENTS = st.sampled_from([R, C("a"), T("b"), F(), U(3, 2), D, b"data: x\n\n", b": c\n\n", b"\r"])
BODIES = st.lists(EVENTS | st.binary(max_size=12), max_size=8).map(b"".join)


@given(st.binary(max_size=200) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_payload_is_a_chunk_or_malformed(payload: bytes) -> None:
    """Bytes and JSON of any shape: a chunk, or ``MalformedChunk``; bodies never raise at all."""
    with suppress(MalformedChunk):
        parse_chunk(payload)
    read_plain(payload)
    assert len(read_error_body(payload).message) <= 500


@given(BODIES, st.integers(1, 40))
def test_any_body_gives_a_reply(body: bytes, size: int) -> None:
    """Whatever arrives under whatever head, the reply closes and no cut changes it."""
    for status, content_type in ((200, "text/event-stream"), (200, None), (503, None)):
        replies = []
        for step in (size, max(1, len(body))):
            reader = ReplyReader(keep_text=True)
            reader.begin(status, content_type, 0.0)
            for start in range(0, len(body), step):
                reader.feed(body[start : start + step], 1.0)
            replies.append(untimed(reader.close(2.0)))
        # Comments after [DONE] count or not, as they share a piece with it or not.
        for reply in replies:
            reply.pop("keepalives")
        assert replies[0] == replies[1]


@given(BODIES, st.integers(1, 40))
def test_a_small_limit_refuses_or_passes(body: bytes, limit_bytes: int) -> None:
    """Under a small limit each body decodes or is refused; what comes out is within the limit."""
    try:
        payloads = SseDecoder(limit_bytes).feed(body)
    except EventTooLarge:
        return
    assert all(len(payload) <= limit_bytes for payload in payloads)
