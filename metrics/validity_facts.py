"""What the rules of validity look at: plain values of one level, and of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from metrics.drift import Drift
from metrics.littles_law import LittlesLaw
from metrics.steady import HalvesTest, MserCut


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFacts:
    """One level's held window; counts are of its requests, times in seconds.

    A test that could not be made, for too few values or too short a window, is None or left out.
    """

    stage: int
    kind: str = "level"
    shape: str = "ladder"
    """The run's shape, on which it depends what to do."""
    target_users: int
    users_seen: int | None = None
    reached: bool = True
    """False when the users wanted never all ran."""
    held: bool = True
    """False when the plan never came to hold it."""
    window_s: float = 0.0
    completed: int = 0
    failed: int = 0
    finished: int = 0
    """Successes and failures."""
    lost_workers: tuple[str, ...] = ()
    """Those that were lost while it ran."""
    client_limit: str | None = None
    """How the client itself set the limit; None when it did not."""
    client_cpu_ratio: float | None = None
    """Share of its core (0-1) that a worker used on average."""
    workers_on_host: int = 1
    """The most workers that one host had."""
    host_cores: int | None = None
    without_descriptor: int = 0
    """Requests that found no descriptor or port, also outside the window."""
    halves: Mapping[str, HalvesTest] = field(default_factory=dict)
    """By what was compared, such as ``TTFT``."""
    mser: MserCut | None = None
    drift: Mapping[str, Drift] = field(default_factory=dict)
    """By what drifted, such as ``TTFT p99``."""
    law: LittlesLaw | None = None
    token_sources: Mapping[str, int] = field(default_factory=dict)
    """Successes by where their token counts came from."""
    streamed: int = 0
    buffered: int = 0
    """Of the streamed successes, those that came in one lump."""
    churned: str | None = None
    """How many connections were opened beyond each new user's first, when too many."""
    output_n: int = 0
    output_tokens_mean: float | None = None
    output_tokens_sd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A whole run, beside its levels."""

    levels: tuple[LevelFacts, ...] = ()
    complete: bool = True
    end_reason: str | None = None
    ended_early: str | None = None
    """Why the run was ended before its plan was through; None when it was not."""
    ended_by: str | None = None
    """``quota`` or ``budget``, of a run that was ended early."""
    lost_workers: tuple[str, ...] = ()
    offered: int = 0
    ok: int = 0
    failed: int = 0
    max_fail_ratio: float = 0.1
    unaccounted: int = 0
    """Requests that are neither ok, failed, cancelled nor not sent."""
    tallies_missing: bool = False
    tallied: int | None = None
    """What the tallies counted, where they and the records disagree."""
    prompt_tokens: int = 0
    """Of held successes that tell what was cached of theirs."""
    cached_tokens: int = 0
    cached_n: int = 0
    planned_cached_ratio: float = 0.0
    """Shared prefix tokens / prompt tokens, as planned."""
    clock_steps_s: Mapping[str, float] = field(default_factory=dict)
    """By worker: how far its wall clock was set, where it was."""
