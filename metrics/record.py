"""The one datum: what is kept of each logical request.

A *logical request* is what a user asked for; *attempts* are what went on the wire for it. There is
one record per logical request, frozen, written once. Durations are float seconds of one monotonic
clock; the wall clock only labels. Missing is None, never 0, -1 or NaN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from metrics.outcome import Outcome, ReadMode, StampSource, TokenSource
from metrics.stage import Phase
from metrics.trace_context import trace_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One logical request; ``docs/metrics.md`` gives each figure's definition.

    Times named ``*_s`` from ``headers_s`` to ``end_s`` are measured from the moment the winning
    attempt's first byte was sent; ``user_ttft_s`` and ``user_latency_s`` from the moment the user
    wanted the answer.
    """

    # identity
    run_id: str
    worker: str
    user: int
    sequence: int
    """This worker's count of logical requests, from 0."""
    stage: int | None
    """None when no shape had announced a stage yet."""
    phase: Phase | None
    user_class: str
    traffic_class: str
    prompt_id: str
    prefix_id: str | None
    session: str | None = None
    turn: int | None = None

    # when
    started_at: str
    """Wall clock, ISO 8601 in UTC: a label only."""
    started_s: float
    """This worker's monotonic clock, seconds since it joined the run."""
    schedule_delay_s: float = 0.0
    client_wait_s: float = 0.0
    connect_s: float | None = None
    """None when a kept connection was reused."""
    headers_s: float | None = None
    ttft_s: float | None = None
    ttfa_s: float | None = None
    last_token_s: float | None = None
    end_s: float
    user_ttft_s: float | None = None
    user_latency_s: float
    think_s: float = 0.0

    # stream
    streamed: bool
    """Whether the answer came as an event stream, whatever was asked for."""
    stream_asked: bool
    chunks: int = 0
    """Chunks with generated output."""
    max_gap_s: float | None = None
    keepalives: int = 0
    buffered: bool = False
    """All output arrived in one lump although it was many tokens: no gap means anything."""
    saw_done: bool = False
    finish_reason: str | None = None
    tool_calls: int = 0

    # tokens
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    token_source: TokenSource = TokenSource.UNKNOWN
    asked_max_tokens: int | None = None

    # outcome
    outcome: Outcome
    status: int | None = None
    error_code: str | None = None
    error_sample: str | None = None
    """One short line of the error, secrets masked, markup and line ends removed."""

    # retries
    attempts: int = 1
    rate_limited_attempts: int = 0
    """Attempts answered 429."""
    retry_wait_s: float = 0.0
    """All pauses before retries together."""
    asked_wait_s: float | None = None
    """The longest wait that the server asked for; None when it never did."""
    wasted_tokens: int = 0
    """Completion tokens that the server says it made in attempts that did not end well."""
    wasted_prompt_tokens: int = 0
    """Prompt tokens sent in such attempts, as far as any answer told how many they are."""
    lost_sent_s: tuple[float, ...] = ()
    """When each attempt before the last was sent, seconds from ``started_s``."""
    lost_end_s: tuple[float, ...] = ()
    """When each of these was over, seconds from ``started_s``."""
    lost_status: tuple[int, ...] = ()
    """The HTTP status of each of these; 0 when there was none."""

    # transport
    connection_reused: bool = False
    connections_opened: int = 0
    reconnects: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    served_by: str | None = None
    request_id: str | None = None
    stamp_source: StampSource = StampSource.USER
    client_delay_s: float | None = None
    merged_reads: int = 0
    read_mode: ReadMode = ReadMode.FULL
    ttft_late_max_s: float | None = None
    """How late TTFT may be at most, when more than the first output came in its read."""
    noticed_late_s: float = 0.0
    """How long after the answer's end the user learnt of it, and could ask again."""
    in_flight_at_send: int = 0

    # the rate-limit headers seen last
    limit_requests: int | None = None
    remaining_requests: int | None = None
    limit_tokens: int | None = None
    remaining_tokens: int | None = None
    reset_s: float | None = None

    @property
    def counted(self) -> bool:
        """Whether the request was started in a held window, so that its stage's figures use it."""
        return self.stage is not None and self.phase is Phase.HOLD

    @property
    def trace_id(self) -> str | None:
        """Its id in a tracing system, where ``traceparent`` was sent; None for what was not."""
        if self.request_id is None or not self.attempts:
            return None
        return trace_id(self.request_id)

    @property
    def last_sent_s(self) -> float | None:
        """When the last attempt was sent, seconds from ``started_s``; None when none was."""
        return self.user_latency_s - self.e2e_latency_s if self.attempts else None

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first; None below two tokens or when buffered."""
        if not self.streamed or self.buffered or self.ttft_s is None or self.last_token_s is None:
            return None
        if self.completion_tokens is None or self.completion_tokens < 2:
            return None
        return (self.last_token_s - self.ttft_s) / (self.completion_tokens - 1)

    @property
    def e2e_latency_s(self) -> float:
        """Last output chunk minus sent; the body's end when the answer was not streamed."""
        if self.streamed and self.last_token_s is not None:
            return self.last_token_s
        return self.end_s

    def to_row(self) -> list[Any]:
        """The values in the order of ``FIELD_NAMES``, as msgpack and JSON take them."""
        return [getattr(self, name) for name in FIELD_NAMES]

    @classmethod
    def from_row(cls, row: Sequence[Any], names: Sequence[str] | None = None) -> Self:
        """Rebuild a record from :meth:`to_row`; ``names`` when the row is of another version.

        Raises:
            ValueError: the row's length is not that of its names.
        """
        return cls.from_mapping(dict(zip(names or FIELD_NAMES, row, strict=True)))

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild a record from field names and plain values; unknown names are ignored."""
        known = {name: values[name] for name in FIELD_NAMES if name in values}
        for name, kind in _ENUMS.items():
            if known.get(name) is not None:
                known[name] = kind(known[name])
        for name in SEVERAL:
            if name in known:
                known[name] = tuple(known[name])
        return cls(**known)


FIELD_NAMES: tuple[str, ...] = tuple(field.name for field in fields(RequestRecord))
SEVERAL = ("lost_sent_s", "lost_end_s", "lost_status")
"""Fields with one value for each attempt before the last."""
_ENUMS = {
    "phase": Phase,
    "outcome": Outcome,
    "token_source": TokenSource,
    "stamp_source": StampSource,
    "read_mode": ReadMode,
}
