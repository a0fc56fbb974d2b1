"""How one logical request ended, and where its token counts came from.

A request is classified once, at the edge, by ``users.classify``; everything after that only reads
the enum.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """The end of a logical request; exactly one applies."""

    OK = "ok"
    RATE_LIMITED = "rate_limited"
    """Refused with 429: a limiter, not a broken server."""
    QUOTA_EXHAUSTED = "quota_exhausted"
    """429 or 402 that can never succeed: the plan is used up."""
    OVERLOADED = "overloaded"
    """503 or 529: the server refuses because it is full."""
    SERVER_ERROR = "server_error"
    CLIENT_ERROR = "client_error"
    """A 4xx that no other kind names."""
    CONTEXT_LENGTH = "context_length"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    CONNECT_ERROR = "connect_error"
    TLS_ERROR = "tls_error"
    CONNECT_TIMEOUT = "connect_timeout"
    FIRST_TOKEN_TIMEOUT = "first_token_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    INTERRUPTED = "interrupted"
    """The connection was lost in the middle of the body."""
    TRUNCATED = "truncated"
    """The body ended cleanly, with neither a finish_reason nor ``[DONE]``."""
    STREAM_ERROR = "stream_error"
    """An error object inside a stream that had answered 200."""
    MALFORMED_STREAM = "malformed_stream"
    EMPTY_RESPONSE = "empty_response"
    BAD_RESPONSE = "bad_response"
    """A 200 whose plain body is not a chat completion."""
    CLIENT_RESOURCE = "client_resource"
    """This machine ran out of descriptors or ports: never the server's fault."""
    CANCELLED = "cancelled"
    NOT_SENT = "not_sent"
    """An arrival of an open loop that this client never came to send."""

    @property
    def failed(self) -> bool:
        """True for everything but a success, what we cancelled ourselves and what we never sent."""
        return self not in (Outcome.OK, Outcome.CANCELLED, Outcome.NOT_SENT)

    @property
    def reached_wire(self) -> bool:
        """False when no byte of the request can have reached the server."""
        return self not in _NEVER_SENT


_NEVER_SENT = frozenset(
    {
        Outcome.CONNECT_ERROR,
        Outcome.TLS_ERROR,
        Outcome.CONNECT_TIMEOUT,
        Outcome.CLIENT_RESOURCE,
        Outcome.NOT_SENT,
    }
)


class TokenSource(StrEnum):
    """Where a record's token counts came from. Chunks are never taken for tokens."""

    SERVER = "server"
    """The server's own ``usage``."""
    COUNTED = "counted"
    """Counted by a tokenizer of ours: an estimate."""
    UNKNOWN = "unknown"


class StampSource(StrEnum):
    """Which clock reading a chunk's arrival time is."""

    KERNEL = "kernel"
    USER = "user"


class ReadMode(StrEnum):
    """How a stream was read: each chunk as it came, or many at a time after the first."""

    FULL = "full"
    LAZY = "lazy"
