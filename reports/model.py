"""What a run says: the values that every renderer reads, and nothing else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from metrics.cost import CostReport
from metrics.knee import KneeEstimate
from metrics.slo import SloVerdict
from metrics.statistics import Summary
from metrics.tally import Counts
from metrics.validity import Finding


class ExitCode(IntEnum):
    """What the process ends with; the reason is always printed."""

    OK = 0
    ERROR = 1
    USAGE = 2
    SLO_MISSED = 3
    INVALID = 4


def gravest(codes: Iterable[ExitCode]) -> ExitCode:
    """Errors go before invalidity, and that before a missed objective."""
    found = set(codes)
    order = (ExitCode.ERROR, ExitCode.INVALID, ExitCode.SLO_MISSED)
    return next((code for code in order if code in found), ExitCode.OK)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reason not to take the figures as they stand. ``code`` is the exit code it asks for."""

    code: ExitCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage of the plan; figures are of its held window, None where there is nothing to say."""

    stage: int
    kind: str
    target_users: int
    rate_rps: float | None = None
    """Of an open loop's step, requests/s over the fleet."""
    rate_tokens_per_s: float | None = None
    """The nominal tokens/s that set the pace of such a step; None where requests do."""
    users_seen: int | None
    reached: bool
    window_s: float | None
    window_begin_s: float | None
    """The held window's bounds, the widest over the workers, each on its own clock."""
    window_end_s: float | None
    offered: int
    sent: int
    completed: int
    failed: int
    cancelled: int
    not_sent: int
    left_out: int
    """Requests of this stage that were started outside its held window."""
    rate_limited_attempts: int
    rate_limited_ratio: float | None
    sent_rps: float | None
    completed_rps: float | None
    output_tokens_per_s: float | None
    tokens_per_s_per_user: float | None
    in_flight: float | None
    littles_law_gap: float | None
    """(in flight − sent per second × mean time in flight) / in flight."""
    ttft: Summary
    tpot: Summary
    e2e_latency: Summary
    queue_share: float | None
    carried_users: float | None
    flags: tuple[str, ...]
    limited_by: str | None = None
    """What answered 429, in words; None when next to nothing did."""
    good_ratio: float | None = None
    """Share (0-1) of all its requests within every objective; None without objectives."""
    goodput_rps: float | None = None
    """Of these, so many per second were completed."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """The flags but for small samples, which have their star beside the figure."""
        flags = (flag for flag in self.flags if not flag.startswith("TTFT"))
        return (*flags, self.limited_by) if self.limited_by else tuple(flags)


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Failures of one kind; latencies in seconds from wanting to giving up."""

    outcome: str
    status: int | None
    error_code: str | None
    count: int
    latency: Summary
    sample: str | None


@dataclass(frozen=True, slots=True)
class ModeRow:
    """The latencies of one way of asking and being answered, never mixed with another."""

    mode: str
    user_class: str
    metrics: Mapping[str, Summary]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """The client's own state in one stage's window: times in seconds, CPU as 0-1 of one core.

    What the process watched is None where it did not; what the records say is of the requests
    that were started in the window.
    """

    stage: int
    loop_lag_p50_s: float | None
    loop_lag_p99_s: float | None
    client_delay_p50_s: float | None
    """How late first tokens were read against the kernel's stamp; None without stamps."""
    client_delay_p99_s: float | None
    cpu_mean_ratio: float | None
    cpu_max_ratio: float | None
    gc_pauses: int | None
    """Collections by Python's garbage collector, over all workers."""
    gc_pause_p99_s: float | None
    gc_pause_max_s: float | None
    gc_share: float | None
    """All pauses together, as 0-1 of the workers' held time."""
    n: int
    connection_requests: int
    """Requests whose transport tells its connections; the openai SDK does not."""
    connections_opened: int
    connections_reused: int
    reconnects: int
    """Kept connections that turned out closed and were opened again."""
    connections_churned: str | None
    """How many were opened beyond each new user's first, when that is more than 10 %."""
    streams: int
    """Requests whose answer came as a stream with at least one output."""
    kernel_stamped: int
    """Of the streams, those whose times are the kernel's."""
    merged_reads: int
    requests_with_merged_reads: int
    first_merged: int | None
    """Streams whose first output was read in one piece with later output; None: not recorded."""
    ttft_late_max_s: float | None
    """How late the TTFT of any of these may be at most; None: of none."""
    fully_read: int | None
    """Streams of which every chunk was stamped, so that they have gaps; None: not recorded."""
    noticed_late_mean_s: float | None
    """How long after the end of a lazily read stream its user learnt of it, on average."""
    limited: str | None
    """Why the stage's figures speak of the client and not of the endpoint; None when not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """The whole run's token rate, from the first start to the last finish of its successes."""

    seconds: float | None
    output_tokens_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Tokens asked for and tokens that came, over successes that have both numbers."""

    n: int
    asked_tokens: int
    completion_tokens: int
    short: int
    """Answers with fewer tokens than were asked for: most models end when they are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """Prompt tokens that came from the server's cache, over successes that tell; tokens."""

    known: int
    unknown: int
    """Successes whose server said nothing of its cache, which is not the same as no hit."""
    cached_tokens: int
    prompt_tokens: int
    """Of the known ones alone."""
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A run, analysed."""

    meta: Mapping[str, Any]
    folder_name: str
    headline: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    validity: tuple[Finding, ...]
    """All findings, notices too; ``verdicts`` has those that decide the exit code."""
    notices: tuple[str, ...]
    totals: Counts
    held: Counts
    not_sent: int
    left_out_by_phase: Mapping[str, int]
    stages: tuple[StageRow, ...]
    latency: Mapping[str, Summary]
    lengths: Lengths
    cache: CacheUse
    modes: tuple[ModeRow, ...]
    failures: tuple[FailureRow, ...]
    client: tuple[ClientRow, ...]
    client_sentences: tuple[str, ...]
    """The measuring error, and what this host can do as a client."""
    knee: KneeEstimate
    slo: tuple[SloVerdict, ...]
    good_ratio: float | None
    throughput: Throughput
    ledger: Any
    """A ``reports.ledger.Ledger``, which stands above this module."""
    rate_limits: Any
    """A ``reports.rate_limits.RateLimits``; None when the run met none."""
    cost: CostReport | None
    """None when no price was given."""
    complete: bool
    started_at: str
    ended_at: str | None
    gaps: Mapping[int, Summary] = field(default_factory=dict)
    """Between output chunks, of each stage that has any, by its id."""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether nothing speaks against the measurement itself."""
        return not any(verdict.code is ExitCode.INVALID for verdict in self.verdicts)

    @property
    def exit_code(self) -> ExitCode:
        """That of the gravest verdict."""
        return gravest(verdict.code for verdict in self.verdicts)
