"""A connection whose reads carry the time at which the kernel received them.

A client stamps a token when it comes round to reading it; with many streams that is late by as much
as the others take. Linux can attach the arrival time of a packet to a read (SO_TIMESTAMPNS), which
is right however late this process comes round, and works beneath TLS too. The one exception: when a
read takes several packets at once, the kernel gives the time of the last. Where the kernel gives no
stamp the time of the read is taken, and the source is said.
"""

import fcntl
import socket
import ssl
import struct
import termios
import time
from array import array

import gevent.socket

READ_BYTES = 64 * 1024
SO_TIMESTAMPNS = 35
"""Linux's option and message type; Python has no name for it."""
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = 64
_LONGEST_DELAY_S = 10.0
_CLOCK_STEP_S = 5e-4
_count = array("i", [0])
_seen = bytearray(READ_BYTES)
"""Both for all connections: what is looked at is not kept."""


class StampedSocket:
    """A connected TCP or TLS socket; writes block this greenlet, reads never block."""

    __slots__ = (
        "_descriptor",
        "_incoming",
        "_offset_s",
        "_outgoing",
        "_recv_into",
        "_recvmsg",
        "_sock",
        "_tls",
        "clock_steps",
        "ended",
    )

    def __init__(self, sock: gevent.socket.socket, tls: ssl.SSLObject | None = None) -> None:
        self._sock = sock
        self._tls = tls
        self._incoming: ssl.MemoryBIO | None = None
        self._outgoing: ssl.MemoryBIO | None = None
        self._recvmsg = self._raw.recvmsg
        self._descriptor = sock.fileno()
        self._recv_into = self._raw.recv_into
        self._offset_s = clock_offset_s()
        self.clock_steps = 0
        self.ended = False
        """Whether TLS has said that nothing more will come, maybe behind the last data."""

    def fileno(self) -> int:
        """The descriptor, for a watcher of the event loop."""
        return int(self._sock.fileno())

    def close(self) -> None:
        """Drop the connection."""
        self._sock.close()

    def idle_and_alive(self) -> bool:
        """Whether a kept connection has neither ended nor said anything unasked."""
        try:
            self._raw.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def waiting_bytes(self) -> int:
        """How many bytes the kernel holds unread; 0 as well when the connection has ended."""
        fcntl.ioctl(self._descriptor, termios.FIONREAD, _count)
        return _count[0]

    def waits_with(self, end: bytes) -> bool:
        """Whether what is unread ends so, which beneath TLS cannot be seen.

        Raises:
            OSError: the connection was reset, or nothing waits.
        """
        size = 0 if self._tls is not None else self._recv_into(_seen, 0, socket.MSG_PEEK)
        return _seen.endswith(end, 0, size)

    def send(self, message: bytes, limit_s: float | None) -> None:
        """Send all of it.

        Raises:
            OSError: the connection is gone, or ``TimeoutError`` the limit is over.
        """
        if self._tls is not None and self._outgoing is not None:
            self._tls.write(message)
            message = self._outgoing.read()
        self._sock.settimeout(limit_s)
        self._sock.sendall(message)

    def receive(self) -> tuple[bytes, float, float | None] | None:
        """What has arrived; None when nothing has (or, under TLS, no whole record).

        The data (none means the end), when it arrived on ``time.perf_counter``'s clock, and how
        many seconds later it was read; None there when the kernel gave no stamp, and the time is
        then that of the read.

        Raises:
            OSError: the connection was reset, or ``ssl.SSLError`` its encryption is broken.
        """
        try:
            data, ancillary, _, _ = self._recvmsg(READ_BYTES, _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        now_s, offset_s = time.perf_counter(), self._offset_s
        at_s = None
        if not -_CLOCK_STEP_S < time.time() - now_s - offset_s < _CLOCK_STEP_S:
            offset_s = self._check_offset()
        if ancillary and offset_s is not None and ancillary[0][1] == SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack_from(ancillary[0][2])
            # In this order no more than a quarter of a microsecond is rounded away.
            at_s = seconds - offset_s + nanoseconds * 1e-9
            if not 0.0 <= now_s - at_s < _LONGEST_DELAY_S:
                at_s = None
        if self._tls is not None:
            plain = self._decrypt(data)
            if plain is None:
                return None
            data = plain
        if at_s is None:
            return data, now_s, None
        return data, at_s, now_s - at_s

    @property
    def _raw(self) -> socket.socket:
        """The plain socket beneath gevent's, whose reads never wait."""
        raw: socket.socket = self._sock._sock
        return raw

    def _check_offset(self) -> float | None:
        """The two clocks seem to have moved apart: how far they are now; None when they have.

        Stamps are of the wall clock. How far that is from ours was measured when the connection
        was opened: once the wall clock has been set, the stamps under way mean nothing.
        """
        before_s, self._offset_s = self._offset_s, clock_offset_s()
        if abs(self._offset_s - before_s) > _CLOCK_STEP_S:
            self.clock_steps += 1
            return None
        return self._offset_s

    def _decrypt(self, data: bytes) -> bytes | None:
        assert self._tls is not None
        assert self._incoming is not None
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        pieces = []
        try:
            while piece := self._tls.read(READ_BYTES):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            return b"".join(pieces) or (None if data else b"")
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            pass
        self.ended = True
        return b"".join(pieces)

    def start_tls(self, context: ssl.SSLContext, host: str, limit_s: float | None) -> None:
        """Do the handshake over memory, so that reads stay ours.

        Raises:
            ssl.SSLError: the certificate is not trusted, or the peer speaks no TLS.
            OSError: the connection is gone, or ``TimeoutError`` the limit is over.
        """
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname=host)
        self._sock.settimeout(limit_s)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush(outgoing)
                data = self._sock.recv(READ_BYTES)
                if not data:
                    raise ssl.SSLEOFError("the peer closed during the TLS handshake") from None
                incoming.write(data)
                continue
            except ssl.SSLError:
                self._flush(outgoing)
                raise
            break
        self._flush(outgoing)
        self._tls, self._incoming, self._outgoing = tls, incoming, outgoing

    def _flush(self, outgoing: ssl.MemoryBIO) -> None:
        pending = outgoing.read()
        if pending:
            self._sock.sendall(pending)


def clock_offset_s() -> float:
    """The wall clock less ``time.perf_counter``, from the quickest of three pairs of readings.

    Another process may take the core between the two readings of a pair.
    """
    pairs = []
    for _ in range(3):
        before_s = time.perf_counter()
        wall_s = time.time()
        after_s = time.perf_counter()
        pairs.append((after_s - before_s, wall_s - (before_s + after_s) / 2))
    return min(pairs)[1]
