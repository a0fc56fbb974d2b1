"""One HTTP/1.1 response, read in pieces of any size by llhttp, through httptools."""

from collections.abc import Callable

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)

from users.body_coding import CODINGS, CodingError, Decoder

MAX_HEADER_BYTES = 64 * 1024


class ProtocolError(Exception):
    """The bytes are not an HTTP/1.1 response that can be read; the text says why."""


class HttpResponse:
    """Parses a response; what a read brings of the body goes to ``on_body`` once, decompressed.

    Interim answers (1xx) are skipped. ``complete`` is True once the message has ended by its own
    framing; a body without a length ends with the connection, see :meth:`end_of_input`.
    """

    def __init__(
        self, on_head: Callable[[int, dict[str, str]], None], on_body: Callable[[bytes], None]
    ) -> None:
        self._on_head = on_head
        self._on_body = on_body
        self._pieces: list[bytes] = []
        # httptools calls it for each chunk: the list's own method costs no frame of ours.
        self.on_body = self._pieces.append
        self._within_chunk = [False, True]
        # These two alternate.
        self.on_chunk_header = self.on_chunk_complete = self._within_chunk.reverse
        self._parser = HttpResponseParser(self)
        self._read_bytes = 0
        self._field_bytes = 0
        self._decoder: Decoder | None = None
        self._unreadable = False
        self._interim = False
        self._chunked = False
        self._keep_alive = False
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.complete = False
        self.begun = False
        self.at_chunk = False
        """Whether the next byte begins a chunk whose data is the body as it is. A whole chunk
        may then be taken past the parser, which is where it would be after it."""

    def feed(self, data: bytes) -> None:
        """Read bytes of the connection.

        Raises:
            ProtocolError: they are no response, the head is too large, or the body's coding is
                broken or unknown. What ``on_head`` or ``on_body`` raise is passed on.
        """
        self.begun = True
        self.at_chunk = False
        if self.status is None:
            self._read_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except Exception as error:
            # What came before the fault was received all the same.
            if self._pieces:
                self._hand_on()
            if self.complete and isinstance(error, HttpParserError):
                # The answer is whole; what follows it was not asked for, and is not read.
                self._keep_alive = False
                return
            raise _explained(error) from None
        if self._chunked and not self._within_chunk[0] and not self.complete:
            # A chunk ends with a line's end. Of what may follow, only the whole line that begins
            # the next chunk has that byte too, and with that line the chunk is begun.
            self.at_chunk = data.endswith(b"\n")
        if self._pieces:
            self._hand_on()
        if self.status is None:
            self._check_size(self._read_bytes)
        if self.complete:
            self._check_whole()

    def _check_whole(self) -> None:
        if self._decoder is not None and not self._decoder.whole:
            raise ProtocolError("the body's compression ends too early")

    def _hand_on(self) -> None:
        """Give what this read brought of the body: a call for each chunk would cost far more."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._decoder is not None:
            try:
                for piece in self._decoder.decode(data):
                    self._on_body(piece)
            except CodingError as error:
                raise ProtocolError(f"the body's compression is broken: {error}") from None
            return
        if self._unreadable:
            return
        if data:
            self._on_body(data)

    def end_of_input(self) -> bool:
        """The connection has ended; whether that ends the message as it should."""
        if self.status is not None and not self.complete and not self._has_length:
            self.complete = True
            self._check_whole()
        return self.complete

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may carry another request."""
        return self.complete and self._has_length and self._keep_alive

    @property
    def _has_length(self) -> bool:
        coded = "chunked" in self.headers.get("transfer-encoding", "").lower()
        return coded or "content-length" in self.headers or self.status in (204, 304)

    @staticmethod
    def _check_size(head_bytes: int) -> None:
        if head_bytes > MAX_HEADER_BYTES:
            raise ProtocolError(f"a response head of over {MAX_HEADER_BYTES} bytes")

    # --- httptools calls these -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        """An interim or the final response begins."""
        if self.complete:
            raise ProtocolError("a second response to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field, or one of the trailer, which is not kept."""
        self._field_bytes += len(name) + len(value)
        self._check_size(self._field_bytes)
        if self.status is not None:
            return
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip(" \t")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """The head of an interim or of the final response has been read."""
        status = self._parser.get_status_code()
        self._interim = status < 200
        if self._interim:
            self.headers = {}
            return
        self.status = status
        coding = self.headers.get("content-encoding", "identity").lower()
        self._on_head(status, self.headers)
        if coding in CODINGS:
            self._decoder = Decoder(coding)
        elif coding not in ("identity", ""):
            # A refusal is told by its status; without the body no success can be read.
            self._unreadable = True
            if 200 <= status < 300:
                raise ProtocolError(f"the body is coded as {coding!r}, which was not asked for")
        else:
            framing = self.headers.get("transfer-encoding", "").lower()
            self._chunked = framing == "chunked"

    def on_message_complete(self) -> None:
        """The message has ended by its own framing."""
        if not self._interim:
            self.complete = True
            # Only here: the parser forgets the message's framing when this returns.
            self._keep_alive = bool(self._parser.should_keep_alive())


def _explained(error: BaseException) -> BaseException:
    """The parser's error in our words; what our own code raised within the parser as it was."""
    if isinstance(error, HttpParserUpgrade):
        return ProtocolError("the server wants to speak another protocol")
    if isinstance(error, HttpParserCallbackError) and error.__context__ is not None:
        return error.__context__
    return ProtocolError(str(error)) if isinstance(error, HttpParserError) else error
