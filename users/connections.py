"""Kept connections to one endpoint, and the TLS context they share."""

import ssl

import gevent.socket
import gevent.ssl
from geventhttpclient.connectionpool import ConnectionPool

from settings import TimeLimits
from users.connecting import open_socket
from workloads.endpoint import ChatEndpoint

POOL_SIZE = 100_000
"""Never a limit: a pool smaller than the number of users would queue inside the client."""


class CountingPool(ConnectionPool):
    """A pool that can tell a new connection from a kept one, over TCP or over TLS."""

    def __init__(
        self, endpoint: ChatEndpoint, limits: TimeLimits, tls: ssl.SSLContext | None
    ) -> None:
        where = (endpoint.host, endpoint.port, endpoint.host, endpoint.port)
        super().__init__(*where, size=POOL_SIZE)
        self._endpoint = endpoint
        self._limits = limits
        self._tls = tls
        self._fresh: set[int] = set()

    def _create_socket(self) -> gevent.socket.socket:
        sock = open_socket(self._endpoint, self._tls, self._limits.connect_s)
        sock.settimeout(self._limits.first_token_s)
        self._fresh.add(id(sock))
        return sock

    def take(self) -> tuple[gevent.socket.socket, bool]:
        """A connection, and whether it was opened for this call.

        Raises:
            OSError: as ``users.connecting.open_socket``.
        """
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
