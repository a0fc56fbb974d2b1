"""Running sums of one stage on one worker, mergeable without loss over workers.

A tally holds what the records cannot (every chunk gap, the client's own health) and what the live
view needs at once. Two tallies of the same stage add up to the tally of both workers' requests.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from metrics.histogram import Histogram
from metrics.outcome import Outcome
from metrics.record import RequestRecord

LATENCY_METRICS: tuple[str, ...] = (
    "ttft_s",
    "ttfa_s",
    "chunk_gap_s",
    "tpot_s",
    "e2e_latency_s",
    "user_ttft_s",
    "user_latency_s",
)
HEALTH_METRICS: tuple[str, ...] = ("loop_lag_s", "client_delay_s", "cpu_ratio", "gc_pause_s")


@dataclass(slots=True)
class Counts:
    """Exact counts over a set of logical requests."""

    offered: int = 0
    """Logical requests that a user wanted."""
    sent: int = 0
    """Of those, the ones that can have reached the server."""
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    attempts: int = 0
    rate_limited_attempts: int = 0
    retried: int = 0
    """Logical requests with more than one attempt."""
    ok_after_retry: int = 0
    wasted_tokens: int = 0
    wasted_prompt_tokens: int = 0
    failed_prompt_tokens: int = 0
    """Told by the server of requests that did not end well; the next two likewise."""
    failed_cached_tokens: int = 0
    failed_completion_tokens: int = 0
    cancelled_chunks: int = 0
    """Chunks with output that had come when the user left."""
    reconnects: int = 0
    connections_opened: int = 0
    asked_stream_got_json: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    by_outcome: Counter[str] = field(default_factory=Counter)
    by_finish_reason: Counter[str] = field(default_factory=Counter)
    token_sources: Counter[str] = field(default_factory=Counter)

    def add(self, record: RequestRecord) -> None:
        """Count one request; tokens are those of successes only."""
        ok = record.outcome is Outcome.OK
        self.offered += 1
        self.sent += record.attempts > 0 and record.outcome.reached_wire
        self.ok += ok
        self.failed += record.outcome.failed
        self.cancelled += record.outcome is Outcome.CANCELLED
        self.attempts += record.attempts
        self.rate_limited_attempts += record.rate_limited_attempts
        self.retried += record.attempts > 1
        self.ok_after_retry += ok and record.attempts > 1
        self.wasted_tokens += record.wasted_tokens
        self.wasted_prompt_tokens += record.wasted_prompt_tokens
        self.reconnects += record.reconnects
        self.connections_opened += record.connections_opened
        self.asked_stream_got_json += ok and record.stream_asked and not record.streamed
        self.by_outcome[record.outcome.value] += 1
        if ok:
            self.prompt_tokens += record.prompt_tokens or 0
            self.completion_tokens += record.completion_tokens or 0
            self.cached_tokens += record.cached_tokens or 0
            self.by_finish_reason[record.finish_reason or "none"] += 1
            self.token_sources[record.token_source.value] += 1
            return
        self.failed_prompt_tokens += record.prompt_tokens or 0
        self.failed_cached_tokens += record.cached_tokens or 0
        self.failed_completion_tokens += record.completion_tokens or 0
        if record.outcome is Outcome.CANCELLED:
            self.cancelled_chunks += record.chunks

    def merge(self, other: "Counts") -> None:
        """Add the other counts to these."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _COUNTERS:
            getattr(self, name).update(getattr(other, name))

    def to_wire(self) -> dict[str, Any]:
        """Plain values for msgpack or JSON."""
        plain: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        plain.update({name: dict(getattr(self, name)) for name in _COUNTERS})
        return plain

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_wire`."""
        # Runs that were saved by earlier versions lack what was not counted then.
        values = {name: wire.get(name, 0) for name in _NUMBERS}
        values.update({name: Counter(wire[name]) for name in _COUNTERS})
        return cls(**values)


_COUNTERS = ("by_outcome", "by_finish_reason", "token_sources")
_NUMBERS = tuple(name for name in Counts.__slots__ if name not in _COUNTERS)


def _histograms(names: Iterable[str]) -> dict[str, Histogram]:
    return {name: Histogram() for name in names}


@dataclass(slots=True)
class StageTally:
    """All requests of one stage, and apart from them those of its held window.

    ``latency`` and ``failed_latency_s`` cover the held window only: successes in the first,
    failures in the second, never mixed. ``health`` is this stage's client side: event-loop lag,
    read delay and garbage-collection pauses (seconds), and process CPU (0-1 of one core).
    """

    everything: Counts = field(default_factory=Counts)
    held: Counts = field(default_factory=Counts)
    latency: dict[str, Histogram] = field(default_factory=lambda: _histograms(LATENCY_METRICS))
    failed_latency_s: Histogram = field(default_factory=Histogram)
    health: dict[str, Histogram] = field(default_factory=lambda: _histograms(HEALTH_METRICS))

    def add(self, record: RequestRecord, gaps_s: Sequence[float]) -> None:
        """Add one request and the gaps between its output chunks (seconds)."""
        self.everything.add(record)
        if not record.counted:
            return
        self.held.add(record)
        if record.client_delay_s is not None:
            self.health["client_delay_s"].add(max(0.0, record.client_delay_s))
        if record.outcome is not Outcome.OK:
            if record.outcome.failed:
                # The time that really passed, also when some output came before the failure.
                waited_s = record.user_latency_s - record.e2e_latency_s
                self.failed_latency_s.add(max(0.0, waited_s + record.end_s))
            return
        for name in LATENCY_METRICS:
            value = None if name == "chunk_gap_s" else getattr(record, name)
            if value is not None:
                self.latency[name].add(max(0.0, value))
        if not record.buffered:
            self.latency["chunk_gap_s"].add_many(gaps_s)

    def merge(self, other: "StageTally") -> None:
        """Add the other tally to this one."""
        self.everything.merge(other.everything)
        self.held.merge(other.held)
        self.failed_latency_s.merge(other.failed_latency_s)
        for mine, theirs in ((self.latency, other.latency), (self.health, other.health)):
            for name, histogram in theirs.items():
                mine.setdefault(name, Histogram()).merge(histogram)

    def to_wire(self) -> dict[str, Any]:
        """Plain values for msgpack or JSON; empty histograms are left out."""
        return {
            "everything": self.everything.to_wire(),
            "held": self.held.to_wire(),
            "latency": {k: h.to_wire() for k, h in self.latency.items() if h.n},
            "failed_latency_s": self.failed_latency_s.to_wire(),
            "health": {k: h.to_wire() for k, h in self.health.items() if h.n},
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_wire`."""
        tally = cls(
            everything=Counts.from_wire(wire["everything"]),
            held=Counts.from_wire(wire["held"]),
            failed_latency_s=Histogram.from_wire(wire["failed_latency_s"]),
        )
        for mine, theirs in ((tally.latency, wire["latency"]), (tally.health, wire["health"])):
            mine.update({name: Histogram.from_wire(h) for name, h in theirs.items()})
        return tally


class TallyBook:
    """The tallies of a run by stage id; requests before any stage are under ``BEFORE_STAGES``."""

    BEFORE_STAGES = -1

    def __init__(self) -> None:
        self.by_stage: dict[int, StageTally] = {}

    def stage(self, stage_id: int | None) -> StageTally:
        """The tally of a stage, made when first asked for."""
        key = self.BEFORE_STAGES if stage_id is None else stage_id
        return self.by_stage.setdefault(key, StageTally())

    def add(self, record: RequestRecord, gaps_s: Sequence[float]) -> None:
        """Add one request to its stage."""
        self.stage(record.stage).add(record, gaps_s)

    def merge(self, other: "TallyBook") -> None:
        """Add the other book to this one."""
        for stage_id, tally in other.by_stage.items():
            self.stage(stage_id).merge(tally)

    def total(self) -> Counts:
        """The counts of all stages together."""
        counts = Counts()
        for tally in self.by_stage.values():
            counts.merge(tally.everything)
        return counts

    def to_wire(self) -> dict[str, Any]:
        """Plain values for msgpack or JSON, keyed by the stage id as text."""
        return {str(stage_id): tally.to_wire() for stage_id, tally in self.by_stage.items()}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_wire`."""
        book = cls()
        book.by_stage = {int(key): StageTally.from_wire(value) for key, value in wire.items()}
        return book
