"""What passes between a user and the transport it speaks through.

A transport sends one request body and hands every piece of the answer, with its arrival time, to
a :class:`~stream.reply.ReplyReader`. It knows nothing of tokens, records or Locust.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from metrics.outcome import Outcome, ReadMode, StampSource
from stream.reply import ReplyReader


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request as it goes on the wire; headers common to all are the transport's."""

    body: bytes
    request_id: str
    traceparent: str | None = None
    """The attempt in its trace (W3C Trace Context); None: not told."""


@dataclass(frozen=True, slots=True)
class WireFailure:
    """Why a request did not run to its end, as the transport saw it; ``message`` is unmasked."""

    outcome: Outcome
    message: str


@dataclass(slots=True)
class WireFacts:
    """What the transport saw of one request; instants are ``time.perf_counter`` of this process.

    ``sent_at_s`` is taken just before the first byte is sent, on a connection that is open;
    ``end_s`` counts from it. ``interrupt`` is the exception that told this greenlet to stop, to be
    raised again once the record is written.
    """

    sent_at_s: float
    end_s: float = 0.0
    connect_s: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    failure: WireFailure | None = None
    connection_reused: bool = False
    connections_opened: int = 0
    reconnects: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    stamp_source: StampSource = StampSource.USER
    client_delay_s: float | None = None
    """How late the first output was read against the kernel's stamp; None without one."""
    read_mode: ReadMode = ReadMode.FULL
    merged_reads: int = 0
    """Reads that held more than one chunk with output: their stamps are the last one's."""
    ttft_late_max_s: float | None = None
    """How late the first output's stamp may be, when more came in the same read; else None."""
    noticed_late_s: float = 0.0
    """How long after the answer's end its user learnt of it."""
    interrupt: BaseException | None = None


class ChatTransport(Protocol):
    """Sends chat requests; one per process, shared by its users."""

    def post(self, request: ChatRequest, reader: ReplyReader) -> WireFacts:
        """Send one request and read its answer into ``reader``; never raises for a failed one."""

    def close(self) -> None:
        """Drop kept connections."""
