"""What an exception of a transport's own sockets means for the request."""

import errno
import ssl

from metrics.outcome import Outcome
from stream.sse import EventTooLarge
from users.http_response import ProtocolError
from users.wire import WireFacts, WireFailure

_OUT_OF_RESOURCES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM}
)


def failure_of(
    error: Exception,
    facts: WireFacts,
    connect_limit_s: float | None,
) -> WireFailure:
    """Before a byte was sent it is about connecting, afterwards the answer was interrupted."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.errno in _OUT_OF_RESOURCES:
        return WireFailure(Outcome.CLIENT_RESOURCE, text)
    if isinstance(error, EventTooLarge | ProtocolError):
        return WireFailure(Outcome.MALFORMED_STREAM, text)
    if facts.sent_bytes:
        return WireFailure(Outcome.INTERRUPTED, text)
    if isinstance(error, ssl.SSLError):
        return WireFailure(Outcome.TLS_ERROR, text)
    if isinstance(error, TimeoutError):
        return WireFailure(
            Outcome.CONNECT_TIMEOUT, f"no connection in {connect_limit_s or 0.0:g} s"
        )
    return WireFailure(Outcome.CONNECT_ERROR, text)
