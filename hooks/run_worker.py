"""A worker's side of a run: it gives users their context, keeps what they measure, hands it on."""

import logging
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gevent
from locust.env import Environment
from locust.runners import STATE_RUNNING, STATE_SPAWNING, Runner, WorkerRunner

from hooks import messages
from hooks.client_health import (
    GcPauses,
    set_start_up_objects_aside,
    watch_cpu,
    watch_loop_lag,
)
from hooks.health_series import HealthSeries
from hooks.joining import Me, join, sharing_of, spool_path, trouble
from hooks.master_watch import MasterWatch
from hooks.recorder import Recorder
from hooks.run_options import read_text
from hooks.suite_identity import SUITE, suite_hash
from metrics.record import RequestRecord
from metrics.run_files import stage_from_wire
from metrics.stage import Phase, PhaseMark
from settings import Settings, SettingsError
from users.preflight import PreflightResult, preflight, refusal
from users.run_context import CURRENT_RUN, RunContext
from users.secrets import load_secrets

FLUSH_PERIOD_S = 1.0
EXIT_MASTER_LOST = 1

log = logging.getLogger("swarmgauge.worker")


class RunWorker:
    """Serves one process that runs users: a worker, or the only process."""

    def __init__(self, environment: Environment, runner: Runner) -> None:
        self._environment = environment
        self._runner = runner
        self._distributed = isinstance(runner, WorkerRunner)
        self._recorder: Recorder | None = None
        self._context: RunContext | None = None
        self._joined: str | None = None
        """The run that was joined last: it is not joined again after its end."""
        self._phase_told: dict[str, Any] | None = None
        self._spool: Path | None = None
        self._watchers: list[gevent.Greenlet] = []
        self._gc_pauses = GcPauses()
        self._series = HealthSeries("")
        register = runner.register_message
        register(messages.PREFLIGHT, self._on_preflight, concurrent=True)
        register(messages.ROLL_CALL, self._on_roll_call)
        register(messages.BEGIN, self._on_begin)
        register(messages.PHASE, self._on_phase)
        register(messages.SHARE_ANEW, self._on_share_anew)
        register(messages.FINISH, self._on_finish, concurrent=True)
        events = environment.events
        events.request.add_listener(self._on_request)
        events.report_to_master.add_listener(self._on_report_to_master)
        events.test_stop.add_listener(self._on_test_stop)
        events.quitting.add_listener(self._on_quitting)
        self._code = suite_hash(SUITE)
        if isinstance(runner, WorkerRunner):
            MasterWatch(runner, self._on_master_lost)
            runner.send_message(messages.HELLO, {"client_id": runner.client_id})

    @property
    def worker_id(self) -> str:
        """A short name of this worker, the same in records, spools and messages."""
        if not self._distributed:
            return "local"
        return f"{self._runner.worker_index}-{self._runner.client_id[-8:]}"

    @property
    def _me(self) -> Me:
        index = max(0, self._runner.worker_index)
        return Me(self._runner.client_id, index, self.worker_id, self._code)

    def take_report(self) -> dict[str, Any] | None:
        """What was measured since the last report; None between runs."""
        if self._recorder is None or self._context is None:
            return None
        self._keep_gc_pauses()
        return {
            "run_id": self._context.run_id,
            "worker": self.worker_id,
            "host": socket.gethostname(),
            "in_flight": self._context.in_flight,
            "pending": self._context.pending,
            **self._recorder.take(self._series.take(self._context.clock_s())),
        }

    def _on_preflight(self, environment: Environment, msg: Any, **_: Any) -> None:
        result = self._preflight(msg.data)
        self._runner.send_message(
            messages.PREFLIGHT_RESULT, {"run_id": msg.data["run_id"], **asdict(result)}
        )

    def _preflight(self, data: dict[str, Any]) -> PreflightResult:
        try:
            settings = Settings.from_options(data["options"], read_text)
            return preflight(settings, load_secrets(settings), data["run_id"])
        except SettingsError as error:
            return refusal(error)

    def _on_roll_call(self, environment: Environment, msg: Any, **_: Any) -> None:
        heard_s, data, me = time.time(), msg.data, self._me
        answer = {
            "run_id": data["run_id"],
            "client_id": me.client_id,
            "worker": me.name,
            "asked_s": data["asked_s"],
            "heard_s": heard_s,
            "trouble": trouble(data, me),
        }
        self._runner.send_message(messages.PRESENT, {**answer, "answered_s": time.time()})

    def _on_begin(self, environment: Environment, msg: Any, **_: Any) -> None:
        data, me = msg.data, self._me
        if data["run_id"] == self._joined:
            return
        self._close()
        self._joined = data["run_id"]
        try:
            context, self._recorder = join(data, me, self._distributed)
        except (SettingsError, OSError) as error:
            log.error("this worker cannot take part: %s", error)
            told = {"run_id": data["run_id"], "client_id": me.client_id, "worker": me.name}
            self._runner.send_message(messages.TROUBLE, {**told, "text": str(error)})
            return
        if self._distributed:
            self._spool = spool_path(context.settings, data["folder_name"], me.name)
        self._context = CURRENT_RUN.context = context
        context.on_quota = self._ask_for_the_end
        context.on_share_used = self._say_share_is_used
        self._series = HealthSeries(self.worker_id)
        set_start_up_objects_aside()
        self._gc_pauses.start()
        self._watchers = [
            gevent.spawn(watch_loop_lag, self._loop_lag),
            gevent.spawn(watch_cpu, lambda value: self._health("cpu_ratio", value)),
            gevent.spawn(self._flush_again_and_again),
        ]
        if context.requests_left == 0:
            self._say_share_is_used()
        if context.position is None and isinstance(self._runner, WorkerRunner):
            start_missing_users(self._runner)

    def _say_share_is_used(self) -> None:
        if self._context is not None:
            used = {"run_id": self._context.run_id, "client_id": self._runner.client_id}
            self._runner.send_message(messages.SHARE_USED, used)

    def _ask_for_the_end(self, reason: str) -> None:
        if self._context is not None:
            asking = {"run_id": self._context.run_id, "worker": self.worker_id, "reason": reason}
            self._runner.send_message(messages.ASK_END, asking)

    def _loop_lag(self, lag_s: float) -> None:
        self._series.add_lag(lag_s)
        self._health("loop_lag_s", lag_s)

    def _health(self, name: str, value: float) -> None:
        if self._recorder is not None and self._context is not None:
            self._recorder.add_health(self._context.stage, self._context.phase, name, value)

    def _keep_gc_pauses(self) -> None:
        for pause_s in self._gc_pauses.take():
            self._health("gc_pause_s", pause_s)

    def _flush_again_and_again(self) -> None:
        while True:
            gevent.sleep(FLUSH_PERIOD_S)
            if self._recorder is not None:
                self._recorder.flush()

    def _on_phase(self, environment: Environment, msg: Any, **_: Any) -> None:
        data = msg.data
        if self._context is None or self._recorder is None:
            return
        if data["run_id"] != self._context.run_id or data == self._phase_told:
            return  # one that joins late may be told twice
        self._phase_told = data
        stage = stage_from_wire(data)
        phase = Phase(data["phase"])
        self._keep_gc_pauses()  # they belong to the phase that ends here
        at_s = self._context.enter(stage, phase)
        self._recorder.mark(PhaseMark(self.worker_id, stage, phase, at_s, data["users"]))

    def _on_share_anew(self, environment: Environment, msg: Any, **_: Any) -> None:
        if self._context is not None and msg.data["run_id"] == self._context.run_id:
            self._context.share_anew(sharing_of(msg.data, self._me))

    def _on_request(
        self,
        record: RequestRecord | None = None,
        gaps_s: Sequence[float] = (),
        **_: Any,
    ) -> None:
        # Other users of Locust's event, if someone adds them, have no record.
        if record is not None and self._recorder is not None:
            self._recorder.add(record, gaps_s)

    def _on_report_to_master(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        report = self.take_report()
        if report is not None:
            data[messages.REPORT_KEY] = report

    def _on_finish(self, environment: Environment, msg: Any, **_: Any) -> None:
        context = self._context
        if self._distributed and context is not None and context.run_id == msg.data["run_id"]:
            # Ends with test_stop, which sends the last report.
            self._stop_users()

    def _on_test_stop(self, environment: Environment, **_: Any) -> None:
        self._send_final()
        if self._distributed:
            # Locust sleeps this long after a stop before the worker can be used again. Its users
            # have stopped by now; the next run's first message sets the limit anew.
            environment.stop_timeout = 0

    def _on_quitting(self, environment: Environment, **_: Any) -> None:
        if self._distributed:
            if self._context is not None:
                self._stop_users()
            self._send_final()
            if environment.process_exit_code is None:
                # Failed requests are the report's business, not a fault of this process.
                environment.process_exit_code = 0

    def _on_master_lost(self, silent_s: float) -> None:
        """End: the target is loaded no longer, and whoever restarts this process is told."""
        log.error(
            "the master was silent for %.0f s and is taken for lost: no further request is sent, "
            "answers under way may take %.0f s more",
            silent_s,
            self._environment.stop_timeout or 0,
        )
        self._environment.process_exit_code = EXIT_MASTER_LOST
        if self._context is not None:
            self._stop_users()
            self._send_final()
        if self._spool is not None:
            # Also of a run that has ended here: its last report may not have been taken.
            log.error(
                "this worker ends without its master; its requests are in %s, and once all workers "
                "have ended, python -m reports merge %s adds what the run lacks",
                self._spool,
                self._spool.parent.parent,
            )
        else:
            log.error("this worker ends without its master; it had no run")
        self._runner.greenlet.kill(block=False)

    def _stop_users(self) -> None:
        # A master that does not know of the end yet may send users meanwhile: they find no run.
        CURRENT_RUN.context = None
        self._runner.stop()

    def _send_final(self) -> None:
        report = self.take_report()
        if report is not None:
            self._runner.send_message(messages.FINAL, report)
        self._close()

    def _close(self) -> None:
        for watcher in self._watchers:
            watcher.kill(block=False)
        self._watchers = []
        self._gc_pauses.stop()
        if self._recorder is not None:
            self._recorder.close()
        if self._context is not None:
            for transport in self._context.transports.values():
                transport.close()
        self._recorder = None
        self._context = None
        CURRENT_RUN.context = None


def start_missing_users(runner: WorkerRunner) -> None:
    """Start users that came before the run was known here, and left again for want of it."""
    if runner.state in (STATE_RUNNING, STATE_SPAWNING):
        gevent.spawn(runner.start_worker, dict(runner.target_user_classes_count))
