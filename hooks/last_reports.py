"""The end of a distributed run: every live worker stops and sends its last report."""

from collections.abc import Collection

import gevent
from gevent.event import Event
from locust.runners import MasterRunner, Runner

from hooks import messages
from hooks.fleet import alive_workers

FINAL_WAIT_S = 10.0


class LastReports:
    """Who has sent one in the present run."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._came = Event()
        self.workers: set[str] = set()

    def note(self, worker: str, while_it_runs: bool = False) -> None:
        """A worker's last report has come in; who leaves a run that goes on is lost to it."""
        if not while_it_runs:
            self.workers.add(worker)
        self._came.set()

    def clear(self) -> None:
        """A new run begins."""
        self.workers.clear()

    def gather(self, run_id: str, workers: Collection[str], stop_timeout_s: float) -> None:
        """Tell all to finish and wait for those that are alive; single processes just did."""
        if not isinstance(self._runner, MasterRunner):
            return
        self._runner.send_message(messages.FINISH, {"run_id": run_id})
        with gevent.Timeout(FINAL_WAIT_S + stop_timeout_s, False):
            while alive_workers(self._runner, workers) - self.workers:
                self._came.clear()
                self._came.wait(0.2)
