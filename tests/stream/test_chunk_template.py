"""Chunks recognised by their bytes say what the decoder says of them, and nothing is guessed."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stream.chat_events import parse_chunk
from stream.chunk_template import template_of
from stream.reply import Reply, ReplyReader
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


def read(body: bytes, cuts: list[int], templates: bool) -> Reply:
    """The reply to a body fed in pieces of those sizes, each at a time of its own."""
    reader = ReplyReader()
    if not templates:
        reader._untemplated = 10**9
    reader.begin(200, "text/event-stream", 0.01)
    start, at_s = 0, 0.1
    for size in [*cuts, len(body)]:
        reader.feed(body[start : start + size], at_s)
        start += size
        at_s += 0.125
    return reader.close(9.0)


EVENTS = st.one_of(
    ODD_TEXTS.map(lambda text: b"data: " + chunk_bytes(text) + b"\n\n"),
    st.text(st.characters(codec="utf-8"), max_size=4).map(C),
    st.sampled_from(["a", "bc"]).map(C),
    st.sampled_from([R, F(), U(3, 5), T("hm"), b": ping\n\n", b"data: {broken\n\n", b"\n", D]),
    st.sampled_from(["usage", "error"]).map(
        lambda name: b"data: " + chunk_bytes("x", **{name: {"message": "m", "code": 7}}) + b"\n\n"
    ),
)


@given(st.lists(EVENTS, max_size=12), st.lists(st.integers(1, 400), max_size=8))
@example([b"data: " + PLAIN + b"\n\n"] * 4, [len(PLAIN) + 8] * 3)
def test_a_reply_is_the_same_with_templates_and_without(
    events: list[bytes], cuts: list[int]
) -> None:
    """Whatever chunks come, however they are cut: every fact and every time is the decoder's."""
    body = b"".join(events)
    assert read(body, cuts, templates=True) == read(body, cuts, templates=False)
