"""The rules that a whole run is held against."""

import math

from metrics.validity import Finding, Rule, Severity, gravest_first
from metrics.validity_facts import LevelFacts, RunFacts
from metrics.validity_levels import LEVEL_RULES, level_findings

CACHED_MARGIN_RATIO = 0.05
TEMPLATE_TOKENS = 32
"""The chat template's own tokens are alike in every prompt, and servers cache them too."""
OUTPUT_RATIO = 0.05
OUTPUT_ERRORS = 4.0
OUTPUT_FEWEST = 20


def _requests(n: int) -> str:
    return f"{n:,} request" + ("" if n == 1 else "s")


def _nothing_requested(run: RunFacts) -> str | None:
    return None if run.offered else "no request was made"


def _nothing_succeeded(run: RunFacts) -> str | None:
    if run.ok or not run.offered:
        return None
    return f"none of {_requests(run.offered)} succeeded"


def _failures(run: RunFacts) -> str | None:
    if not run.ok or run.failed <= run.max_fail_ratio * run.offered:
        return None
    return (
        f"{run.failed:,} of {_requests(run.offered)} failed "
        f"({100 * run.failed / run.offered:.1f} %), over --max-fail-ratio {run.max_fail_ratio:g}"
    )


def _partial(run: RunFacts) -> str | None:
    if run.complete:
        return None
    reason = run.end_reason or "it was killed, or is still running"
    return f"partial: the plan did not run to its end ({reason})"


def _quota_used_up(run: RunFacts) -> str | None:
    return run.ended_early if run.ended_by == "quota" else None


def _budget_spent(run: RunFacts) -> str | None:
    return run.ended_early if run.ended_by == "budget" else None


def _disk_full(run: RunFacts) -> str | None:
    return run.ended_early if run.ended_by == "disk" else None


def _worker_lost(run: RunFacts) -> str | None:
    lost = run.lost_workers
    if not lost:
        return None
    text = f"worker {lost[0]} was" if len(lost) == 1 else f"workers {', '.join(lost)} were"
    return f"{text} lost, and what was measured last is only in the spool"


def _nothing_held(run: RunFacts) -> str | None:
    if not run.ok or any(level.completed for level in run.levels):
        return None
    return "no success was started in a held window"


def _accounts(run: RunFacts) -> str | None:
    if not run.unaccounted:
        return None
    left = _requests(run.unaccounted)
    return f"planned is not ok + failed + cancelled + not sent: {left} unaccounted for"


def _tallies_missing(run: RunFacts) -> str | None:
    if not run.tallies_missing or not run.complete:
        return None
    return "stages.json is missing: the held windows are guessed from the requests"


def _tallies_disagree(run: RunFacts) -> str | None:
    if run.tallied is None:
        return None
    return (
        f"records and tallies disagree: {_requests(run.offered)} are kept, "
        f"{run.tallied:,} were counted"
    )


def _cached_above_plan(run: RunFacts) -> str | None:
    if not run.prompt_tokens:
        return None
    share = run.cached_tokens / run.prompt_tokens
    template = TEMPLATE_TOKENS * run.cached_n / run.prompt_tokens
    if share <= run.planned_cached_ratio + template + CACHED_MARGIN_RATIO:
        return None
    return (
        f"{share:.0%} of the prompt tokens came from the server's cache, and shared prefixes "
        f"account for {run.planned_cached_ratio:.0%}"
    )


def _clock_stepped(run: RunFacts) -> str | None:
    found = [f"by {step_s:+.1f} s on {worker}" for worker, step_s in run.clock_steps_s.items()]
    return f"the wall clock was set during the run, {', '.join(found)}" if found else None


def _unequal_outputs(run: RunFacts) -> str | None:
    levels = [level for level in run.levels if level.output_n >= OUTPUT_FEWEST]
    total = sum(level.output_n for level in levels)
    if len(levels) < 2 or not total:
        return None
    mean = sum(level.output_n * (level.output_tokens_mean or 0.0) for level in levels) / total
    error = math.hypot(*(level.output_n * _output_error(level) for level in levels)) / total
    off = [level for level in levels if _output_differs(level, mean, error)]
    if not off:
        return None
    seen = ", ".join(f"{level.output_tokens_mean:.0f} in stage {level.stage + 1}" for level in off)
    return f"answers differ in length between levels: {mean:.0f} tokens on average, but {seen}"


def _output_error(level: LevelFacts) -> float:
    return (level.output_tokens_sd or 0.0) / math.sqrt(level.output_n)


def _output_differs(level: LevelFacts, mean: float, error: float) -> bool:
    gap = abs((level.output_tokens_mean or 0.0) - mean)
    return gap > max(OUTPUT_RATIO * mean, OUTPUT_ERRORS * math.hypot(_output_error(level), error))


RUN_RULES: tuple[Rule[RunFacts], ...] = (
    Rule(
        "nothing_requested",
        Severity.ERROR,
        "at least 1 request",
        "",
        _nothing_requested,
    ),
    Rule(
        "nothing_succeeded",
        Severity.ERROR,
        "at least 1 success",
        "see the failures",
        _nothing_succeeded,
    ),
    Rule(
        "failures_over_limit",
        Severity.ERROR,
        "failed ≤ --max-fail-ratio of all requests; what a search looks for is not counted: 429s "
        "of a search for limits; 429s, 503s and 529s of levels that a search for the knee left for "
        "them",
        "see the failures",
        _failures,
    ),
    Rule(
        "partial",
        Severity.INVALID,
        "the plan runs to its end",
        "",
        _partial,
    ),
    Rule(
        "quota_used_up",
        Severity.ERROR,
        "fewer than --quota-stop answers in a row that say the quota is used up",
        "top up the plan, or use another key",
        _quota_used_up,
    ),
    Rule(
        "budget_spent",
        Severity.NOTICE,
        "the plan costs no more than --budget",
        "the stages after it were not run; give a larger --budget for them",
        _budget_spent,
    ),
    Rule(
        "disk_full",
        Severity.INVALID,
        "records can be kept to the end of the plan",
        "free space and run again; rows that are missing here are in the workers' spools: python "
        "-m reports merge",
        _disk_full,
    ),
    Rule(
        "worker_lost",
        Severity.INVALID,
        "no worker lost",
        "see that worker's log, add its spool (python -m reports merge RUN SPOOL), and run again",
        _worker_lost,
    ),
    Rule(
        "nothing_held",
        Severity.INVALID,
        "at least 1 success in a held window",
        "hold the stages longer (--hold)",
        _nothing_held,
    ),
    Rule(
        "accounts",
        Severity.INVALID,
        "planned = ok + failed + cancelled + not sent, in every stage",
        "",
        _accounts,
    ),
    Rule(
        "accounts",
        Severity.INVALID,
        "stages.json is there",
        "",
        _tallies_missing,
    ),
    Rule(
        "accounts",
        Severity.INVALID,
        "records and tallies count the same",
        "",
        _tallies_disagree,
    ),
    Rule(
        "cached_share_above_plan",
        Severity.NOTICE,
        "cached share ≤ shared prefix tokens / prompt tokens + 32 tokens of template + 5 points",
        "the cache knows these prompts from before: do not repeat a --seed, or restart the server",
        _cached_above_plan,
    ),
    Rule(
        "clock_stepped",
        Severity.NOTICE,
        "wall clock against monotonic clock ≤ 0.1 s",
        "durations are not affected; do not match started_at with a server's log",
        _clock_stepped,
    ),
    Rule(
        "unequal_output_lengths",
        Severity.NOTICE,
        "mean output tokens of a level within 5 %, or 4 standard errors, of all levels'",
        "compare tokens/s and not requests/s, or use --ignore-eos",
        _unequal_outputs,
    ),
)


def find_validity(run: RunFacts) -> tuple[Finding, ...]:
    """What all rules find in a run and its levels, the gravest first."""
    found = [rule.finding(run) for rule in RUN_RULES]
    levels = [finding for level in run.levels for finding in level_findings(level)]
    return gravest_first([*(finding for finding in found if finding is not None), *levels])


def rule_names() -> tuple[str, ...]:
    """All rules by name, each once, the run's first."""
    names = [rule.name for rule in RUN_RULES] + [rule.name for rule in LEVEL_RULES]
    return tuple(dict.fromkeys(names))
