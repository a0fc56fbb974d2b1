"""A connection whose reads carry the time at which the kernel received them.

A client stamps a token when it comes round to reading it; with many streams that is late by as much
as the others take. Linux can attach the arrival time of a packet to a read (SO_TIMESTAMPNS), which
is right however late this process comes round, and works beneath TLS too. The one exception: when a
read takes several packets at once, the kernel gives the time of the last. Where the kernel gives no
stamp the time of the read is taken, and the source is said.
"""

import errno
import socket
import ssl
import struct
import sys
import time
from dataclasses import dataclass

import gevent.socket

READ_BYTES = 64 * 1024
_SO_TIMESTAMPNS = 35
"""Linux's option and message type; Python has no name for it."""
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = 64
_LONGEST_DELAY_NS = 10_000_000_000
_CLOCK_STEP_NS = 500_000


@dataclass(slots=True)
class Arrival:
    """What one read brought. ``at_s`` is on ``time.perf_counter``'s clock; no data means the end.

    ``delay_s`` is how late the read was against the kernel's stamp; None without one.
    """

    data: bytes
    at_s: float
    delay_s: float | None


class StampedSocket:
    """A connected TCP or TLS socket; writes block this greenlet, reads never block."""

    def __init__(self, sock: gevent.socket.socket, tls: ssl.SSLObject | None = None) -> None:
        self._sock = sock
        self._tls = tls
        self._incoming: ssl.MemoryBIO | None = None
        self._outgoing: ssl.MemoryBIO | None = None
        self._offset_ns = time.time_ns() - time.perf_counter_ns()
        self.clock_steps = 0

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

    def receive(self) -> Arrival | None:
        """What has arrived; None when nothing has (or, under TLS, no whole record).

        Raises:
            OSError: the connection was reset, or ``ssl.SSLError`` its encryption is broken.
        """
        try:
            data, ancillary, _, _ = self._raw.recvmsg(READ_BYTES, _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        now_ns = time.perf_counter_ns()
        delay_ns = self._delay_ns(ancillary, now_ns)
        if self._tls is not None:
            plain = self._decrypt(data)
            if plain is None:
                return None
            data = plain
        if delay_ns is None:
            return Arrival(data, now_ns / 1e9, None)
        return Arrival(data, (now_ns - delay_ns) / 1e9, delay_ns / 1e9)

    @property
    def _raw(self) -> socket.socket:
        """The plain socket beneath gevent's, whose reads never wait."""
        raw: socket.socket = self._sock._sock
        return raw

    def _delay_ns(self, ancillary: list[tuple[int, int, bytes]], now_ns: int) -> int | None:
        """How long ago the kernel received the data.

        Both clocks are read at the same moment, so the wall clock serves only for the short time
        between the kernel's stamp and now; if it was set meanwhile, the stamp is not used.
        """
        wall_ns = time.time_ns()
        offset_ns = wall_ns - now_ns
        stepped = abs(offset_ns - self._offset_ns) > _CLOCK_STEP_NS
        self._offset_ns = offset_ns
        if stepped:
            self.clock_steps += 1
            return None
        for level, kind, stamp in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack_from(stamp)
                delay_ns = wall_ns - (seconds * 1_000_000_000 + nanoseconds)
                return delay_ns if 0 <= delay_ns < _LONGEST_DELAY_NS else None
        return None

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


def connect(host: str, port: int, limit_s: float | None) -> StampedSocket:
    """Open a TCP connection to the first address that answers.

    Raises:
        OSError: none does, or the name has no address; ``TimeoutError`` when the limit is over.
    """
    first_error: OSError | None = None
    addresses = gevent.socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    for family, kind, protocol, _, address in addresses:
        sock = None
        try:
            sock = gevent.socket.socket(family, kind, protocol)
            sock.settimeout(limit_s)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _ask_for_stamps(sock)
        except OSError as error:
            first_error = first_error or error
            if sock is not None:
                sock.close()
            continue
        except BaseException:
            # The greenlet was told to stop: nobody else knows of this socket.
            if sock is not None:
                sock.close()
            raise
        return StampedSocket(sock)
    raise first_error or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")


def _ask_for_stamps(sock: gevent.socket.socket) -> None:
    if sys.platform != "linux":
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        # A sandbox that knows no stamps: reads then say so by having none.
        return
