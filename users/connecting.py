"""Opens connections: name, addresses, the proxy's tunnel and TLS, all within one limit.

A limit for each step would add up: a name with two addresses that swallow packets, a proxy that
says nothing and a slow handshake could each take the whole of it.
"""

import errno
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import gevent
import gevent.socket

from users.proxy import Proxy, ProxyError, proxy_of
from users.stamped_socket import SO_TIMESTAMPNS, StampedSocket
from workloads.endpoint import ChatEndpoint

MAX_HEAD_BYTES = 64 * 1024


@contextmanager
def one_limit(limit_s: float | None) -> Iterator[None]:
    """End what this greenlet waits for once ``limit_s`` seconds are over; None waits for ever.

    Raises:
        TimeoutError: the limit is over.
    """
    # Not an OSError until it leaves here: the steps below catch those and go on.
    with gevent.Timeout(limit_s) as limit:
        try:
            yield
        except gevent.Timeout as over:
            if over is not limit:
                raise
            raise TimeoutError(f"no connection in {limit_s or 0.0:g} s") from None


def open_stamped(
    endpoint: ChatEndpoint, tls: ssl.SSLContext | None, limit_s: float | None
) -> StampedSocket:
    """A connection to the endpoint whose reads carry the kernel's stamps; ``limit_s`` covers all.

    Raises:
        TimeoutError: the limit is over.
        ssl.SSLError: the certificate is not trusted, or the peer speaks no TLS.
        ProxyError: the proxy cannot be reached, or refuses to open a tunnel.
        OSError: no address answers, or the name has none.
    """
    with one_limit(limit_s):
        sock = _reach(endpoint, limit_s)
        _ask_for_stamps(sock)
        connection = StampedSocket(sock)
        try:
            if tls is not None:
                connection.start_tls(tls, endpoint.host, limit_s)
        except BaseException:
            connection.close()
            raise
        return connection


def open_socket(
    endpoint: ChatEndpoint, tls: ssl.SSLContext | None, limit_s: float | None
) -> gevent.socket.socket:
    """As :func:`open_stamped`, but gevent's own socket."""
    with one_limit(limit_s):
        sock = _reach(endpoint, limit_s)
        try:
            if tls is not None:
                # The wrapped socket takes the descriptor over before anything can go wrong.
                sock = tls.wrap_socket(
                    sock, server_hostname=endpoint.host, do_handshake_on_connect=False
                )
                sock.do_handshake()
            return sock
        except BaseException:
            sock.close()
            raise


def _reach(endpoint: ChatEndpoint, limit_s: float | None) -> gevent.socket.socket:
    """A TCP connection on which the endpoint can be spoken to: its own, or one by the proxy."""
    proxy = proxy_of(endpoint)
    if proxy is None:
        return _connect(endpoint.host, endpoint.port, limit_s)
    try:
        sock = _connect(proxy.host, proxy.port, limit_s)
    except OSError as error:
        if isinstance(error, TimeoutError):
            raise
        failed = ProxyError(f"{proxy} cannot be reached: {error}")
        # Too many open files is this machine's trouble, whoever was to be reached.
        failed.errno = error.errno
        raise failed from None
    try:
        if endpoint.tls:
            _open_tunnel(sock, proxy, endpoint)
    except BaseException:
        sock.close()
        raise
    return sock


def _connect(host: str, port: int, limit_s: float | None) -> gevent.socket.socket:
    """Connect to the first address that answers; each gets a fair share of the time that is left.

    An address that swallows packets must leave time for the next.
    """
    until_s = None if limit_s is None else time.perf_counter() + limit_s
    try:
        addresses = gevent.socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"{host} is no host name: {error}") from None
    errors: list[OSError] = []
    for tried, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = None
        try:
            sock = gevent.socket.socket(family, kind, protocol)
            if until_s is not None:
                left_s = max(0.001, until_s - time.perf_counter())
                sock.settimeout(left_s / (len(addresses) - tried))
            sock.connect(address)
            sock.settimeout(limit_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            errors.append(error)
            if sock is not None:
                sock.close()
            continue
        except BaseException:
            # The greenlet was told to stop: nobody else knows of this socket.
            if sock is not None:
                sock.close()
            raise
        return sock
    # An address that refused says more than one that was only not waited for any longer.
    errors.sort(key=lambda error: isinstance(error, TimeoutError))
    raise errors[0] if errors else OSError(errno.EADDRNOTAVAIL, f"{host} has no address")


def _open_tunnel(sock: gevent.socket.socket, proxy: Proxy, endpoint: ChatEndpoint) -> None:
    sock.sendall(proxy.connect_request(endpoint))
    head = b""
    while b"\r\n\r\n" not in head:
        data = sock.recv(4096)
        if not data:
            raise ProxyError(f"{proxy} closed instead of answering CONNECT")
        head += data
        if len(head) > MAX_HEAD_BYTES:
            raise ProxyError(f"{proxy} answered CONNECT with no end of header fields")
    proxy.check_answer(head, endpoint)


def _ask_for_stamps(sock: gevent.socket.socket) -> None:
    if sys.platform != "linux":
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        # A sandbox that knows no stamps: reads then say so by having none.
        return
