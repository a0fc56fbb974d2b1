"""Has one worker send the preflight request: keys are on workers only."""

from typing import Any

from gevent.event import Event
from locust.runners import MasterRunner, Runner

from hooks import messages
from settings import Settings

WAIT_S = 330.0
"""Longer than the longest first-token limit by default: a cold server may load its model first."""


class PreflightCall:
    """Asks a ready worker, or this process when it is the only one, and waits for the answer."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._result: dict[str, Any] | None = None
        self._done = Event()
        runner.register_message(messages.PREFLIGHT_RESULT, self._on_result)

    def ask(self, settings: Settings, run_id: str) -> dict[str, Any]:
        """The fields of ``users.preflight.PreflightResult``, or only ``error``."""
        worker_id = None
        if isinstance(self._runner, MasterRunner):
            ready = self._runner.clients.ready
            if not ready:
                return {"error": "no worker is ready yet; start one with: locust --worker"}
            worker_id = ready[0].id
        self._result = None
        self._done.clear()
        data = {"run_id": run_id, "options": dict(settings.options)}
        self._runner.send_message(messages.PREFLIGHT, data, worker_id)
        if not self._done.wait(WAIT_S) or self._result is None:
            return {"error": f"the worker {worker_id} did not answer in {WAIT_S:g} s"}
        return self._result

    def _on_result(self, environment: Any, msg: Any, **_: Any) -> None:
        self._result = dict(msg.data)
        self._done.set()
