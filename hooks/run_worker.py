"""A worker's side of a run: it gives users their context, keeps what they measure, hands it on."""

import logging
import socket
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gevent
from locust.env import Environment
from locust.runners import Runner, WorkerRunner

from hooks import messages
from hooks.client_health import (
    GcPauses,
    set_start_up_objects_aside,
    watch_cpu,
    watch_loop_lag,
)
from hooks.health_series import HealthSeries
from hooks.recorder import Recorder
from hooks.run_options import read_text
from metrics.record import RequestRecord
from metrics.run_files import SPOOL_FOLDER, stage_from_wire
from metrics.stage import Phase, PhaseMark
from settings import Settings, SettingsError
from users.masking import Masker
from users.preflight import PreflightResult, preflight, refusal
from users.retry_policy import retry_policy
from users.run_context import CURRENT_RUN, RunContext
from users.secrets import load_secrets
from users.slots import Slots
from users.transports import open_transports
from workloads.arrivals import count_share
from workloads.prompts import PromptPlan
from workloads.retry_budget import RetryBudget

FLUSH_PERIOD_S = 1.0

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
        self._watchers: list[gevent.Greenlet] = []
        self._gc_pauses = GcPauses()
        self._series = HealthSeries("")
        register = runner.register_message
        register(messages.PREFLIGHT, self._on_preflight, concurrent=True)
        register(messages.BEGIN, self._on_begin)
        register(messages.PHASE, self._on_phase)
        register(messages.FINISH, self._on_finish, concurrent=True)
        events = environment.events
        events.request.add_listener(self._on_request)
        events.report_to_master.add_listener(self._on_report_to_master)
        events.test_stop.add_listener(self._on_test_stop)
        events.quitting.add_listener(self._on_quitting)

    @property
    def worker_id(self) -> str:
        """A short name of this worker, the same in records, spools and messages."""
        if not self._distributed:
            return "local"
        return f"{self._runner.worker_index}-{self._runner.client_id[-8:]}"

    def take_report(self) -> dict[str, Any] | None:
        """What was measured since the last report; None between runs."""
        if self._recorder is None or self._context is None:
            return None
        self._keep_gc_pauses()
        self._recorder.flush()
        return {
            "run_id": self._context.run_id,
            "worker": self.worker_id,
            "host": socket.gethostname(),
            "in_flight": self._context.in_flight,
            "health": self._series.take(self._context.clock_s()),
            **self._recorder.take(),
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

    def _on_begin(self, environment: Environment, msg: Any, **_: Any) -> None:
        data = msg.data
        if data["run_id"] == self._joined:
            return
        self._close()
        self._joined = data["run_id"]
        try:
            settings = Settings.from_options(data["options"], read_text)
            secrets = load_secrets(settings)
            transports = open_transports(settings, secrets)
            spool = None
            if self._distributed:
                folder = Path(settings.runs_dir) / data["folder_name"] / SPOOL_FOLDER
                spool = folder / f"{self.worker_id}.jsonl"
            self._recorder = Recorder(spool)
        except (SettingsError, OSError) as error:
            log.error("this worker cannot take part: %s", error)
            trouble = {"run_id": data["run_id"], "worker": self.worker_id, "text": str(error)}
            self._runner.send_message(messages.TROUBLE, trouble)
            return
        fleet, me = data["fleet"], self._runner.client_id
        position = fleet.index(me) if me in fleet else None
        warmup = settings.warmup_requests
        self._context = RunContext(
            run_id=data["run_id"],
            worker=self.worker_id,
            worker_index=max(0, self._runner.worker_index),
            settings=settings,
            model=data["model"],
            include_usage=data["include_usage"],
            plan=prompt_plan(settings, data["salt"]),
            transports=transports,
            masker=Masker(secrets.texts),
            retry_policy=retry_policy(settings),
            retry_budget=RetryBudget(settings.retrying.budget_ratio),
            slots=_slots(settings, position, len(fleet)),
            on_quota=self._ask_for_the_end,
            position=position,
            workers=len(fleet),
            warmup_left=0 if position is None else count_share(warmup, position, len(fleet)),
        )
        CURRENT_RUN.context = self._context
        self._series = HealthSeries(self.worker_id)
        set_start_up_objects_aside()
        self._gc_pauses.start()
        self._watchers = [
            gevent.spawn(watch_loop_lag, self._loop_lag),
            gevent.spawn(watch_cpu, lambda value: self._health("cpu_ratio", value)),
            gevent.spawn(self._flush_again_and_again),
        ]

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
        if data["run_id"] != self._context.run_id:
            return
        stage = stage_from_wire(data)
        phase = Phase(data["phase"])
        self._keep_gc_pauses()  # they belong to the phase that ends here
        at_s = self._context.enter(stage, phase)
        self._recorder.mark(PhaseMark(self.worker_id, stage, phase, at_s, data["users"]))

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
            self._runner.stop()

    def _on_test_stop(self, environment: Environment, **_: Any) -> None:
        self._send_final()
        if self._distributed:
            # Locust sleeps this long after a stop before the worker can be used again. Its users
            # have stopped by now; the next run's first message sets the limit anew.
            environment.stop_timeout = 0

    def _on_quitting(self, environment: Environment, **_: Any) -> None:
        if self._distributed:
            if self._context is not None:
                self._runner.stop()
            self._send_final()
            if environment.process_exit_code is None:
                # Failed requests are the report's business, not a fault of this process.
                environment.process_exit_code = 0

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


def _slots(settings: Settings, position: int | None, workers: int) -> Slots | None:
    """This worker's share of what may be in flight; one that joined late gets one slot."""
    if not settings.max_in_flight:
        return None
    share = 0 if position is None else count_share(settings.max_in_flight, position, workers)
    return Slots(max(1, share))


def prompt_plan(settings: Settings, salt: str) -> PromptPlan:
    """The run's prompts: the same on every machine, because they follow from the salt alone."""
    return PromptPlan.build(
        prefixes=settings.prefixes,
        prefix_tokens=settings.prefix_tokens,
        prompt_tokens=settings.prompt_tokens,
        salt=salt,
        seed=settings.seed,
    )
