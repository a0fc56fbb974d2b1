"""The event-stream decoder: framing, line ends, limits, and two other decoders beside it."""

import itertools
import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sseclient import SSEClient

from stream.sse import EventTooLarge, SseDecoder
from tests.support.case_scripts import one_script

BOM = b"\xef\xbb\xbf"


def decoded(*pieces: bytes, limit_bytes: int = 1 << 20) -> list[bytes]:
    decoder = SseDecoder(limit_bytes)
    return [payload for piece in pieces for payload in decoder.feed(piece)]


def reference(body: bytes) -> list[bytes]:
    """The standard's rules, written for plainness and not for speed."""
    blocks: list[list[bytes]] = [[]]
    lines = re.split(rb"\r\n|\r|\n", body.removeprefix(BOM))
    # What follows the last line end is not a line.
    for line in lines[:-1]:
        if line == b"":
            blocks.append([])
        else:
            blocks[-1].append(line)
    payloads = []
    for block in blocks[:-1]:
        data = [line.partition(b":")[2] for line in block if line.split(b":", 1)[0] == b"data"]
        if data:
            payloads.append(b"\n".join(value.removeprefix(b" ") for value in data))
    return payloads


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        pytest.param(b"data:x\n\n", [b"x"], id="no-space"),
        pytest.param(b"data: x\n\n", [b"x"], id="one-space"),
        pytest.param(b"data:   x\n\n", [b"  x"], id="three-spaces"),
        pytest.param(b"data\n\n", [b""], id="field-without-colon"),
        pytest.param(b"data:\n\n", [b""], id="empty-data"),
        pytest.param(b"data: a\ndata:\ndata: b\n\n", [b"a\n\nb"], id="three-lines"),
        pytest.param(b": note\n\n", [], id="comment-alone"),
        pytest.param(b": note\ndata: x\n\n", [b"x"], id="comment-above"),
        pytest.param(b"event: error\nid: 7\nretry: 3\ndata: x\n\n", [b"x"], id="other-fields"),
        pytest.param(b"retry: 3000\n\ndata: x\n\n", [b"x"], id="event-without-data"),
        pytest.param(b"database: x\n\n", [], id="longer-field-name"),
        pytest.param(b" data: x\n\n", [], id="space-before-field"),
        pytest.param(b"data: a\n\n\n\ndata: b\n\n", [b"a", b"b"], id="many-blank-lines"),
        pytest.param(
            "data: a\u2028b\x0bc\n\n".encode(), ["a\u2028b\x0bc".encode()], id="not-a-line-end"
        ),
        pytest.param(b"data: x\n", [], id="unterminated-event"),
        pytest.param(b"data: x", [], id="unterminated-line"),
        pytest.param(BOM + b"data: x\n\n", [b"x"], id="byte-order-mark"),
        pytest.param(b"data: x\n\n" + BOM + b"data: y\n\n", [b"x"], id="later-mark-is-a-name"),
    ],
)
def test_F01_F10_framing_follows_the_standard(body: bytes, payloads: list[bytes]) -> None:
    """Each framing gives these payloads, whole and one byte at a time."""
    assert payloads == decoded(body)
    assert payloads == decoded(*(bytes((value,)) for value in body))


@pytest.mark.parametrize(
    "newline",
    [b"\n", b"\r\n", b"\r"],
    ids=["lf", "crlf", "cr"],
)
def test_payloads_do_not_depend_on_the_line_end(newline: bytes) -> None:
    """The three line ends of the standard give the same payloads, cut at any position."""
    body = BOM + b": hi\ndata: a\ndata: b\n\ndata:c\n\n".replace(b"\n", newline)

    for cut in range(len(body) + 1):
        assert decoded(body[:cut], body[cut:]) == [b"a\nb", b"c"]


def test_a_line_end_of_cr_does_not_wait_for_the_next_piece() -> None:
    """A CR at the end of a piece ends its line at once: a token is not held back."""
    assert decoded(b"data: x\r\r") == [b"x"]


def test_F09_lines_of_one_event_are_joined() -> None:
    """Three data lines are one payload with two line feeds in it."""
    assert decoded(one_script("F09").body)[0].count(b"\n") == 2


def test_comments_are_counted() -> None:
    """Each line that begins with a colon counts, wherever it stands."""
    decoder = SseDecoder()
    decoder.feed(b": a\n\n:\ndata: x\n: b\n\nevent: x\n\n")

    assert decoder.comments == 3


@pytest.mark.parametrize(
    ("body", "pending"),
    [
        pytest.param(b"", False, id="nothing"),
        pytest.param(b"data: x\n\n", False, id="complete"),
        pytest.param(b": note\n", False, id="comment-line"),
        pytest.param(b"data: x\n", True, id="no-blank-line"),
        pytest.param(b"data: x", True, id="no-line-end"),
        pytest.param(b"\xef\xbb", True, id="half-a-mark"),
    ],
)
def test_a_tail_is_pending(body: bytes, pending: bool) -> None:
    """Only bytes that would still make an event, or might, are pending."""
    decoder = SseDecoder()
    decoder.feed(body)

    assert pending is decoder.pending


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"data: " + b"x" * 60 + b"\n\n", id="one-line"),
        pytest.param(b"data: " + b"x" * 90, id="line-without-end"),
        pytest.param(b"data: xxxxxxxx\n" * 9, id="many-lines"),
        pytest.param(b"data:\n" * 20, id="empty-lines"),
        pytest.param(b":" + b"x" * 90, id="comment"),
    ],
)
def test_an_event_over_the_limit_is_refused(body: bytes) -> None:
    """An event of more than the limit raises, in one piece or in many."""
    with pytest.raises(EventTooLarge, match="64 bytes"):
        decoded(body, limit_bytes=64)
    with pytest.raises(EventTooLarge, match="64 bytes"):
        decoded(*(bytes((value,)) for value in body), limit_bytes=64)


def test_the_limit_is_for_one_event_and_not_for_the_stream() -> None:
    """Many events, each within the limit, pass."""
    assert len(decoded(b"data: 0123456789\n\n" * 500, limit_bytes=64)) == 500


def test_a_long_event_in_small_pieces_is_held_once() -> None:
    """An event of 1 MiB in pieces of 1 KiB comes out whole."""
    body = b"data: " + b"x" * ((1 << 20) - 6) + b"\n\n"

    assert [body[6:-2]] == decoded(*(body[i : i + 1024] for i in range(0, len(body), 1024)))


PARTS = [b"data:x", b"data: y", b"data", b":", b" ", b"id", BOM, "é".encode(), b"\x00"]
ENDS = [b"\n", b"\r", b"\r\n"]
BODIES = st.builds(
    lambda mark, parts: mark + b"".join(parts),
    st.sampled_from([b"", BOM]),
    # Line ends are drawn as often as all else, so that most bodies hold whole events.
    st.lists(st.sampled_from(PARTS) | st.sampled_from(ENDS), max_size=30),
)


@given(BODIES, st.lists(st.integers(0, 60), max_size=8))
@example(BOM + b"data:x\n\n", [])
def test_the_decoder_agrees_with_a_plain_reading_of_the_standard(
    body: bytes, cuts: list[int]
) -> None:
    """Any body, cut at any places or at all of them, gives what the reference gives."""
    edges = [0, *sorted(cuts), len(body)]
    pieces = [body[start:end] for start, end in itertools.pairwise(edges)]

    assert reference(body) == decoded(*pieces)
    assert reference(body) == decoded(*(bytes((value,)) for value in body))


class Pieces:
    """The iterator with ``close()`` that sseclient-py asks for."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(pieces)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        """Nothing is open."""


LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data:  c", b": note", b"event: message", b'data: {"k":1}', b"id: 4"]
)


@given(
    st.lists(st.lists(LINES, min_size=1, max_size=4), max_size=6),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.integers(1, 30),
)
def test_the_decoder_agrees_with_sseclient_where_that_is_right(
    blocks: list[list[bytes]], newline: bytes, size: int
) -> None:
    """One line end throughout, no mark, no tail: both decoders give the same payloads."""
    body = b"".join(newline.join(block) + newline * 2 for block in blocks)
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    theirs = [event.data.encode() for event in SSEClient(Pieces(pieces)).events()]

    assert theirs == decoded(*pieces)


def test_an_unterminated_tail_is_dropped_where_sseclient_gives_it_out() -> None:
    """A stream cut in mid-event gives no half event, as the standard says."""
    tail = b'data: {"choices":[{"de'

    assert len(list(SSEClient(Pieces([tail])).events())) == 1
    assert decoded(tail) == []
