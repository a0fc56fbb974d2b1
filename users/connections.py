"""Kept connections to one endpoint, and the TLS context they share."""

import ssl
from typing import Any

import gevent.socket
import gevent.ssl
from geventhttpclient.connectionpool import ConnectionPool, SSLConnectionPool

from settings import TimeLimits
from workloads.endpoint import ChatEndpoint

POOL_SIZE = 100_000
"""Never a limit: a pool smaller than the number of users would queue inside the client."""


class CountingPool(ConnectionPool):
    """A pool that can tell a new connection from a kept one."""

    def __init__(self, *args: object, **keywords: object) -> None:
        super().__init__(*args, **keywords)
        self._fresh: set[int] = set()

    def after_connect(self, sock: gevent.socket.socket) -> None:
        sock.setsockopt(gevent.socket.IPPROTO_TCP, gevent.socket.TCP_NODELAY, 1)
        self._fresh.add(id(sock))

    def take(self) -> tuple[gevent.socket.socket, bool]:
        """A connection, and whether it was opened for this call."""
        sock = self.get_socket()
        fresh = id(sock) in self._fresh
        self._fresh.discard(id(sock))
        return sock, fresh

    def take_fresh(self) -> gevent.socket.socket:
        """A connection opened now, whatever is kept."""
        self._semaphore.acquire()
        try:
            sock = self._create_socket()
        except BaseException:
            self._semaphore.release()
            raise
        self._fresh.discard(id(sock))
        return sock


class CountingTlsPool(CountingPool, SSLConnectionPool):
    """The same over TLS."""


def open_pool(
    endpoint: ChatEndpoint, limits: TimeLimits, tls: ssl.SSLContext | None
) -> CountingPool:
    """A pool over TCP, or over TLS when a context is given."""
    where = (endpoint.host, endpoint.port, endpoint.host, endpoint.port)
    keywords: dict[str, Any] = {
        "size": POOL_SIZE,
        "connection_timeout": limits.connect_s,
        "network_timeout": limits.first_token_s,
    }
    if tls is None:
        return CountingPool(*where, **keywords)
    return CountingTlsPool(
        *where,
        ssl_context_factory=lambda cafile=None: tls,
        insecure=tls.verify_mode == ssl.CERT_NONE,
        **keywords,
    )


def tls_context(ca_file: str | None, insecure: bool) -> ssl.SSLContext:
    """The process's one TLS context: making one costs 17 ms, so never one per user.

    Raises:
        OSError: the file of certificates cannot be read.
        ssl.SSLError: it holds no certificate.
    """
    context: ssl.SSLContext = gevent.ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
