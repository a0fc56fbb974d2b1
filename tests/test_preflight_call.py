"""Which worker sends the preflight request, and what becomes of it when that one is lost."""

from types import SimpleNamespace

import gevent
import pytest
from locust.runners import STATE_INIT, STATE_MISSING, MasterRunner

import hooks.preflight_call
from hooks.preflight_call import PreflightCall

SETTINGS = SimpleNamespace(options={"host": "http://127.0.0.1:1"})


class Clients(dict):
    """Locust's workers by id."""

    @property
    def ready(self):
        return [worker for worker in self.values() if worker.state == STATE_INIT]


class Fleet(MasterRunner):
    """Workers that are lost when they are asked, but for those that answer."""

    def __init__(self, *workers, answering=()):
        self.clients = Clients()
        for worker in workers:
            self.clients[worker] = SimpleNamespace(id=worker, state=STATE_INIT)
        self._answering = answering
        self.asked = []

    def __del__(self):
        """Nothing was begun that would have to end."""

    def register_message(self, kind, listener, concurrent=False):
        self.listener = listener

    def send_message(self, kind, data=None, client_id=None):
        self.asked.append(client_id)
        if client_id in self._answering:
            answer = SimpleNamespace(data={"model": client_id})
            gevent.spawn_later(0.01, self.listener, environment=None, msg=answer)
        else:
            self.clients[client_id].state = STATE_MISSING


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Looks more often than a real run."""
    monkeypatch.setattr(hooks.preflight_call, "POLL_S", 0.05)


def test_L05_a_worker_lost_in_the_preflight_is_not_waited_for():
    """The next one is asked; nobody waits minutes for the dead."""
    fleet = Fleet("a", "b", "c", answering=("c",))

    assert {"model": "c"} == PreflightCall(fleet).ask(SETTINGS, "run")
    assert ["a", "b", "c"] == fleet.asked


def test_when_all_are_lost_the_run_does_not_start():
    """The last one is named."""
    answer = PreflightCall(Fleet("a", "b")).ask(SETTINGS, "run")

    assert "worker b was lost" in answer["error"]


def test_without_workers_it_says_what_to_start():
    """Nobody to ask."""
    assert "locust --worker" in PreflightCall(Fleet()).ask(SETTINGS, "run")["error"]
