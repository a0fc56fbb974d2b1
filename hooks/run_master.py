"""The master's side of a run: begins it, announces its stages, gathers what workers measured, and
ends it with a complete folder, whatever ended it."""

import logging
import secrets as chance
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gevent
from locust import User
from locust.env import Environment
from locust.runners import MasterRunner, Runner

from hooks import messages
from hooks.early_end import EarlyEnds
from hooks.fleet import fleet_of
from hooks.ignored_options import ignored_options
from hooks.joining import prompt_plan
from hooks.last_reports import LastReports
from hooks.level_watch import LevelWatch
from hooks.live.view import LiveView
from hooks.planning import choose_plan, choose_users, length_of
from hooks.preflight_call import PreflightCall
from hooks.reporting import Reporter
from hooks.run_fleet import RunFleet
from hooks.run_folder import create_run_folder
from hooks.run_options import RunOptions, checked_settings
from hooks.run_state import RunState
from hooks.run_worker import RunWorker
from hooks.stage_guard import StageGuard
from metrics.run_files import rows_of, stage_to_wire
from metrics.stage import Phase, Stage
from settings import SettingsError, rows_read_by
from shapes.plan import Plan
from workloads.traffic import TrafficKind

SAVE_PERIOD_S = 2.0
EXIT_ERROR = 1
EXIT_USAGE = 2
NO_WORKER = "no worker is left; start one with: locust --worker"

log = logging.getLogger("swarmgauge")


class RunMaster:
    """Conducts runs on the master, or on the only process."""

    def __init__(
        self,
        environment: Environment,
        runner: Runner,
        user_classes: dict[TrafficKind, type[User]],
        local_worker: RunWorker | None,
    ) -> None:
        self._environment = environment
        self._runner = runner
        self._user_classes = user_classes
        self._local_worker = local_worker
        self._state: RunState | None = None
        self._plan: Plan | None = None
        self._watch = LevelWatch()
        self._guard = StageGuard(self._watch)
        self._saver: gevent.Greenlet | None = None
        self._preflight = PreflightCall(runner)
        self._fleet = RunFleet(environment, runner)
        self._last_reports = LastReports(runner)
        self._reporter = Reporter()
        self.live = LiveView()
        self._quitting = False
        self._early_ends = EarlyEnds(runner)
        self._run_options = RunOptions(environment)
        runner.register_message(messages.FINAL, self._on_final)
        events = environment.events
        events.worker_report.add_listener(self._on_worker_report)
        events.test_stopping.add_listener(self._on_test_stopping)
        events.test_stop.add_listener(self._on_test_stop)
        events.quitting.add_listener(self._on_quitting)
        events.quit.add_listener(self._on_quit)

    @property
    def plan(self) -> Plan | None:
        """The plan of the run that is under way; None between runs."""
        return self._plan

    @property
    def measured(self) -> LevelWatch:
        """What the workers of that run have reported."""
        return self._watch

    @property
    def in_flight(self) -> int | None:
        """Requests of the fleet under way; None before any worker told."""
        return self._state.in_flight if self._state is not None else None

    @property
    def finished(self) -> int:
        """Logical requests of the run that are over and reported."""
        return self._state.book.total().offered if self._state is not None else 0

    def start_refusal(self, form: Mapping[str, str]) -> str | None:
        """Why a start with this form of the page would begin no run; None when nothing is wrong.

        The endpoint itself is only asked when the run begins.
        """
        if self._state is not None or self._runner.shape_greenlet is not None:
            return "a run is under way: stop it, or wait for its end"
        try:
            checked_settings(self._run_options.with_form(form), self._workers)
        except SettingsError as error:
            return str(error)
        return None

    def begin(self) -> Plan | None:
        """Start a run: settings, preflight, folder, workers; None when it was refused."""
        self._reporter.clear()
        self._environment.process_exit_code = None
        options = self._run_options.now()
        try:
            settings = checked_settings(options, self._workers)
        except SettingsError as error:
            return self._refuse(str(error), EXIT_USAGE)
        at_start = self._run_options.at_start
        for sentence in ignored_options(options, at_start):
            log.warning("%s", sentence)
        started_at = datetime.now(UTC)
        run_id = f"{started_at:%Y%m%dT%H%M%SZ}-{chance.token_hex(3)}"
        checked = self._preflight.ask(settings, run_id)
        if checked.get("error") or not checked.get("model"):
            return self._refuse(checked.get("error") or "no model", EXIT_ERROR)
        troubles = self._fleet.gather(run_id, settings)
        if not self._fleet.members:
            return self._refuse(troubles[0] if troubles else NO_WORKER, EXIT_ERROR)
        checked["notices"] = [*checked["notices"], *troubles]
        for notice in checked["notices"]:
            log.warning("%s", notice)
        try:
            name = settings.run_name or settings.shape
            folder = create_run_folder(Path(settings.runs_dir), started_at, name)
        except OSError as error:
            return self._refuse(f"--runs-dir: {error}", EXIT_USAGE)
        salt = f"seed-{settings.seed}" if settings.seed is not None else chance.token_hex(8)
        drain_limit_s = float(self._environment.stop_timeout or 0) + 5.0
        rate_given = at_start.get("spawn_rate") is not None
        chosen = choose_plan(settings, rate_given, drain_limit_s, len(self._fleet.members))
        plan = self._early_ends.bound(run_id, chosen, settings, drain_limit_s)
        self._state = RunState(
            run_id=run_id,
            name=name,
            started_at=started_at,
            folder=folder,
            settings=settings,
            salt=salt,
            prefix_hashes=prompt_plan(settings, salt).prefix_ids,
            preflight=checked,
            plan=plan,
        )
        try:
            self._state.save()
        except OSError as error:
            self._state = None
            return self._refuse(f"--runs-dir: {error}", EXIT_USAGE)
        self._environment.user_classes = choose_users(settings, self._user_classes)
        self._last_reports.clear()
        self._watch = LevelWatch(plan.stage_count is None, settings.shape == "limits")
        self._guard = StageGuard(self._watch)
        self._fleet.begin(self._state, checked["include_usage"])
        self._saver = gevent.spawn(self._save_again_and_again)
        self.live.begin(self._state)
        self._plan = self.live.follow(plan)
        log.info("target %s, model %s", settings.endpoint.url, checked["model"])
        length = length_of(settings, plan)
        log.info("shape %s, %s; results go to %s", settings.shape, length, folder.path)
        return plan

    def announce(self, stage: Stage, phase: Phase, users: int) -> None:
        """Tell every worker that a phase of a stage begins."""
        if self._state is None:
            return
        log.info("%s", self._state.describe(stage, phase, users))
        self._guard.enter(stage, phase, self._fleet.alive())
        self._state.last_phase = {
            "run_id": self._state.run_id,
            **stage_to_wire(stage),
            "phase": phase.value,
            "users": users,
        }
        self._fleet.enter(self._state.last_phase)

    def plan_is_over(self) -> None:
        """The plan ran to its end: what follows is not an interruption."""
        if self._state is not None:
            self._state.end_reason = "finished"

    # --- beginning -----------------------------------------------------------------------------

    @property
    def _workers(self) -> int:
        return self._runner.worker_count if isinstance(self._runner, MasterRunner) else 1

    def _refuse(self, reason: str, exit_code: int) -> None:
        self._environment.process_exit_code = exit_code
        self._reporter.text = f"swarmgauge: the run did not start: {reason}"
        log.error("the run did not start: %s", reason)
        self.live.refuse(reason)

    # --- while it runs -------------------------------------------------------------------------

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(messages.REPORT_KEY)
        if report is not None:
            self._accept(report)

    def _accept(self, report: dict[str, Any]) -> None:
        state = self._state
        if state is None or report["run_id"] != state.run_id:
            return
        state.accept(report)
        reader = rows_read_by(state.settings.shape, state.settings.budget)
        read = reader is not None or self._environment.web_ui is not None
        report = {**report, "rows": rows_of(report["rows"]) if read else []}
        self._watch.accept(report)
        self._early_ends.accept(report)
        self.live.accept(report)

    def _on_final(self, environment: Environment, msg: Any, **_: Any) -> None:
        self._accept(msg.data)
        self._last_reports.note(msg.data["worker"], while_it_runs=self._plan is not None)

    def _save_again_and_again(self) -> None:
        """Keep the folder readable even if this process is killed."""
        seconds = 0.0
        while self._state is not None:
            gevent.sleep(1.0)
            seconds += 1.0
            if self._local_worker is not None and (report := self._local_worker.take_report()):
                self._accept(report)
            if (state := self._state) is not None:
                self._fleet.check()
                self._guard.check(self._fleet.alive(), state.book)
                self._early_ends.check(state.pending, state.last_phase, state.folder.unwritable)
            if self._state is not None and seconds % SAVE_PERIOD_S == 0:
                self.live.look(self._fleet.alive(), self._runner.user_count)
                try:
                    self._state.save()
                except OSError as error:
                    # Rows are appended on their own; the next turn may succeed.
                    log.error("run.json could not be written: %s", error)

    # --- the end -------------------------------------------------------------------------------

    def _on_test_stopping(self, environment: Environment, **_: Any) -> None:
        # Workers that have stopped report as ready again: the run is no longer one to join.
        self._plan = None
        self._fleet.end()
        if self._state is not None and not fleet_of(self._runner):
            self._state.no_worker_left()

    def _on_test_stop(self, environment: Environment, **_: Any) -> None:
        self._finish()

    def _on_quitting(self, environment: Environment, **_: Any) -> None:
        if self._state is not None:
            # A signal: let the users finish within the stop timeout, then write what there is.
            self._quitting = True
            self._runner.stop()
        self._finish()
        self._reporter.join()
        if self._reporter.exit_code is not None:
            self._environment.process_exit_code = self._reporter.exit_code

    def _on_quit(self, exit_code: int, **_: Any) -> None:
        if self._reporter.text:
            print(self._reporter.text, flush=True)

    def _finish(self) -> None:
        state = self._state
        if state is None:
            return
        stop_timeout_s = float(self._environment.stop_timeout or 0)
        self._last_reports.gather(state.run_id, state.workers, stop_timeout_s)
        self._state, self._plan = None, None
        if self._saver is not None:
            self._saver.kill(block=False)
        headless = bool(getattr(self._environment.parsed_options, "headless", False))
        state.end(self._last_reports.workers, stopped_by_hand=not headless)
        self.live.end()
        if headless or self._quitting:
            self._reporter.report(state.folder.path)
        else:
            # The page goes on meanwhile.
            self._reporter.report_later(state.folder.path)
