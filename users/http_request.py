"""A chat request as HTTP/1.1 bytes, the same from every transport that writes its own."""

from collections.abc import Mapping

from users.wire import ChatRequest
from workloads.endpoint import ChatEndpoint


class RequestWriter:
    """Writes requests to one endpoint; what all of them share is encoded once."""

    def __init__(self, endpoint: ChatEndpoint, headers: Mapping[str, str]) -> None:
        self._head = request_head(endpoint, headers)
        given = {name.lower() for name in headers}
        self._sends_request_id = "x-request-id" not in given
        self._sends_trace = "traceparent" not in given

    def message(self, request: ChatRequest) -> bytes:
        """The whole request. A user's own ``X-Request-Id`` or ``traceparent`` replaces ours."""
        identity = b"X-Request-Id: %b\r\n" % request.request_id.encode("latin-1")
        trace = b""
        if self._sends_trace and request.traceparent is not None:
            trace = b"traceparent: %b\r\n" % request.traceparent.encode("latin-1")
        return b"".join(
            (
                self._head,
                identity if self._sends_request_id else b"",
                trace,
                b"Content-Length: %d\r\n\r\n" % len(request.body),
                request.body,
            )
        )


def request_head(endpoint: ChatEndpoint, headers: Mapping[str, str]) -> bytes:
    """Request line and header fields common to all requests, each ended by CRLF.

    A field of ``headers`` takes the place of ours of the same name.
    """
    own = {
        "Host": endpoint.authority,
        "User-Agent": "swarmgauge",
        "Accept": "text/event-stream, application/json",
        # A compressing proxy holds small events back until its buffer is full.
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    given = {name.lower() for name in headers}
    fields = {name: value for name, value in own.items() if name.lower() not in given}
    fields.update(headers)
    lines = [f"POST {endpoint.target()} HTTP/1.1", *(f"{n}: {v}" for n, v in fields.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n"
