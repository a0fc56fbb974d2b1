"""Which workers Locust sends users to, and those that it forgot."""

from types import SimpleNamespace

from locust import User
from locust.dispatch import UsersDispatcher
from locust.runners import STATE_MISSING, STATE_RUNNING, MasterRunner, WorkerNode, WorkerNodes

from hooks.fleet import dispatch_only_to, fleet_of, take_back, take_in


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


def test_whoever_comes_is_given_no_users_before_it_is_a_member():
    """Locust gives every worker its part as it connects, also one that cannot take part."""
    fleet, members = Fleet(), {"a"}
    fleet.environment = SimpleNamespace(dispatcher_class=UsersDispatcher, user_classes=[Asks])
    dispatch_only_to(fleet, members)
    assert {"a": 4} == fleet.dispatch(4)
    fleet._users_dispatcher.add_worker(fleet.clients["b"])  # Locust's own reaction
    assert {"a": 4} == fleet.dispatch(4)

    members.add("b")
    take_in(fleet, {"b"})

    assert {"a": 2, "b": 2} == fleet.dispatch(4)


def test_a_member_that_is_missing_as_the_run_begins_is_given_no_users():
    """It was there when the fleet was called, and died since."""
    fleet = Fleet()
    fleet.environment = SimpleNamespace(dispatcher_class=UsersDispatcher, user_classes=[Asks])
    fleet.clients["b"].state = STATE_MISSING

    dispatch_only_to(fleet, {"a", "b"})

    assert {"a": 4} == fleet.dispatch(4)
