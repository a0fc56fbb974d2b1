"""The rules that a single level's held window is held against."""

from metrics.client_limit import client_advice
from metrics.drift import Drift
from metrics.statistics import samples_needed
from metrics.validity import Finding, Rule, Severity
from metrics.validity_facts import LevelFacts

FAILED_RATIO = 0.01
STEADY_RATIO = 0.2
STEADY_WINDOW_S = 30.0
"""A neighbour's burst on a host is as long as half of a shorter window: that is told, no more."""
MSER_RATIO = 0.25
DRIFT_VOID_RATIO = 0.2
MIXED_RATIO = 0.01
BUFFERED_RATIO = 0.05
HELD_LEVELS = frozenset({"level", "constant", "down"})
"""Kinds of stages that are meant to be steady: a burst and its recovery are not, and how a soak
changes is its result."""
CLOSED_LOOPS = HELD_LEVELS | {"soak", "base"}
"""Kinds of stages in which as many users as wanted ask all the time."""
LAW_FEWEST = 60
LIMITS = "limits"
"""The shape whose steps end when they have shown a limit: no percentile is asked of them."""
OF_LIMITS = frozenset({"users_not_reached", "worker_lost", "client_limited", "failures_over_limit"})
"""The rules that matter to it: whether the rate was offered, and what else failed."""


_HOLD_LONGER = {
    "constant": "run it longer (-t)",
    "soak": "run it longer (-t)",
    "spike": "hold it longer (--hold, for the burst --spike-hold)",
}
"""What makes a window longer, by shape; the others have ``--hold``."""


def _hold_longer(level: LevelFacts) -> str:
    return _HOLD_LONGER.get(level.shape, "hold it longer (--hold)")


def _more_samples(level: LevelFacts) -> str:
    if level.shape != "knee":
        return _hold_longer(level)
    return (
        "it is enough for the knee; for its percentiles hold the level on its own "
        f"(--shape constant -u {level.target_users} -t 5m)"
    )


def _steadier(level: LevelFacts) -> str:
    if level.shape == "knee":
        return "raise --settle, or search again when the host is quiet"
    return f"{_hold_longer(level)}, raise --settle, or repeat it when the host is quiet"


def _client_limited(level: LevelFacts) -> str | None:
    return level.client_limit


def _more_client(level: LevelFacts) -> str:
    return client_advice(level.client_cpu_ratio, level.workers_on_host, level.host_cores)


def _worker_lost(level: LevelFacts) -> str | None:
    lost = level.lost_workers
    if not lost:
        return None
    return f"worker{'s' if len(lost) > 1 else ''} {', '.join(lost)} lost while it ran"


def _out_of_descriptors(level: LevelFacts) -> str | None:
    n = level.without_descriptor
    return f"{n:,} found no descriptor or port" if n else None


def _users_not_reached(level: LevelFacts) -> str | None:
    if level.reached:
        return None
    return f"{level.target_users} users were wanted and never all ran"


def _too_few_samples(level: LevelFacts) -> str | None:
    if not level.held or level.completed >= samples_needed(0.95):
        return None
    return f"{level.completed:,} successes"


def _see_failures(level: LevelFacts) -> str:
    if level.shape == LIMITS:
        return "429s are not among them; see the failures"
    return "the knee leaves the level out; see the failures"


def _failures(level: LevelFacts) -> str | None:
    if level.failed <= FAILED_RATIO * level.finished:
        return None
    return f"{level.failed:,} of {level.finished:,} failed ({level.failed / level.finished:.1%})"


def _not_steady(level: LevelFacts) -> str | None:
    found = [
        f"{what} changed by {test.change_ratio:+.0%} from the first half to the second "
        f"({test.low_ratio:+.0%} to {test.high_ratio:+.0%} at 99.9 %)"
        for what, test in level.halves.items()
        if test.differs_by(STEADY_RATIO)
    ]
    return "; ".join(found) if found and level.kind in HELD_LEVELS else None


def _short(level: LevelFacts) -> bool:
    return level.window_s < STEADY_WINDOW_S


def _short_or_few(level: LevelFacts) -> bool:
    return _short(level) or level.finished < LAW_FEWEST


def _warm_up_too_long(level: LevelFacts) -> str | None:
    cut = level.mser
    if cut is None or level.kind not in HELD_LEVELS or not _is_warm_up(cut.ratio, cut.clear):
        return None
    if abs(cut.excess_ratio) <= STEADY_RATIO:
        return None
    return (
        f"MSER-5 would cut {cut.ratio:.0%} of the window, in which TTFT was "
        f"{cut.excess_ratio:+.0%} against the rest"
    )


def _is_warm_up(ratio: float, clear: bool) -> bool:
    return clear and ratio > MSER_RATIO


def _drift(level: LevelFacts) -> str | None:
    found = [f"{what} {drift.sentence()}" for what, drift in level.drift.items() if drift.shown]
    return "; ".join(found) or None


def _drift_only_told(level: LevelFacts) -> bool:
    """A soak asks for the drift: it is its result and no fault. In a level it is, when large."""
    return level.kind not in HELD_LEVELS or not any(map(_large, level.drift.values()))


def _large(drift: Drift) -> bool:
    return drift.shown and min(abs(drift.low_ratio), abs(drift.high_ratio)) > DRIFT_VOID_RATIO


def _littles_law(level: LevelFacts) -> str | None:
    law = level.law
    if law is None or law.holds or not level.reached or level.kind not in CLOSED_LOOPS:
        return None
    # A user pauses after a failure, which is no part of a cycle: failures have their own rule.
    if _failures(level) is not None:
        return None
    return (
        f"{law.users} users were wanted, and asking or thinking were {law.found_users:.1f} on "
        f"average ({law.gap_ratio:+.1%}, limit {law.limit_ratio:.1%} at {law.cycles:.1f} cycles)"
    )


def _token_source_mixed(level: LevelFacts) -> str | None:
    total = sum(level.token_sources.values())
    if not total or max(level.token_sources.values()) >= (1 - MIXED_RATIO) * total:
        return None
    return ", ".join(f"{n:,} {name}" for name, n in sorted(level.token_sources.items()))


def _buffered(level: LevelFacts) -> str | None:
    # A client that comes late reads in one piece what the endpoint sent in many.
    if level.client_limit is not None or level.buffered <= BUFFERED_RATIO * level.streamed:
        return None
    return f"{level.buffered:,} of {level.streamed:,} streams came in one lump"


def _churned(level: LevelFacts) -> str | None:
    return level.churned


LEVEL_RULES: tuple[Rule[LevelFacts], ...] = (
    Rule(
        "users_not_reached",
        Severity.VOID,
        "all users wanted run before the level is held",
        "raise the spawn rate, or add workers",
        _users_not_reached,
    ),
    Rule(
        "worker_lost",
        Severity.VOID,
        "no worker is lost while the level runs",
        "see that worker's log, and run again",
        _worker_lost,
        " lost a worker",
    ),
    Rule(
        "client_limited",
        Severity.VOID,
        "CPU of a worker's core ≤ 90 % on average; event loop late at p99 by ≤ 50 ms or a tenth "
        "of TTFT p50; arrivals by ≤ 10 ms and a tenth of it, in a search for limits ≤ 50 ms",
        _more_client,
        _client_limited,
        " is client-limited",
    ),
    Rule(
        "client_limited",
        Severity.VOID,
        "no request without a descriptor or port",
        "add workers, or raise ulimit -n",
        _out_of_descriptors,
        " is client-limited",
    ),
    Rule(
        "littles_law",
        Severity.VOID,
        "users = X (R + Z) within max(5 %, 3 standard deviations); a notice in windows under 30 s "
        "or of fewer than 60 requests",
        "users stood idle, were lost, moved to another worker or had no request left of "
        "--max-requests: see the workers' logs",
        _littles_law,
        " disagrees with Little's law",
        _short_or_few,
    ),
    Rule(
        "not_steady",
        Severity.VOID,
        "halves differ by ≤ 20 %, or within chance (99.9 %); a notice in windows under 30 s",
        _steadier,
        _not_steady,
        " is not steady",
        _short,
    ),
    Rule(
        "warm_up_too_long",
        Severity.VOID,
        "MSER-5 cuts ≤ 25 %, or a part within 20 % or chance (99.9 %) of the rest; a notice in "
        "windows under 30 s",
        "raise --settle",
        _warm_up_too_long,
        " was held before it had settled",
        _short,
    ),
    Rule(
        "drift",
        Severity.VOID,
        "p ≥ 0.01 or fitted change ≤ 5 %; void only when surely over 20 %, and never in a soak",
        "look for a leak or a neighbour: a server's memory and cache, the client's CPU and lag",
        _drift,
        " drifted",
        _drift_only_told,
    ),
    Rule(
        "failures_over_limit",
        Severity.NOTICE,
        "failed ≤ 1 % of a level's requests",
        _see_failures,
        _failures,
    ),
    Rule(
        "too_few_samples",
        Severity.NOTICE,
        "36 for p90, 72 for p95, 368 for p99, 3,688 for p99.9; told below 72",
        _more_samples,
        _too_few_samples,
        " has few samples",
    ),
    Rule(
        "token_source_mixed",
        Severity.NOTICE,
        "≥ 99 % of token counts from one source",
        "compare tokens/s only between answers of one source",
        _token_source_mixed,
        " mixes sources of token counts",
    ),
    Rule(
        "buffered_stream",
        Severity.NOTICE,
        "≤ 5 % of streams in one lump",
        "TTFT is then the whole answer's time: switch off response buffering in the proxy",
        _buffered,
        " was buffered on the way",
    ),
    Rule(
        "connections_churned",
        Severity.NOTICE,
        "≤ 10 % of requests, or 4, open a connection beyond each new user's first",
        "each new one pays for TCP and TLS again: check whether the endpoint or a proxy answers "
        "'Connection: close' or closes kept connections early",
        _churned,
        ": connections churned",
    ),
)


def level_findings(level: LevelFacts) -> tuple[Finding, ...]:
    """What the rules find in one level."""
    rules = [rule for rule in LEVEL_RULES if level.shape != LIMITS or rule.name in OF_LIMITS]
    found = (rule.finding(level, level.stage) for rule in rules)
    return tuple(finding for finding in found if finding is not None)
