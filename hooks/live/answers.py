"""What the live page is told: what changed since it last asked, as few bytes as that takes."""

from dataclasses import astuple, fields
from typing import Any

from hooks.live.points import COLUMNS, shortened
from hooks.live.run import LiveMark, LiveRun
from hooks.live.stage_lines import StageLine
from metrics.validity import Finding

MARK_COLUMNS = ("at_s", "stage", "phase", "load", "target_users")
STAGE_COLUMNS = tuple(field.name for field in fields(StageLine))
MOST_FINDINGS = 30
"""Told at once; a search that went wrong at each of its levels has more than anybody reads."""


def live_answer(run: LiveRun, asked_run: str, since: int) -> dict[str, Any]:
    """What changed after a revision of a run; everything when it is another run's."""
    whole = asked_run != run.state.run_id or since <= 0 or since > run.revision
    since = 0 if whole else since
    answer: dict[str, Any] = {"revision": run.revision, "status": _status(run)}
    if whole:
        answer["about"] = _about(run)
    points = [point.row() for point in run.series.since(since)]
    marks = [_mark(mark) for mark in run.marks if since < mark.revision <= run.revision]
    lines = [shortened(astuple(line)) for made, line in run.lines.values() if made > since]
    for name, values in (("points", points), ("marks", marks), ("stages", lines)):
        if values:
            answer[name] = values
    if run.findings_revision > since or whole:
        answer["findings"] = [_finding(finding) for finding in run.findings[:MOST_FINDINGS]]
        answer["more_findings"] = max(0, len(run.findings) - MOST_FINDINGS)
    return answer


def _about(run: LiveRun) -> dict[str, Any]:
    """What does not change while a run goes on."""
    state = run.state
    return {
        "name": state.name,
        "model": state.model,
        "url": state.settings.endpoint.url,
        "shape": state.settings.shape,
        "folder": str(state.folder.path),
        "folder_name": state.folder.path.name,
        "point_columns": COLUMNS,
        "mark_columns": MARK_COLUMNS,
        "stage_columns": STAGE_COLUMNS,
    }


def _status(run: LiveRun) -> dict[str, Any]:
    """What changes with each answer."""
    state, directive, totals = run.state, run.directive, run.totals
    return {
        "run_id": state.run_id,
        "running": run.running,
        "elapsed_s": round(run.now_s, 1),
        "expected_s": state.plan.expected_s,
        "end_reason": state.end_reason,
        "stage": directive.stage.id if directive is not None else None,
        "stages": state.plan.stage_count,
        "phase": directive.phase.value if directive is not None else None,
        "load": directive.stage.load if directive is not None else None,
        "reason": directive.reason if directive is not None else "",
        "users": run.users,
        "target_users": directive.target_users if directive is not None else 0,
        "in_flight": state.in_flight if run.running else 0,
        "workers": len(state.workers),
        "offered": totals.offered,
        "ok": totals.ok,
        "failed": totals.failed,
        "cancelled": totals.cancelled,
        "rate_limited": totals.rate_limited_attempts,
        "tokens": totals.completion_tokens,
    }


def _mark(mark: LiveMark) -> list[Any]:
    return [round(mark.at_s, 2), mark.stage, mark.phase.value, mark.load, mark.target_users]


def _finding(finding: Finding) -> list[str]:
    return [finding.severity.value, finding.sentence]
