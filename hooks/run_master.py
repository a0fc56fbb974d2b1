"""The master's side of a run: begins it, announces its stages, gathers what workers measured, and
ends it with a complete folder, whatever ended it."""

import logging
import secrets as chance
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gevent
from locust import User
from locust.env import Environment
from locust.runners import MasterRunner, Runner

from hooks import messages
from hooks.fleet import alive_workers, fleet_of
from hooks.last_reports import LastReports
from hooks.level_watch import LevelWatch
from hooks.planning import choose_plan, choose_users, too_many_users
from hooks.preflight_call import PreflightCall
from hooks.reporting import ReportResult, make_report
from hooks.run_folder import create_run_folder
from hooks.run_state import RunState
from hooks.run_worker import RunWorker, prompt_plan, read_text
from hooks.stage_guard import StageGuard
from metrics.stage import Phase, Stage
from options import NOT_IN_FORM
from settings import Settings, SettingsError
from shapes.plan import Plan
from workloads.traffic import TrafficKind

SAVE_PERIOD_S = 2.0
EXIT_ERROR = 1
EXIT_USAGE = 2

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
        self._fleet: list[str] = []
        self._last_reports = LastReports(runner)
        self._printed = ""
        self._quitting = False
        options = environment.parsed_options
        self._spawn_rate_given = getattr(options, "spawn_rate", None) is not None
        self._at_start = dict(vars(options)) if options is not None else {}
        self._reporting: gevent.Greenlet | None = None
        runner.register_message(messages.FINAL, self._on_final)
        runner.register_message(messages.TROUBLE, self._on_trouble)
        events = environment.events
        events.worker_report.add_listener(self._on_worker_report)
        events.worker_connect.add_listener(self._on_worker_connect)
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

    def begin(self) -> Plan | None:
        """Start a run: settings, preflight, folder, workers; None when it was refused."""
        self._printed, self._environment.process_exit_code = "", None
        try:
            settings = Settings.from_options(self._options(), read_text)
        except SettingsError as error:
            return self._refuse(str(error), EXIT_USAGE)
        except OSError as error:
            return self._refuse(f"{error.filename}: {error.strerror}", EXIT_USAGE)
        workers = self._runner.worker_count if isinstance(self._runner, MasterRunner) else 1
        if (trouble := too_many_users(settings, workers)) is not None:
            return self._refuse(trouble, EXIT_USAGE)
        started_at = datetime.now(UTC)
        run_id = f"{started_at:%Y%m%dT%H%M%SZ}-{chance.token_hex(3)}"
        checked = self._preflight.ask(settings, run_id)
        if checked.get("error") or not checked.get("model"):
            return self._refuse(checked.get("error") or "no model", EXIT_ERROR)
        for notice in checked["notices"]:
            log.warning("%s", notice)
        try:
            name = settings.run_name or settings.shape
            folder = create_run_folder(Path(settings.runs_dir), started_at, name)
        except OSError as error:
            return self._refuse(f"--runs-dir: {error}", EXIT_USAGE)
        salt = f"seed-{settings.seed}" if settings.seed is not None else chance.token_hex(8)
        drain_limit_s = float(self._environment.stop_timeout or 0) + 5.0
        self._fleet = fleet_of(self._runner)
        plan = choose_plan(settings, self._spawn_rate_given, drain_limit_s, len(self._fleet))
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
        self._state.save()
        self._environment.user_classes = choose_users(settings, self._user_classes)
        self._last_reports.clear()
        self._watch = LevelWatch(adaptive=plan.stage_count is None)
        self._guard = StageGuard(self._watch)
        self._runner.send_message(messages.BEGIN, self._begin_message())
        self._saver = gevent.spawn(self._save_again_and_again)
        self._plan = plan
        self._say_plan(settings, checked["model"])
        return plan

    def announce(self, stage: Stage, phase: Phase, users: int) -> None:
        """Tell every worker that a phase of a stage begins."""
        if self._state is None:
            return
        log.info("%s", self._state.describe(stage, phase, users))
        self._guard.enter(stage, phase, alive_workers(self._runner, self._state.workers))
        self._state.last_phase = {
            "run_id": self._state.run_id,
            "stage": stage.id,
            "kind": stage.kind,
            "target_users": stage.target_users,
            "rate_rps": stage.rate_rps,
            "phase": phase.value,
            "users": users,
        }
        self._runner.send_message(messages.PHASE, self._state.last_phase)

    def plan_is_over(self) -> None:
        """The plan ran to its end: what follows is not an interruption."""
        if self._state is not None:
            self._state.end_reason = "finished"

    # --- beginning -----------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        options = dict(vars(self._environment.parsed_options))
        options["host"] = self._environment.host or options.get("host") or ""
        # The form does not show these, but whoever reaches the page could send them all the same.
        options.update({name: self._at_start.get(name) for name in NOT_IN_FORM})
        return options

    def _begin_message(self) -> dict[str, Any]:
        state = self._state
        assert state is not None
        return {
            "run_id": state.run_id,
            "options": dict(state.settings.options),
            "model": state.model,
            "include_usage": state.preflight["include_usage"],
            "salt": state.salt,
            "folder_name": state.folder.path.name,
            "fleet": self._fleet,
        }

    def _refuse(self, reason: str, exit_code: int) -> None:
        self._environment.process_exit_code = exit_code
        self._printed = f"swarmgauge: the run did not start: {reason}"
        log.error("the run did not start: %s", reason)

    def _say_plan(self, settings: Settings, model: str) -> None:
        expected_s = self._plan.expected_s if self._plan is not None else None
        takes = "until stopped" if expected_s is None else f"about {expected_s:.0f} s"
        log.info("target %s, model %s", settings.endpoint.url, model)
        log.info("shape %s, %s; results go to %s", settings.shape, takes, self._folder_path)

    # --- while it runs -------------------------------------------------------------------------

    def _on_worker_connect(self, client_id: str, **_: Any) -> None:
        """A worker that joins late gets to know the run and the stage it is in."""
        if self._state is not None and self._plan is not None:
            self._runner.send_message(messages.BEGIN, self._begin_message(), client_id)
            if self._state.last_phase is not None:
                self._runner.send_message(messages.PHASE, self._state.last_phase, client_id)

    def _on_worker_report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = data.get(messages.REPORT_KEY)
        if report is not None:
            self._accept(report)

    def _accept(self, report: dict[str, Any]) -> None:
        if self._state is not None and report["run_id"] == self._state.run_id:
            self._state.accept(report)
            self._watch.accept(report)

    def _on_final(self, environment: Environment, msg: Any, **_: Any) -> None:
        self._accept(msg.data)
        self._last_reports.note(msg.data["worker"])

    def _on_trouble(self, environment: Environment, msg: Any, **_: Any) -> None:
        text = f"worker {msg.data['worker']} cannot take part: {msg.data['text']}"
        log.error("%s", text)
        if self._state is not None and msg.data["run_id"] == self._state.run_id:
            self._state.notices.append(text)

    def _save_again_and_again(self) -> None:
        """Keep the folder readable even if this process is killed."""
        seconds = 0.0
        while self._state is not None:
            gevent.sleep(1.0)
            seconds += 1.0
            if self._local_worker is not None and (report := self._local_worker.take_report()):
                self._accept(report)
            if (state := self._state) is not None:
                self._guard.check(alive_workers(self._runner, state.workers), state.book)
            if self._state is not None and seconds % SAVE_PERIOD_S == 0:
                try:
                    self._state.save()
                except OSError as error:
                    # Rows are appended on their own; the next turn may succeed.
                    log.error("run.json could not be written: %s", error)

    # --- the end -------------------------------------------------------------------------------

    def _on_test_stopping(self, environment: Environment, **_: Any) -> None:
        # Workers that have stopped report as ready again: the run is no longer one to join.
        self._plan = None

    def _on_test_stop(self, environment: Environment, **_: Any) -> None:
        self._finish()

    def _on_quitting(self, environment: Environment, **_: Any) -> None:
        if self._state is not None:
            # A signal: let the users finish within the stop timeout, then write what there is.
            self._quitting = True
            self._runner.stop()
        self._finish()
        if self._reporting is not None:
            self._reporting.join()

    def _on_quit(self, exit_code: int, **_: Any) -> None:
        if self._printed:
            print(self._printed, flush=True)

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
        if headless or self._quitting:
            log.info("writing the report")
            self._use(make_report(state.folder.path))
        else:
            # The page goes on meanwhile.
            self._reporting = gevent.spawn(self._report_later, state.folder.path)

    def _report_later(self, path: Path) -> None:
        result = make_report(path)
        log.info("report: %s", path / "report.html")
        print(result.text, file=sys.stderr, flush=True)

    def _use(self, result: ReportResult) -> None:
        self._printed = result.text
        self._environment.process_exit_code = result.exit_code

    @property
    def _folder_path(self) -> Path | None:
        return self._state.folder.path if self._state is not None else None
