"""A read taken past the parsers is what they would have made of it, and any other goes to them."""

import json
import time
from itertools import cycle, pairwise
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from settings import TimeLimits
from stream.reply import ReplyReader
from tests.support.case_notation import D, F, R, U
from tests.support.stamped import CHUNKED, LAST
from users.deadlines import Deadlines
from users.framed_chunk import FramedChunk
from users.http_response import HttpResponse
from users.stamped_exchange import Exchange
from users.wire import WireFacts

LIMITS = TimeLimits(connect_s=1.0, first_token_s=9.0, idle_s=9.0, total_s=None)


def event(text=" word", **members):
    """One event with output."""
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
    body = {"id": "one", "model": "m", "choices": choices, **members}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def framed(*events, length=b"%x"):
    """Events as one HTTP chunk."""
    data = b"".join(events)
    return length % len(data) + b"\r\n" + data + b"\r\n"


def known():
    """What a stream of such events is compared with, once one has been decoded."""
    reader = ReplyReader()
    reader.begin(200, "text/event-stream", 0.1)
    reader.feed(event(), 0.2)
    return FramedChunk(reader.ordinary)


@pytest.mark.parametrize("length", [b"%x", b"%X", b"%08x"])
def test_one_chunk_with_one_ordinary_event_has_its_size(length):
    """Any text, and lengths as servers write them: the size is the event's, framing left out."""
    chunk = known()
    for text in ("a", " longer text, of many words", "é", "\n", '"', "x" * 300):
        assert chunk.body_bytes(framed(event(text), length=length)) == len(event(text)), text


WHOLE = framed(event())


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(WHOLE[:-1], id="cut"),
        pytest.param(WHOLE[1:], id="cut-in-front"),
        pytest.param(WHOLE + b"\r", id="more"),
        pytest.param(WHOLE * 2, id="two-chunks"),
        pytest.param(WHOLE + LAST, id="last-chunk"),
        pytest.param(framed(event(), event()), id="two-events"),
        pytest.param(framed(event("")), id="no-text"),
        pytest.param(framed(event(id="two")), id="other-id"),
        pytest.param(framed(event(), length=b"%x;a=1"), id="extension"),
        pytest.param(framed(event(), length=b"0x%x"), id="no-hexadecimal"),
        pytest.param(framed(event(), length=b"+%x"), id="sign"),
        pytest.param(b"%x\r\n%b\r\n" % (len(event()) + 1, event()), id="too-long"),
        pytest.param(b"%x\r\n%b\r\n" % (len(event()) - 1, event()), id="too-short"),
        pytest.param(b"0" * 9 + WHOLE, id="endless-length"),
    ],
)
def test_any_other_read_goes_to_the_parsers(read):
    """Also once reads of that very size have been recognised."""
    chunk = known()
    assert not chunk.body_bytes(read)
    for text in ("", " word", "x"):
        chunk.body_bytes(framed(event(text)))
    assert not chunk.body_bytes(read)


def test_a_length_in_another_hand_is_read_anew():
    """One size, two ways to write its length: never the one for the other's bytes."""
    chunk = known()
    text = "x" * (0xAB - len(event("")))
    for length in (b"%x", b"%X", b"%x"):
        read = framed(event(text), length=length)
        assert chunk.body_bytes(read) in (0, len(event(text)))
        assert not chunk.body_bytes(read.replace(b"\r\n", b" \r", 1))


# --- against the parsers --------------------------------------------------------------------------


class Arriving:
    """A connection whose reads are given; each has a time of its own."""

    def __init__(self, reads):
        self.ended = False
        self.reads = [(read, 1.0 + n, None) for n, read in enumerate(reads) if read]

    def receive(self):
        """The next read."""
        return self.reads.pop(0) if self.reads else None


def said(reads, past_parsers=True):
    """All that an exchange says of these reads, and whether one was taken past the parsers."""
    facts, reader = WireFacts(sent_at_s=0.5), ReplyReader()
    connection, clock = Arriving(reads), SimpleNamespace(before_s=0.0, collects=False)
    exchange = Exchange(connection, reader, facts, Deadlines(LIMITS), None, clock)
    taken = []
    real = ReplyReader.take_ordinary
    with patch.object(ReplyReader, "take_ordinary", lambda *of: taken.append(of[1]) or real(*of)):
        while connection.reads and not exchange.over:
            if not past_parsers:
                exchange._ordinary = None
                reader._template, reader._untemplated = None, 10**9
            exchange.read()
    facts.headers = dict(facts.headers)
    told = (facts, reader.close(99.0), exchange.over, repr(exchange._error))
    return told, (exchange.response.complete, exchange.response.keep_alive), bool(taken)


TEXTS = st.text(max_size=3) | st.sampled_from([" word", "\r\n", "0\r\n\r\n", '"', "é"])
EVENTS = st.one_of(
    TEXTS.map(event),
    st.just(event()),
    st.just(event()),
    st.sampled_from([R, F(), U(3, 2), D, b": ping\n\n", b"data: x\n\n", b"\r\n", b"\n\n"]),
    st.binary(min_size=1, max_size=8),
)
LENGTHS = st.sampled_from([b"%x", b"%X", b"%04x", b"%x;ext", b"%x "])


@given(
    chunks=st.lists(st.tuples(st.lists(EVENTS, min_size=1, max_size=2), LENGTHS), max_size=12),
    broken=st.binary(max_size=3),
    at=st.integers(0, 3000),
    cuts=st.lists(st.integers(1, 3000), max_size=4),
)
@example([([event()], b"%x")] * 5, b"", 0, [])
@example([([event()], b"%x")] * 5, b"\n", 900, [])
def test_an_answer_is_the_same_past_the_parsers(chunks, broken, at, cuts):
    """Whatever chunks come, broken or cut anywhere: every fact and every time is the parsers'."""
    written = [framed(*events, length=length) for events, length in chunks]
    data = b"".join([CHUNKED, *written, LAST])
    edges = [len(CHUNKED)]
    for chunk in written:
        edges.append(edges[-1] + len(chunk))
    data = data[:at] + broken + data[at:] if broken else data
    edges = sorted({0, *edges, *cuts, len(data)})
    reads = [data[a:b] for a, b in pairwise(edges)]
    fast, slow = said(reads), said(reads, past_parsers=False)
    assert fast[:2] == slow[:2]


def test_ordinary_reads_are_taken_past_the_parsers():
    """What the comparison above rests on: each event keeps its read's time, and the end is seen."""
    reads = [CHUNKED, framed(R), *[framed(event(text)) for text in "abcde"], framed(F(), D) + LAST]
    told, kept, taken = said(reads)

    assert (taken, kept) == (True, (True, True))
    assert told[1].chunks == 5
    assert list(told[1].output_at_s) == [2.5, 3.5, 4.5, 5.5, 6.5]


# --- where the parser is --------------------------------------------------------------------------

BODIES = st.sampled_from([b"\r\n", b"0\r\n\r\n", b"a\n\n", b"\n", b"5\r\n", b"x"]) | st.binary(
    min_size=1, max_size=20
)


@given(
    bodies=st.lists(BODIES, max_size=6),
    extension=st.sampled_from([b"", b";x", b';x="y z"']),
    trailer=st.sampled_from([b"", b"X-Sum: 7\r\n"]),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=9),
)
@example([b"\r\n"], b"", b"", [1])
@example([b"\n", b"x"], b"", b"", [len(CHUNKED), 6, 3, 9])
def test_at_chunk_is_true_exactly_between_chunks(bodies, extension, trailer, sizes):
    """After each read, whatever the chunks hold and however they are cut."""
    edges, data = {len(CHUNKED)}, CHUNKED
    for body in bodies:
        data += b"%x%b\r\n%b\r\n" % (len(body), extension, body)
        edges.add(len(data))
    data += b"0" + extension + b"\r\n" + trailer + b"\r\n"
    response = HttpResponse(lambda status, headers: None, lambda body: None)
    at = 0
    for size in cycle(sizes):
        response.feed(data[at : at + size])
        at += size
        if at >= len(data):
            break
        assert response.at_chunk == (at in edges), at
    assert response.complete
    assert not response.at_chunk


def test_after_a_whole_event_the_next_chunk_begins():
    """One chunk in one read, as servers send them, with an extension or without."""
    response = HttpResponse(lambda status, headers: None, lambda body: None)
    for read in (CHUNKED, WHOLE, framed(event(), length=b"%x;a=1"), WHOLE):
        response.feed(read)
        assert response.at_chunk
    response.feed(b"5\r\n")
    assert not response.at_chunk


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 99",
        b"Connection: close",
        b"Transfer-Encoding: gzip",
        b"Transfer-Encoding: chunked\r\nContent-Encoding: gzip",
    ],
)
def test_a_body_in_other_framing_is_never_at_a_chunk(head):
    """Nor one that is compressed: its bytes are not those of the events."""
    response = HttpResponse(lambda status, headers: None, lambda body: None)
    response.feed(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
    assert not response.at_chunk


def test_recognising_costs_less_than_parsing():
    """The point of it, in one process and by its CPU: under two thirds, here about a third."""
    reads = [framed(event(text)) for text in (" a", " few", " words")] * 300
    reader = ReplyReader()
    response = HttpResponse(
        lambda status, headers: reader.begin(status, headers.get("content-type"), 0.1),
        lambda data: reader.feed(data, 0.2),
    )
    response.feed(CHUNKED)
    for read in reads[:4]:
        response.feed(read)
    chunk = FramedChunk(reader.ordinary)

    def least_s(take):
        spent = []
        for _ in range(7):
            began_s = time.process_time()
            for read in reads:
                take(read)
            spent.append(time.process_time() - began_s)
        return min(spent)

    assert least_s(chunk.body_bytes) < 0.67 * least_s(response.feed)
