"""What the page watches: the run under way or the last one, and the runs that have ended."""

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from hooks.live.followed import FollowedPlan
from hooks.live.run import LiveRun
from hooks.run_state import RunState
from metrics.run_files import REPORT_HTML
from shapes.plan import Directive, Plan

MOST_RUNS = 20
"""Ended runs that the page links to."""


class LiveView:
    """Told by the master's side of a run what happens to it."""

    def __init__(self) -> None:
        self.run: LiveRun | None = None
        self.refused: str | None = None
        """Why the last start began no run."""
        self.folders: dict[str, Path] = {}
        """Of the runs of this process, by name, the newest last."""
        self._began_s = 0.0

    def begin(self, state: RunState) -> None:
        """A run begins."""
        self._began_s = time.perf_counter()
        self.run, self.refused = LiveRun(state), None
        self.folders[state.folder.path.name] = state.folder.path.resolve()
        for name in list(self.folders)[:-MOST_RUNS]:
            del self.folders[name]

    def refuse(self, reason: str) -> None:
        """A start began no run."""
        self.refused = reason

    def follow(self, plan: Plan) -> FollowedPlan:
        """The plan of the run that began, to be asked instead of it."""
        return FollowedPlan(plan, self._note)

    def accept(self, report: Mapping[str, Any]) -> None:
        """A report of a worker in that run, which its state has had already."""
        if self.run is not None:
            self.run.accept(report)

    def look(self, alive: Collection[str], users: int) -> None:
        """Take in what came; asked every two seconds.

        ``alive`` are the workers that are there, ``users`` those of the fleet that run.
        """
        if self.run is not None and self.run.running:
            self.run.look(self._now_s(), alive, users)

    def end(self) -> None:
        """The run is over, and its state has ended."""
        if self.run is not None and self.run.running:
            self.run.end(self._now_s())

    def reports(self) -> list[tuple[str, bool]]:
        """The runs of this process and whether their report is there, the newest first."""
        return [
            (name, (folder / REPORT_HTML).is_file())
            for name, folder in reversed(self.folders.items())
        ]

    def _note(self, directive: Directive) -> None:
        if self.run is not None:
            self.run.note(directive, self._now_s())

    def _now_s(self) -> float:
        return time.perf_counter() - self._began_s
