"""Chunks recognised by their bytes say what the decoder says of them, and nothing is guessed."""

import json
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import stream.chunk_template
from stream.chat_events import parse_chunk
from stream.chunk_template import template_of
from stream.reply import Reply, ReplyReader
from stream.sse import SseDecoder
from tests.support.case_notation import C, D, F, R, T, U

ODD_TEXTS = st.text(max_size=4) | st.sampled_from(
    ['"', "\\", "\n", "", "\ud83d", "é", "你好", "\x7f"]
)


def chunk_bytes(text: object, **members: object) -> bytes:
    """One event's data; ``members`` replace or add members of the chunk."""
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
    return json.dumps({"id": "one", "model": "m", "choices": choices, **members}).encode()


PLAIN = chunk_bytes(" word")


def test_a_chunk_with_other_text_matches() -> None:
    """Any text that a JSON string can hold: escapes and UTF-8 too."""
    template = template_of(PLAIN, parse_chunk(PLAIN))
    assert template is not None
    for text in (b"x", b" longer text, with: marks", rb"\n", rb"\"", rb"\u00e9", "你好".encode()):
        assert template.matches(PLAIN.replace(b" word", text)), text


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(PLAIN.replace(b" word", b""), id="empty"),
        pytest.param(PLAIN.replace(b" word", b'a","role":"b'), id="more-members"),
        pytest.param(PLAIN.replace(b" word", rb"\x"), id="bad-escape"),
        pytest.param(PLAIN.replace(b" word", b"\\"), id="open-escape"),
        pytest.param(PLAIN.replace(b" word", b"\xc3"), id="cut-utf-8"),
        pytest.param(PLAIN.replace(b" word", b"\xed\xa0\x80"), id="surrogate"),
        pytest.param(PLAIN.replace(b" word", b"\t"), id="control"),
        pytest.param(PLAIN[:-1], id="cut"),
        pytest.param(b" " + PLAIN, id="spaced"),
        pytest.param(PLAIN.replace(b'"index": 0', b'"index": 1'), id="other-choice"),
        pytest.param(PLAIN.replace(b"null", b'"stop"'), id="finished"),
        pytest.param(PLAIN.replace(b'"one"', b'"two"'), id="other-id"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_any_other_difference_goes_to_the_decoder(payload: bytes) -> None:
    """Only the text may differ, and it must be the inside of a string that is not empty."""
    template = template_of(PLAIN, parse_chunk(PLAIN))
    assert template is not None
    assert not template.matches(payload)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(chunk_bytes(""), id="no-output"),
        pytest.param(
            chunk_bytes("a", usage={"prompt_tokens": 1, "completion_tokens": 2}), id="usage"
        ),
        pytest.param(chunk_bytes('say "hi"'), id="quoted"),
        pytest.param(
            chunk_bytes(
                "a", choices=[{"delta": {"content": "a", "reasoning": "b"}, "finish_reason": None}]
            ),
            id="two-outputs",
        ),
        pytest.param(
            chunk_bytes("a", choices=[{"delta": {"content": "a"}, "finish_reason": "stop"}]),
            id="finish",
        ),
        pytest.param(chunk_bytes([{"text": "a"}]), id="parts"),
        pytest.param(b'{"choices":[{"delta":{"content":"a","content":"b"}}]}', id="twice"),
        pytest.param(b'{"note":{"content":"a"},"choices":[{"delta":{"tool":1}}]}', id="elsewhere"),
    ],
)
def test_an_unusual_chunk_makes_no_template(payload: bytes) -> None:
    """Where the text is not the one thing that a chunk says, each chunk is decoded."""
    assert template_of(payload, parse_chunk(payload)) is None


def bytes_of_event(text: str) -> bytes:
    """One event of the plain kind with other text."""
    return b"data: " + chunk_bytes(text) + b"\n\n"


def read(body: bytes, cuts: list[int], templates: bool) -> tuple[Reply, bool]:
    """The reply to a body fed in pieces of those sizes, each at a time of its own; and whether
    its first output shared a piece."""
    reader = ReplyReader()
    if not templates:
        reader._untemplated = 10**9
    reader.begin(200, "text/event-stream", 0.01)
    start, at_s = 0, 0.1
    for size in [*cuts, len(body)]:
        reader.feed(body[start : start + size], at_s)
        start += size
        at_s += 0.125
    return reader.close(9.0), reader.first_output_shared


EVENTS = st.one_of(
    ODD_TEXTS.map(lambda text: b"data: " + chunk_bytes(text) + b"\n\n"),
    st.text(st.characters(codec="utf-8"), max_size=4).map(C),
    st.sampled_from(["a", "bc"]).map(C),
    st.sampled_from([R, F(), U(3, 5), T("hm"), b": ping\n\n", b"data: {broken\n\n", b"\n", D]),
    st.sampled_from(["usage", "error"]).map(
        lambda name: b"data: " + chunk_bytes("x", **{name: {"message": "m", "code": 7}}) + b"\n\n"
    ),
)


@pytest.mark.parametrize("long_bytes", [200, 10**9])
@given(
    st.lists(EVENTS | st.just(b"data: " + PLAIN + b"\n\n"), max_size=12),
    st.lists(st.integers(1, 1000), max_size=8),
)
@example([b"data: " + PLAIN + b"\n\n"] * 4, [len(PLAIN) + 8] * 3)
@example([R, *[b"data: " + PLAIN + b"\n\n"] * 9, F(), b": x\n\n", D], [])
@example([b"data: " + PLAIN + b"\n\n"] * 9, [300, 300, 300])
def test_a_reply_is_the_same_with_templates_and_without(
    long_bytes: int, events: list[bytes], cuts: list[int]
) -> None:
    """Whatever chunks come, however they are cut: every fact and every time is the decoder's.

    Whether the first output shares its piece is one of them, and may not depend on how a long
    piece is looked through.
    """
    body = b"".join(events)
    with patch.object(stream.chunk_template, "LONG_PIECE_BYTES", long_bytes):
        assert read(body, cuts, templates=True) == read(body, cuts, templates=False)


EVENT = b"data: " + PLAIN + b"\n\n"


@given(
    st.lists(EVENTS | st.just(EVENT) | ODD_TEXTS.map(bytes_of_event), max_size=9),
    st.binary(max_size=3),
)
@example([EVENT, EVENT], b"")
@example([EVENT, EVENT.replace(b" word", b"a\n\ndata: b")], b"")
def test_a_run_is_the_events_that_match_one_by_one(events: list[bytes], more: bytes) -> None:
    """As many as the piece begins with, and their bytes; whatever follows is left."""
    template = template_of(PLAIN, parse_chunk(PLAIN))
    assert template is not None
    piece = b"".join(events) + more
    count = size = 0
    while (end := piece.find(b"\n\n", size)) >= 0 and template.matches_event(piece[size : end + 2]):
        count, size = count + 1, end + 2
    assert template.run(piece) == (count, size)


def test_a_long_run_is_not_decoded() -> None:
    """200 events in one piece behind the first: the decoders see the few at its ends."""
    body = R + EVENT * 200 + F() + D
    seen, split = [], []
    feed = SseDecoder.feed
    reader = ReplyReader()
    reader.begin(200, "text/event-stream", 0.01)
    with (
        patch("stream.reply.parse_chunk", lambda data: seen.append(data) or parse_chunk(data)),
        patch.object(SseDecoder, "feed", lambda sse, data: split.append(data) or feed(sse, data)),
    ):
        reader.feed(body, 0.1)
    reply = reader.close(1.0)

    assert (reply.chunks, reply.saw_done, reply.finish_reason) == (200, True, "stop")
    assert len(seen) == 3
    assert sum(map(len, split)) < len(body) / 10
