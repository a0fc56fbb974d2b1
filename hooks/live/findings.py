"""What speaks against a run so far: the rules of validity that can be asked before its end.

They are the report's own rules, on what tallies and the fleet tell. Those that need all records
(Little's law, drift, steadiness) are asked by the report alone.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from hooks.run_state import RunState
from hooks.stage_guard import FEWEST_SAMPLES
from metrics.client_limit import client_limit
from metrics.outcome import Outcome
from metrics.stage import WITHOUT_WINDOW, Stage
from metrics.tally import Counts, StageTally
from metrics.validity import Finding, Severity, gravest_first
from metrics.validity_facts import LevelFacts, RunFacts
from metrics.validity_runs import find_validity
from options import SEARCHES

TOO_EARLY = frozenset({"nothing_requested", "nothing_succeeded", "nothing_held"})
"""Of a run that goes on these only say that it is young."""
LIMITS = "limits"


def live_findings(
    state: RunState,
    running: bool,
    open_stage: int | None,
    lost: Collection[str],
    lost_in: Mapping[int, Collection[str]],
    limits: dict[int, tuple[int, str | None]],
) -> tuple[Finding, ...]:
    """The gravest first.

    ``open_stage`` is the stage that is under way; ``lost`` are the workers that are gone,
    ``lost_in`` the same by the stage in which they went. ``limits`` keeps between the calls of a
    run which stages the client limited.
    """
    plan, book, shape = state.plan, state.book, state.settings.shape
    total = book.total()
    levels = tuple(
        _level(state, stage, book.by_stage.get(stage.id), lost_in, stage.id != open_stage, limits)
        for stage in plan.stages
        if stage.kind not in WITHOUT_WINDOW
        and (stage.id in book.by_stage or stage.id in plan.not_reached)
    )
    early = plan.ended_early
    facts = RunFacts(
        levels=levels,
        complete=running or state.end_reason == "finished",
        end_reason=state.end_reason,
        lost_workers=tuple(sorted(lost)),
        offered=total.offered,
        ok=total.ok,
        failed=_unwanted(total, shape in SEARCHES),
        max_fail_ratio=state.settings.max_fail_ratio,
        ended_early=early.reason if early is not None else None,
        ended_by=early.kind.value if early is not None else None,
    )
    found = [f for f in find_validity(facts) if not (running and f.rule in TOO_EARLY)]
    return gravest_first([*found, *_set_aside(plan.void_reasons, found)])


def _level(
    state: RunState,
    stage: Stage,
    tally: StageTally | None,
    lost_in: Mapping[int, Collection[str]],
    closed: bool,
    limits: dict[int, tuple[int, str | None]],
) -> LevelFacts:
    facts = LevelFacts(
        stage=stage.id,
        kind=stage.kind,
        shape=state.settings.shape,
        target_users=stage.target_users,
        reached=stage.id not in state.plan.not_reached,
        held=False,
        lost_workers=tuple(sorted(lost_in.get(stage.id, ()))),
    )
    if tally is None:
        return facts
    held = tally.held
    failed = _unwanted(held, state.settings.shape == LIMITS)
    seen = tally.health["loop_lag_s"].n + held.offered
    if limits.get(stage.id, (-1, None))[0] != seen:
        limits[stage.id] = (seen, _client_limit(tally))
    return replace(
        facts,
        held=closed and held.offered > 0,
        completed=held.ok,
        failed=failed,
        finished=held.ok + failed,
        client_limit=limits[stage.id][1],
        client_cpu_ratio=tally.health["cpu_ratio"].mean,
        workers_on_host=max(Counter(state.workers.values()).values(), default=1),
        without_descriptor=tally.everything.by_outcome[Outcome.CLIENT_RESOURCE.value],
        token_sources=dict(held.token_sources),
    )


def _client_limit(tally: StageTally) -> str | None:
    lag, cpu = tally.health["loop_lag_s"], tally.health["cpu_ratio"]
    if lag.n < FEWEST_SAMPLES:
        return None
    ttft_s = tally.latency["ttft_s"].percentile(0.5)
    return client_limit(lag.percentile(0.99), cpu.mean, ttft_s)


def _unwanted(counts: Counts, looked_for: bool) -> int:
    """Failures but for what the search looks for."""
    refused = counts.by_outcome[Outcome.RATE_LIMITED.value] if looked_for else 0
    return counts.failed - refused


def _set_aside(reasons: Mapping[int, str], found: Collection[Finding]) -> list[Finding]:
    """The levels that a search set aside for a reason that no rule has told already."""
    void = {f.stage for f in found if f.severity is Severity.VOID}
    return [
        Finding("set_aside", Severity.VOID, stage, " was set aside by the search", reason, "", "")
        for stage, reason in sorted(reasons.items())
        if stage not in void
    ]
