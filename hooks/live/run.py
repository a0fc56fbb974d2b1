"""One run as the live page shows it, fed from the workers' reports and asked every two seconds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hooks.live.findings import live_findings
from hooks.live.points import HEALTH, LATENCIES, Point
from hooks.live.series import LiveSeries
from hooks.live.stage_lines import StageLine, stage_line
from hooks.live.windows import HeldRates, HeldWindows
from hooks.run_state import RunState
from metrics.histogram import Histogram
from metrics.stage import WITHOUT_WINDOW, Phase
from metrics.tally import Counts, StageTally
from metrics.validity import Finding, Severity
from shapes.plan import Directive

MOST_MARKS = 2000
"""Phases that are drawn; a search has a few hundred at most."""


@dataclass(frozen=True, slots=True)
class LiveMark:
    """A phase began, seconds since the run began; ``revision`` is the first that tells of it."""

    at_s: float
    stage: int
    phase: Phase
    load: str
    target_users: int
    revision: int


@dataclass(slots=True)
class _Seen:
    """A stage's tally as it was at the last look."""

    ok: int = 0
    failed: int = 0
    rate_limited: int = 0
    tokens: int = 0
    progress: tuple[int, int] = (0, 0)
    histograms: dict[str, Histogram] = field(default_factory=dict)


class LiveRun:
    """What a run has shown so far. Times are seconds since it began, on the master's clock."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.series = LiveSeries()
        self.windows = HeldWindows()
        self.marks: list[LiveMark] = []
        self.lines: dict[int, tuple[int, StageLine]] = {}
        """By stage id, with the revision that last changed it."""
        self.findings: tuple[Finding, ...] = ()
        self.findings_revision = 0
        self.running = True
        self.now_s = 0.0
        self.users = 0
        self.directive: Directive | None = None
        self.totals = Counts()
        self._seen: dict[int, _Seen] = {}
        self._lost_in: dict[int, set[str]] = {}
        self._gone: set[str] = set()
        self._limits: dict[int, tuple[int, str | None]] = {}

    @property
    def revision(self) -> int:
        """Grows with each look; what changed later has a greater one."""
        return self.series.revision

    @property
    def open_stage(self) -> int | None:
        """The stage that is under way; None in a drain and after the end."""
        directive = self.directive
        if not self.running or directive is None or directive.phase is Phase.DRAIN:
            return None
        return directive.stage.id

    def accept(self, report: Mapping[str, Any]) -> None:
        """A worker's report, which the state has had already."""
        self.windows.mark(report["marks"])
        self.windows.add(report["worker"], report["rows"])

    def note(self, directive: Directive, now_s: float) -> None:
        """What the plan wants now."""
        last, self.directive = self.directive, directive
        if last is not None and (last.stage, last.phase) == (directive.stage, directive.phase):
            return
        stage = directive.stage
        revision = self.series.revision + 1
        self.marks.append(
            LiveMark(now_s, stage.id, directive.phase, stage.load, stage.target_users, revision)
        )
        del self.marks[:-MOST_MARKS]

    def look(self, now_s: float, alive: Collection[str], users: int) -> None:
        """Add what came since the last look; ``alive`` are the workers that are there."""
        if now_s <= self.now_s:
            return
        self.users = users
        self._note_losses(alive)
        point = Point(self.now_s, now_s, self.users, self.state.in_flight)
        changed = [
            stage_id
            for stage_id, tally in self.state.book.by_stage.items()
            if self._take(stage_id, tally, point)
        ]
        self.now_s = now_s
        self.series.add(point)
        for made in self.series.since(self.revision - 1):
            made.row()  # now, and not all at once when somebody opens the page
        self.totals = self.state.book.total()
        findings = live_findings(
            self.state, self.running, self.open_stage, self._gone, self._lost_in, self._limits
        )
        if findings != self.findings:
            self.findings, self.findings_revision = findings, self.revision
        self._refresh_lines(changed)

    def end(self, now_s: float) -> None:
        """The run is over; its last reports have come in."""
        self.running = False
        self.look(now_s, set(self.state.workers) - self.state.lost, users=0)

    def _note_losses(self, alive: Collection[str]) -> None:
        gone = set(self.state.workers) - set(alive)
        stage = self.open_stage
        if stage is not None and gone - self._gone:
            self._lost_in.setdefault(stage, set()).update(gone - self._gone)
        self._gone = gone

    def _take(self, stage_id: int, tally: StageTally, point: Point) -> bool:
        """Add to the point what is new in a stage; whether anything is."""
        seen = self._seen.setdefault(stage_id, _Seen())
        everything = tally.everything
        progress = (everything.offered, tally.health["loop_lag_s"].n)
        if progress == seen.progress:
            return False
        seen.progress = progress
        point.ok += everything.ok - seen.ok
        point.failed += everything.failed - seen.failed
        point.rate_limited += everything.rate_limited_attempts - seen.rate_limited
        point.tokens += everything.completion_tokens - seen.tokens
        seen.ok, seen.failed = everything.ok, everything.failed
        seen.rate_limited = everything.rate_limited_attempts
        seen.tokens = everything.completion_tokens
        for names, histograms in ((LATENCIES, tally.latency), (HEALTH, tally.health)):
            for name in names:
                new = histograms[name].since(seen.histograms.get(name))
                if new.n:
                    point.histograms.setdefault(name, Histogram()).merge(new)
                    seen.histograms[name] = histograms[name].copy()
        return True

    def _refresh_lines(self, changed: Collection[int]) -> None:
        """Make the lines anew that can have changed."""
        remarks: dict[int | None, str] = {}
        for finding in reversed(self.findings):
            if finding.severity is Severity.VOID:
                remarks[finding.stage] = finding.evidence
        current = self.open_stage
        for stage in self.state.plan.stages:
            if stage.kind in WITHOUT_WINDOW:
                continue
            before = self.lines.get(stage.id)
            state = self._state_of(stage.id, current)
            remark = remarks.get(stage.id, "")
            if before is not None and stage.id not in changed and stage.id != current:
                _, old = before
                if (old.state, old.remark) == (state, remark) and self.running:
                    continue
            rates = self._rates(stage.id)
            tally = self.state.book.by_stage.get(stage.id)
            line = stage_line(stage, tally, rates, state, remark)
            if before is None or before[1] != line:
                self.lines[stage.id] = (self.revision, line)

    def _rates(self, stage: int) -> HeldRates:
        rates = self.windows.rates(stage, self._held_s(stage))
        # Where the workers keep the rows, only the windows are known here.
        if self.windows.requests < self.totals.offered:
            return HeldRates(rates.window_s)
        if stage == self.open_stage:
            return replace(rates, in_flight=self.state.in_flight)
        return rates

    def _held_s(self, stage: int) -> float | None:
        """How long the stage has been held until now; None when its window is not open."""
        if stage != self.open_stage or not self.marks or self.marks[-1].phase is not Phase.HOLD:
            return None
        return max(0.0, self.now_s - self.marks[-1].at_s)

    def _state_of(self, stage: int, current: int | None) -> str:
        if stage in self.state.plan.not_reached:
            return "not reached"
        if stage == current and self.directive is not None:
            return self.directive.phase.value
        begun = any(mark.stage == stage for mark in self.marks)
        held = any(mark.stage == stage and mark.phase is Phase.HOLD for mark in self.marks)
        if held:
            return "held"
        return "not held" if begun or not self.running else "waiting"
