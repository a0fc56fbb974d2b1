"""The Locust shape that follows a plan; the one shape class, so that ``--shape`` can choose."""

import logging
import time
from typing import Protocol

from locust import LoadTestShape

from metrics.stage import Phase, Stage
from shapes.plan import Directive, Measured, Observation, Plan

log = logging.getLogger("swarmgauge")


class RunSide(Protocol):
    """What the shape needs of whoever conducts the run."""

    @property
    def plan(self) -> Plan | None:
        """The plan of the run that is under way; None between runs."""

    @property
    def measured(self) -> Measured | None:
        """What the workers of that run have reported."""

    @property
    def in_flight(self) -> int | None:
        """Requests of the fleet under way; None before any worker told."""

    @property
    def finished(self) -> int:
        """Logical requests of the run that are over and reported."""

    def begin(self) -> Plan | None:
        """Start a run; None when it was refused."""

    def announce(self, stage: Stage, phase: Phase, users: int) -> None:
        """Tell every worker that a phase of a stage begins."""

    def plan_is_over(self) -> None:
        """The plan ran to its end: what follows is not an interruption."""


class PlannedShape(LoadTestShape):
    """Follows the plan of the current run; a start in the page begins a fresh one.

    Locust keeps one instance for the life of the process, so all state of a run is kept by the
    run's side and here only what was last announced for it.
    """

    # Locust then shows users, spawn rate and run time in the page and lets plans read them.
    use_common_options = True

    def __init__(self, side: RunSide) -> None:
        super().__init__()
        self._side = side
        self._last: Directive | None = None

    def tick(self) -> tuple[int, float] | None:
        """Locust's hook, about once a second: users wanted and spawn rate, or None to end."""
        plan = self._side.plan
        if plan is None:
            self._last = None
            plan = self._side.begin()
            if plan is None:
                return None
        users = self.get_current_user_count()
        side = self._side
        now_s = time.perf_counter()
        seen = Observation(now_s, users, side.measured, side.in_flight, side.finished)
        directive = plan.next(seen)
        if directive is None:
            self._side.plan_is_over()
            return None
        last = self._last
        if last is None or (last.stage, last.phase) != (directive.stage, directive.phase):
            if directive.reason and (last is None or last.reason != directive.reason):
                log.info("%s", directive.reason)
            self._side.announce(directive.stage, directive.phase, users)
        self._last = directive
        return directive.target_users, directive.spawn_rate
