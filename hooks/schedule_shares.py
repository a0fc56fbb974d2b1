"""The master's side of an open loop's schedule: when a worker goes, the others take its arrivals.

All workers know the schedule and follow it from the announcement of a stage, so it is enough to
tell them from which second of it on who shares it.
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from locust.env import Environment
from locust.runners import Runner

from hooks import messages
from hooks.fleet import dispatch_only_to, hand_out_anew, hands_out_nothing
from metrics.stage import COLD_STAGE, Phase
from options import OPEN_LOOPS

NOTICE_S = 3.0
"""From the announcement until it holds: all have heard of it by then."""
_BEFORE_STAGES = -1

log = logging.getLogger("swarmgauge")


class ScheduleShares:
    """Who shares the schedule of the run under way."""

    def __init__(self, environment: Environment, runner: Runner) -> None:
        self._environment, self._runner = environment, runner
        self._locusts_dispatcher = environment.dispatcher_class
        self._run_id = ""
        self._members: tuple[str, ...] = ()
        self._sharing: tuple[str, ...] = ()
        self._stage = _BEFORE_STAGES
        self._began_s: float | None = None
        self._users_missing = False

    def begin(self, run_id: str, shape: str, members: Sequence[str]) -> None:
        """A run of a shape begins with these workers; one that is no open loop has no schedule."""
        self._run_id, self._stage, self._began_s = run_id, _BEFORE_STAGES, None
        self._members = tuple(members) if shape in OPEN_LOOPS else ()
        self._sharing, self._users_missing = self._members, False
        self._environment.dispatcher_class = self._locusts_dispatcher
        if self._members:
            dispatch_only_to(self._runner, self._members)

    @property
    def is_followed(self) -> bool:
        """Whether the run has a schedule: its users stay with those that share it."""
        return bool(self._members)

    def enter(self, phase: Mapping[str, Any]) -> None:
        """A phase was announced: a stage's schedule begins with its first one after the ramp."""
        if phase["stage"] == COLD_STAGE:
            return
        if phase["stage"] != self._stage:
            self._stage, self._began_s = phase["stage"], None
        if self._began_s is None and phase["phase"] in (Phase.SETTLE.value, Phase.HOLD.value):
            self._began_s = time.monotonic()

    def strangers(self, present: Collection[str]) -> set[str]:
        """Those of them that have no share of the schedule and therefore no user."""
        return set(present) - set(self._members) if self._members else set()

    def check(self, alive: Collection[str]) -> None:
        """Look who is there; asked about once a second."""
        if not self._members:
            return
        fleet = tuple(member for member in self._members if member in alive)
        if fleet and fleet != self._sharing:
            self._share_anew(fleet)
        self._fill_up()

    def _share_anew(self, fleet: tuple[str, ...]) -> None:
        since_s = 0.0 if self._began_s is None else time.monotonic() - self._began_s + NOTICE_S
        log.warning(
            "the schedule is shared by %d of %d workers from now on",
            len(fleet),
            len(self._members),
        )
        told = {"run_id": self._run_id, "stage": self._stage, "from_s": since_s, "fleet": fleet}
        self._sharing, self._users_missing = fleet, True
        self._runner.send_message(messages.SHARE_ANEW, told)

    def _fill_up(self) -> None:
        """Have Locust start the user of a worker that went elsewhere: a stage that lacks it would
        never be reached."""
        runner = self._runner
        if not self._users_missing or not hands_out_nothing(runner):
            return
        self._users_missing = False
        if runner.user_count < runner.target_user_count:
            hand_out_anew(runner)
