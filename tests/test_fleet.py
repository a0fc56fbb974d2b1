"""Which workers Locust sends users to, and those that it forgot."""

from locust import User
from locust.dispatch import UsersDispatcher
from locust.runners import STATE_MISSING, STATE_RUNNING, MasterRunner, WorkerNode, WorkerNodes

from hooks.fleet import fleet_of, take_back


class Asks(User):
    """A user that is never run."""


class Fleet(MasterRunner):
    """A master without a socket, its two workers and Locust's own dispatcher."""

    def __init__(self):
        self.clients = WorkerNodes()
        for name in ("a", "b"):
            self.clients[name] = WorkerNode(name, state=STATE_RUNNING)
        self.spawning_completed = True
        self._users_dispatcher = UsersDispatcher(list(self.clients.values()), [Asks])

    def __del__(self):
        """Nothing was begun that would have to end."""

    def dispatch(self, users):
        """How many users each worker is told to run."""
        self._users_dispatcher.new_dispatch(users, spawn_rate=100.0)
        last = list(self._users_dispatcher)[-1]
        return {worker: sum(classes.values()) for worker, classes in last.items()}

    def is_late(self, name):
        """Its heartbeats did not come: Locust's own reaction."""
        self.clients[name].state = STATE_MISSING
        self._users_dispatcher.remove_worker(self.clients[name])


def test_a_late_worker_that_runs_again_is_given_users_again():
    """Locust leaves it out for good when it reported the end of its spawning first: its users
    would then be there for the rest of the run, told to stop by nobody."""
    fleet = Fleet()
    assert {"a": 2, "b": 2} == fleet.dispatch(4)
    fleet.is_late("b")
    assert ["a"] == fleet_of(fleet)
    fleet.clients["b"].state = STATE_RUNNING  # as its "spawning complete" does
    assert {"a": 4} == fleet.dispatch(4)

    take_back(fleet)

    assert {"a": 0, "b": 0} == fleet.dispatch(0)
    assert {"a": 3, "b": 3} == fleet.dispatch(6)


def test_a_worker_that_is_missing_is_not_taken_back():
    """Nobody would run its users."""
    fleet = Fleet()
    fleet.dispatch(4)
    fleet.is_late("b")

    take_back(fleet)

    assert {"a": 6} == fleet.dispatch(6)


def test_nothing_is_done_between_runs():
    """There is no dispatcher then."""
    fleet = Fleet()
    fleet._users_dispatcher = None

    take_back(fleet)

    assert ["a", "b"] == fleet_of(fleet)
