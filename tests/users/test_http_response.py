"""One HTTP/1.1 response, however its bytes are cut, and whatever they are."""

import zlib
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from users.http_response import MAX_HEADER_BYTES, HttpResponse, ProtocolError

EVENTS = [b'data: {"n":1}\n\n', b"data: caf\xc3\xa9\n\n", b"data: [DONE]\n\n"]
TEXT = b"".join(EVENTS)


class Read:
    """A response that has been fed, and what it said."""

    def __init__(self, pieces=(), ended=False):
        self.heads = []
        self.pieces = []
        self.response = HttpResponse(
            lambda status, headers: self.heads.append((status, dict(headers))), self.pieces.append
        )
        for piece in pieces:
            self.response.feed(piece)
        if ended:
            self.response.end_of_input()

    @property
    def body(self):
        """The body as far as it came."""
        return b"".join(self.pieces)

    @property
    def facts(self):
        """All that must not depend on where the bytes were cut."""
        return (self.heads, self.body, self.response.complete, self.response.keep_alive)


def message(*lines, body=b"", status=b"HTTP/1.1 200 OK"):
    """The bytes of a response."""
    return b"\r\n".join([status, *lines, b"", b""]) + body


def chunked(*pieces, extension=b"", trailer=b""):
    """A body in chunks."""
    framed = [b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces if piece]
    return b"".join(framed) + b"0" + extension + b"\r\n" + trailer + b"\r\n"


def flushed(window_bits, pieces=EVENTS):
    """Each piece compressed and flushed by itself."""
    press = zlib.compressobj(wbits=window_bits)
    parts = [press.compress(piece) + press.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*parts, press.flush()]


def zlib_whole(window_bits, data):
    """All of it compressed, with its end."""
    press = zlib.compressobj(wbits=window_bits)
    return press.compress(data) + press.flush()


CHUNKED = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: %d" % len(TEXT)
GZIP, ZLIB = flushed(31), flushed(15)
KINDS = {
    "chunked": message(CHUNKED, body=chunked(*EVENTS)),
    "extensions_and_trailer": message(
        CHUNKED, body=chunked(*EVENTS, extension=b';a=1;b="x"', trailer=b"X-Sum: 7\r\nX-Two: 2\r\n")
    ),
    "length": message(LENGTH, body=TEXT),
    "closed": message(b"Connection: close", body=TEXT),
    "closed_unsaid": message(b"Content-Type: text/event-stream", body=TEXT),
    "version_1_0": message(body=TEXT, status=b"HTTP/1.0 200 OK"),
    "interim_100": message(status=b"HTTP/1.1 100 Continue") + message(LENGTH, body=TEXT),
    "interim_103_100": message(b"Link: </a>", status=b"HTTP/1.1 103 Early Hints")
    + message(status=b"HTTP/1.1 100 Continue")
    + message(CHUNKED, body=chunked(*EVENTS)),
    "repeated_fields": message(b"X-Run: 1", b"Via: a", b"x-run:  2 ", LENGTH, body=TEXT),
    "gzip_flushed": message(b"Content-Encoding: gzip", CHUNKED, body=chunked(*GZIP)),
    "deflate_flushed": message(b"Content-Encoding: Deflate", CHUNKED, body=chunked(*ZLIB)),
    "gzip_closed": message(b"Content-Encoding: x-gzip", body=b"".join(GZIP)),
    "no_reason": message(LENGTH, body=TEXT, status=b"HTTP/1.1 200"),
}
KINDS_OF_RESPONSE = pytest.mark.parametrize("data", KINDS.values(), ids=list(KINDS))


@KINDS_OF_RESPONSE
def test_a_response_fed_whole_is_read(data):
    """One head of status 200, the whole body, and complete."""
    read = Read([data], ended=True)

    assert [status for status, _ in read.heads] == [200]
    assert read.body == TEXT
    assert read.response.complete


@KINDS_OF_RESPONSE
def test_byte_by_byte_is_the_same(data):
    """A read of one byte each changes nothing."""
    whole = Read([data], ended=True)

    assert Read((bytes([byte]) for byte in data), ended=True).facts == whole.facts


@KINDS_OF_RESPONSE
def test_a_cut_at_any_place_is_the_same(data):
    """Two reads change nothing, wherever the first one ends."""
    whole = Read([data], ended=True).facts

    for cut in range(len(data) + 1):
        assert Read([data[:cut], data[cut:]], ended=True).facts == whole, cut


@given(kind=st.sampled_from(sorted(KINDS)), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_any_cuts_are_the_same(kind, cuts):
    """Many reads of any size change nothing."""
    data = KINDS[kind]
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]

    assert Read(pieces, ended=True).facts == Read([data], ended=True).facts


def test_repeated_fields_are_joined():
    """Names are lower case; values of one name are joined by a comma, in order."""
    headers = Read([KINDS["repeated_fields"]]).response.headers

    assert headers["x-run"] == "1, 2"
    assert headers["via"] == "a"


def test_interim_fields_are_not_the_answers():
    """What a 103 says is not in the final head."""
    assert "link" not in Read([KINDS["interim_103_100"]]).response.headers


def test_trailer_fields_are_not_headers():
    """The trailer changes no header."""
    read = Read([KINDS["extensions_and_trailer"]])

    assert read.response.headers == {"transfer-encoding": "chunked"}


def test_a_head_over_many_reads_is_told_once():
    """Head and body pieces are handed on as soon as they are there, and once."""
    read = Read()
    for line in (b"HTTP/1.1 200 OK\r\n", b"Content-Le", b"ngth: 4\r", b"\n\r"):
        read.response.feed(line)
        assert read.heads == []
    read.response.feed(b"\nab")
    assert (read.heads, read.pieces) == ([(200, {"content-length": "4"})], [b"ab"])
    assert not read.response.complete
    read.response.feed(b"cd")

    assert (len(read.heads), read.pieces) == (1, [b"ab", b"cd"])
    assert read.response.complete


@pytest.mark.parametrize(("coding", "parts"), [(b"gzip", GZIP), (b"deflate", ZLIB)])
def test_each_flush_gives_its_event_at_once(coding, parts):
    """An event flushed by the server is whole when its bytes have been read."""
    read = Read([message(b"Content-Encoding: " + coding, CHUNKED)])
    for part, event in zip(parts, EVENTS, strict=False):
        before = len(read.body)
        read.response.feed(b"%x\r\n%b\r\n" % (len(part), part))
        assert read.body[before:] == event


def test_F13_gzip_may_come_in_members():
    """One member for each event, as some gateways flush."""
    parts = [zlib_whole(31, event) for event in EVENTS]
    assert TEXT == Read([message(b"Content-Encoding: gzip", CHUNKED, body=chunked(*parts))]).body
    joined = b"".join(parts)
    assert TEXT == Read([message(b"Content-Encoding: gzip", CHUNKED, body=chunked(joined))]).body


def test_F13_deflate_may_be_raw():
    """What many servers call deflate."""
    raw = zlib_whole(-15, TEXT)
    assert TEXT == Read([message(b"Content-Encoding: deflate", CHUNKED, body=chunked(raw))]).body


def test_F13_compression_that_ends_too_early_is_no_whole_answer():
    """The HTTP message is complete, what it holds is not."""
    cut = zlib_whole(31, TEXT)[:-6]
    with pytest.raises(ProtocolError, match="ends too early"):
        Read([message(b"Content-Encoding: gzip", CHUNKED, body=chunked(cut))])


def test_F13_a_small_body_of_much_comes_in_bounded_pieces():
    """100 MB of nothing in 100 kB are never in memory at once."""
    bomb = zlib_whole(31, bytes(100_000_000))
    pieces = []
    response = HttpResponse(lambda status, headers: None, lambda piece: pieces.append(len(piece)))
    response.feed(message(b"Content-Encoding: gzip", CHUNKED, body=chunked(bomb)))

    assert sum(pieces) == 100_000_000
    assert max(pieces) <= 1 << 20


def test_a_refusal_in_an_unknown_coding_keeps_its_status():
    """The status says what happened; a body that cannot be read takes nothing from it."""
    read = Read([message(b"Content-Encoding: br", LENGTH, body=TEXT, status=b"HTTP/1.1 503 X")])
    assert [503] == [status for status, _ in read.heads]
    assert (b"", True) == (read.body, read.response.complete)


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"gzip, br"])
def test_an_unknown_coding_is_refused(coding):
    """A body that cannot be decoded is named, not read as text."""
    with pytest.raises(ProtocolError, match=coding.decode()):
        Read([message(b"Content-Encoding: " + coding, LENGTH, body=TEXT)])


def test_broken_compression_is_refused():
    """Bytes that only say they are gzip are a protocol error."""
    with pytest.raises(ProtocolError, match="compression"):
        Read([message(b"Content-Encoding: gzip", LENGTH, body=TEXT)])


@pytest.mark.parametrize("piece_bytes", [1000, 10**6])
@pytest.mark.parametrize("ended", [b"", b"\r\nContent-Length: 0\r\n\r\n"])
def test_a_head_over_the_limit_is_refused(piece_bytes, ended):
    """Over 64 KiB of head is refused, however it is cut and whether or not it ends."""
    head = message().rstrip() + b"\r\nX: " + b"x" * (MAX_HEADER_BYTES + 1) + ended

    with pytest.raises(ProtocolError, match="head of over 65536"):
        Read(head[i : i + piece_bytes] for i in range(0, len(head), piece_bytes))


def test_endless_interim_answers_are_refused():
    """Interim answers count as head."""
    with pytest.raises(ProtocolError, match="head of over"):
        Read([message(b"X: 1", status=b"HTTP/1.1 103 E")] * 5000)


def test_a_long_body_is_no_head():
    """The limit is the head's: a body of 1 MiB in one read is read."""
    assert len(Read([message(CHUNKED, body=chunked(b"b" * 2**20))]).body) == 2**20


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 abc\r\n\r\n",
        b"<html></html>",
        message(CHUNKED, body=b"zz\r\n"),
        message(b"Content-Length: two"),
        message(b"Content-Length: 2", b"Content-Length: 3", body=b"ab"),
        message(CHUNKED, LENGTH, body=chunked(TEXT)),
    ],
)
def test_garbage_is_refused(data):
    """What is not HTTP/1.1, or frames its body two ways, is a protocol error with a text."""
    with pytest.raises(ProtocolError, match=r".+"):
        Read([data])


def test_an_upgrade_is_refused():
    """A server that turns to another protocol is refused in our words."""
    with pytest.raises(ProtocolError, match="another protocol"):
        Read([message(b"Upgrade: h2c", b"Connection: Upgrade", status=b"HTTP/1.1 101 Up")])


@pytest.mark.parametrize("more", [KINDS["length"], b"junk", b"\x00"])
def test_what_follows_a_whole_answer_is_not_read(more):
    """The answer stays whole and once, and its connection is not used again."""
    read = Read([KINDS["length"] + more])

    assert (len(read.heads), read.body) == (1, TEXT)
    assert read.response.complete
    assert not read.response.keep_alive


@pytest.mark.parametrize("kind", ["chunked", "length", "gzip_flushed"])
def test_a_cut_body_is_not_complete_at_the_end(kind):
    """A body with framing that lacks its last byte is incomplete when the input ends."""
    read = Read([KINDS[kind][:-1]], ended=True)

    assert not read.response.complete
    assert not read.response.keep_alive


def test_no_head_is_not_complete_at_the_end():
    """Nothing, half a head and an interim answer alone are no answer."""
    for data in (b"", b"HTTP/1.1 200 O", message(status=b"HTTP/1.1 100 Continue")):
        assert not Read([data] if data else [], ended=True).response.complete


def test_a_body_without_framing_ends_with_the_connection():
    """It is complete only once the input has ended."""
    read = Read([KINDS["closed"]])
    assert not read.response.complete

    assert read.response.end_of_input()
    assert read.response.complete


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (KINDS["chunked"], True),
        (KINDS["length"], True),
        (message(LENGTH, b"Connection: keep-alive", body=TEXT), True),
        (message(LENGTH, b"Connection: close", body=TEXT), False),
        (message(CHUNKED, b"connection: Close", body=chunked(TEXT)), False),
        (message(LENGTH, body=TEXT, status=b"HTTP/1.0 200 OK"), False),
        (
            message(LENGTH, b"Connection: keep-alive", body=TEXT, status=b"HTTP/1.0 200 OK"),
            True,
        ),
        (KINDS["closed"], False),
        (KINDS["closed_unsaid"], False),
        (message(status=b"HTTP/1.1 204 No Content"), True),
        (message(b"Connection: close", status=b"HTTP/1.1 204 No Content"), False),
    ],
)
def test_keep_alive(data, kept):
    """Kept: a complete answer with framing of its own, and a server that does not close."""
    read = Read([data], ended=True)

    assert read.response.complete
    assert read.response.keep_alive is kept


def test_a_connection_is_not_kept_before_the_end():
    """Half a body keeps nothing."""
    assert not Read([KINDS["length"][:-3]]).response.keep_alive


def test_204_is_complete_without_a_body():
    """Its head is all of it."""
    read = Read([message(status=b"HTTP/1.1 204 No Content")])

    assert read.heads == [(204, {})]
    assert (read.body, read.response.complete) == (b"", True)


def test_what_the_reader_raises_is_passed_on():
    """An exception of the body's reader keeps its type and its text."""

    def refuse(data):
        raise KeyError("too large")

    response = HttpResponse(lambda status, headers: None, refuse)
    with pytest.raises(KeyError, match="too large"):
        response.feed(KINDS["length"])


def feed_all(pieces):
    """Feed until the bytes are refused."""
    read = Read()
    try:
        for piece in pieces:
            read.response.feed(piece)
        read.response.end_of_input()
    except ProtocolError:
        return


@given(st.lists(st.binary(max_size=200), max_size=6))
@example([message(b"Upgrade: x", b"Connection: Upgrade", status=b"HTTP/1.1 101 Up")])
def test_any_bytes_raise_nothing_else(pieces):
    """Whatever a peer sends, ProtocolError is all that comes of it."""
    feed_all(pieces)


FRAGMENTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 101 Up\r\n",
        b"HTTP/1.1 204 No\r\n",
        b"HTTP/1.0 200 OK\r\n",
        b"Connection: Upgrade\r\n",
        b"Upgrade: h2c\r\n",
        b"Connection: close\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Content-Length: 3\r\n",
        b"\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        *GZIP,
    ]
)


@settings(max_examples=500)
@given(st.lists(FRAGMENTS | st.binary(max_size=6), max_size=12))
def test_any_pieces_of_http_raise_nothing_else(pieces):
    """Nor of bytes that are nearly HTTP."""
    feed_all(pieces)


@given(
    pieces=st.lists(st.binary(max_size=64), max_size=8),
    extension=st.sampled_from([b"", b";x", b";x=y"]),
    cut=st.integers(1, 40),
)
def test_any_chunking_gives_the_body(pieces, extension, cut):
    """However the body is chunked and the bytes are cut, the body is the same."""
    data = message(CHUNKED, body=chunked(*pieces, extension=extension))
    read = Read(data[i : i + cut] for i in range(0, len(data), cut))

    assert read.body == b"".join(pieces)
    assert read.response.keep_alive


@given(pieces=st.lists(st.binary(min_size=1, max_size=64), max_size=6), cut=st.integers(1, 40))
def test_any_flushed_compression_gives_the_body(pieces, cut):
    """However gzip is flushed and cut, the body is the same."""
    data = message(b"Content-Encoding: gzip", body=b"".join(flushed(31, pieces)))
    read = Read((data[i : i + cut] for i in range(0, len(data), cut)), ended=True)

    assert read.body == b"".join(pieces)
