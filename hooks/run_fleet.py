"""The workers of the run under way: who takes part, who was refused, and who went on the way."""

import logging
import time
from typing import Any

import gevent
from locust.env import Environment
from locust.runners import MasterRunner, Runner

from hooks import messages
from hooks.absences import Absences
from hooks.fleet import (
    alive_workers,
    dispatch_only_to,
    fleet_of,
    hand_out_anew,
    leave_out,
    take_back,
    take_in,
)
from hooks.request_shares import RequestShares
from hooks.roll_call import RollCall
from hooks.run_options import read_text
from hooks.run_state import RunState
from hooks.schedule_shares import ScheduleShares
from hooks.suite_identity import SUITE, FileReader, suite_hash
from settings import Settings
from shapes.bounded import EarlyEnd, EndKind

log = logging.getLogger("swarmgauge")


class RunFleet:
    """Calls the workers, begins the run on them, and watches them, for the master's side."""

    def __init__(self, environment: Environment, runner: Runner) -> None:
        self._environment = environment
        self._runner = runner
        self._roll_call = RollCall(runner)
        self._shares = RequestShares(runner)
        self._schedule = ScheduleShares(environment, runner)
        self._absences = Absences()
        self._code = suite_hash(SUITE)
        self._question: dict[str, Any] = {}
        self._begin: dict[str, Any] = {}
        self._state: RunState | None = None
        self._joinable = False
        self._refused: set[str] = set()
        self._admitted: set[str] = set()
        """The client ids of those that may be given users."""
        self._users_missing = False
        self.members: list[str] = []
        """The client ids of those that share the run's schedule, in the order of their shares."""
        runner.register_message(messages.HELLO, self._on_hello)
        runner.register_message(messages.TROUBLE, self._on_trouble)
        environment.events.worker_connect.add_listener(self._on_worker_connect)

    def gather(self, run_id: str, settings: Settings) -> list[str]:
        """Who takes part in a run that begins: all that have no trouble. The troubles of others."""
        self._refused, self._absences = set(), Absences()
        reader = FileReader(read_text)
        Settings.from_options(settings.options, reader)
        self._question = {
            "run_id": run_id,
            "options": dict(settings.options),
            "identity": {"code": self._code, "files": reader.hashes},
        }
        self.members = fleet_of(self._runner)
        if not isinstance(self._runner, MasterRunner):
            return []
        self._roll_call.call(self._question, self.members)
        troubles = self._roll_call.troubles
        self._refused = set(troubles)
        self.members = [client_id for client_id in self.members if client_id not in troubles]
        return [_cannot(client_id, troubles[client_id]) for client_id in sorted(troubles)]

    def begin(self, state: RunState, include_usage: bool) -> None:
        """Tell all that take part that the run begins."""
        self._state, self._joinable = state, True
        self._schedule.begin(state.run_id, state.settings.shape, self.members)
        self._admitted, self._users_missing = set(self.members), False
        if not self._schedule.is_followed:
            dispatch_only_to(self._runner, self._admitted)
        self._shares.begin(state.run_id, state.settings.max_requests, self.members)
        self._begin = {
            **self._question,
            "model": state.model,
            "include_usage": include_usage,
            "salt": state.salt,
            "folder_name": state.folder.path.name,
            "fleet": self.members,
        }
        self._note_clocks()
        if not isinstance(self._runner, MasterRunner):
            state.wall_clocks["local"] = 0.0, 0.0
            self._runner.send_message(messages.BEGIN, self._begin)
            return
        for client_id in self.members:
            self._runner.send_message(messages.BEGIN, self._begin, client_id)

    def alive(self) -> frozenset[str]:
        """The workers that have reported and are there, by our short names."""
        known = self._state.workers if self._state is not None else {}
        return alive_workers(self._runner, known)

    def enter(self, phase: dict[str, Any]) -> None:
        """Tell all that a phase begins."""
        fleet = fleet_of(self._runner)
        strangers = self._schedule.strangers(fleet) | (set(fleet) - self._admitted)
        take_back(self._runner, self._refused | strangers)
        self._schedule.enter(phase)
        self._runner.send_message(messages.PHASE, phase)

    def check(self) -> None:
        """Look at the fleet; asked about once a second."""
        state = self._state
        if state is None or not self._joinable:
            return
        phase = state.last_phase
        stage = phase["stage"] if phase is not None else None
        for client_id in self._refused:
            # Its heartbeat after a silence has Locust give it users again.
            self._users_missing |= leave_out(self._runner, client_id)
        missed = self._absences.check(state.heard_in, self.alive(), stage, time.monotonic())
        for worker in missed:
            log.warning("worker %s is silent or gone: its part of the load is not run", worker)
        for worker in state.workers:
            state.away[worker] = self._absences.of(worker)
        self._note_clocks()
        alive = set(fleet_of(self._runner)) - self._refused
        self._admit(alive)
        self._schedule.check(alive)
        why = self._shares.used_up(alive)
        if why is not None and state.plan.ended_early is None:
            log.info("the run ends: %s", why)
            state.plan.end(EarlyEnd(EndKind.REQUESTS, why))

    def _admit(self, alive: set[str]) -> None:
        """Give users to those that came late and can take part, and ask those that have not said.

        One that came during the roll call was not asked: no run had begun that it could join.
        """
        late = alive - self._admitted
        for client_id in late - self._roll_call.sound:
            self._welcome(client_id)
        came = late & self._roll_call.sound
        self._admitted |= came
        if came and not self._schedule.is_followed:
            take_in(self._runner, came)
            self._users_missing = True
        if self._users_missing and hand_out_anew(self._runner):
            self._users_missing = False

    def end(self) -> None:
        """The run ends: nobody joins it any more."""
        self._joinable = False

    def _note_clocks(self) -> None:
        state = self._state
        if state is None:
            return
        for worker, clock in self._roll_call.clocks.items():
            new = worker not in state.wall_clocks
            state.wall_clocks[worker] = (clock.offset_s, clock.error_s)
            if new and (apart := clock.describe()) is not None:
                text = f"the wall clock of worker {worker} is {apart}"
                log.warning("%s", text)
                state.notices.append(text)

    def _on_worker_connect(self, client_id: str, **_: Any) -> None:
        self._welcome(client_id)

    def _on_hello(self, environment: Environment, msg: Any, **_: Any) -> None:
        # What was sent as it connected came before the worker could hear us.
        self._welcome(msg.data["client_id"])

    def _welcome(self, client_id: str) -> None:
        """A worker that joins late gets to know the run and the stage it is in."""
        state = self._state
        if state is None or not self._joinable:
            return
        self._roll_call.ask(self._question, client_id)
        self._runner.send_message(messages.BEGIN, self._begin, client_id)
        if state.last_phase is not None:
            self._runner.send_message(messages.PHASE, state.last_phase, client_id)

    def _on_trouble(self, environment: Environment, msg: Any, **_: Any) -> None:
        state, client_id = self._state, msg.data["client_id"]
        text = _cannot(msg.data["worker"], msg.data["text"])
        log.error("%s", text)
        if state is None or not self._joinable or msg.data["run_id"] != state.run_id:
            return
        state.notices.append(text)
        self._refused.add(client_id)
        self._admitted.discard(client_id)
        self._users_missing |= leave_out(self._runner, client_id)
        if not set(fleet_of(self._runner)) - self._refused:
            log.error("no worker is left that can take part: the run ends")
            headless = bool(getattr(self._environment.parsed_options, "headless", False))
            gevent.spawn(self._runner.quit if headless else self._runner.stop)


def _cannot(worker: str, why: str) -> str:
    return f"worker {worker} cannot take part: {why}"
