"""Has one worker send the preflight request: keys are on workers only."""

from typing import Any

import gevent
from gevent.event import Event
from locust.runners import STATE_MISSING, MasterRunner, Runner

from hooks import messages
from settings import Settings

WAIT_S = 330.0
"""Longer than the longest first-token limit by default: a cold server may load its model first."""

POLL_S = 0.5
NO_ANSWER = "{} was lost or did not answer the preflight request"


class PreflightCall:
    """Asks a ready worker, or this process when it is the only one, and waits for the answer."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._result: dict[str, Any] | None = None
        self._done = Event()
        runner.register_message(messages.PREFLIGHT_RESULT, self._on_result)

    def ask(self, settings: Settings, run_id: str) -> dict[str, Any]:
        """The fields of ``users.preflight.PreflightResult``, or only ``error``.

        A worker that is lost meanwhile is not waited for: another one is asked.
        """
        data = {"run_id": run_id, "options": dict(settings.options)}
        if not isinstance(self._runner, MasterRunner):
            return self._answer(data, None) or {"error": NO_ANSWER.format("this process")}
        error = "no worker is ready yet; start one with: locust --worker"
        asked: set[str] = set()
        while left := [w.id for w in self._runner.clients.ready if w.id not in asked]:
            asked.add(left[0])
            answer = self._answer(data, left[0])
            if answer is not None:
                return answer
            error = NO_ANSWER.format(f"worker {left[0]}")
        return {"error": error}

    def _answer(self, data: dict[str, Any], worker_id: str | None) -> dict[str, Any] | None:
        """None when it did not come in time, or the worker was lost."""
        self._result = None
        self._done.clear()
        self._runner.send_message(messages.PREFLIGHT, data, worker_id)
        with gevent.Timeout(WAIT_S, False):
            while not self._done.wait(POLL_S):
                if worker_id is not None and not self._is_there(worker_id):
                    return None
        return self._result

    def _is_there(self, worker_id: str) -> bool:
        clients: Any = getattr(self._runner, "clients", {})
        return worker_id in clients and clients[worker_id].state != STATE_MISSING

    def _on_result(self, environment: Any, msg: Any, **_: Any) -> None:
        self._result = dict(msg.data)
        self._done.set()
