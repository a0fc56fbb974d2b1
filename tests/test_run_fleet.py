"""Who is asked to take part in a run that is under way, and who is given users."""

from types import SimpleNamespace

import pytest
from locust import User
from locust.dispatch import UsersDispatcher
from locust.event import EventHook
from locust.runners import STATE_INIT, STATE_RUNNING, MasterRunner, WorkerNode, WorkerNodes

import hooks.fleet
from hooks import messages
from hooks.run_fleet import RunFleet
from tests.support.asking import make_settings

RUN = "run"
PHASE = {"run_id": RUN, "stage": 0, "phase": "hold"}


class Asks(User):
    """A user that is never run."""


class Master(MasterRunner):
    """A master without a socket that notes what it sends and how often users are handed out."""

    def __init__(self):
        self.environment = SimpleNamespace(
            dispatcher_class=UsersDispatcher,
            user_classes=[Asks],
            runner=self,
            events=SimpleNamespace(worker_connect=EventHook()),
        )
        self.clients = WorkerNodes()
        self.clients["a"] = WorkerNode("a", state=STATE_RUNNING)
        self.state, self.spawning_completed = STATE_RUNNING, True
        self.target_user_count, self.spawn_rate = 4, 4.0
        self.sent, self.handed_out, self.heard = [], 0, {}
        self._users_dispatcher = None

    def __del__(self):
        """Nothing was begun that would have to end."""

    def register_message(self, msg_type, listener, concurrent=False):
        """Keeps the listener."""
        self.heard[msg_type] = listener

    def send_message(self, msg_type, data=None, client_id=None):
        """Notes it; "a" answers, or the roll call would wait for it."""
        self.sent.append((msg_type, client_id))
        if (msg_type, client_id) == (messages.ROLL_CALL, "a"):
            self.answer("a")

    def answer(self, name, trouble=None):
        """What a worker says to a roll call."""
        times = dict.fromkeys(("asked_s", "heard_s", "answered_s"), 0.0)
        data = {"run_id": RUN, "client_id": name, "worker": name, "trouble": trouble, **times}
        self.heard[messages.PRESENT](self.environment, SimpleNamespace(data=data))

    def start(self, user_count, spawn_rate, **_):
        """Notes it."""
        self.handed_out += 1

    def users(self):
        """How many of four users each worker is told to run."""
        self._users_dispatcher.new_dispatch(4, spawn_rate=100.0)
        last = list(self._users_dispatcher)[-1]
        return {worker: sum(classes.values()) for worker, classes in last.items()}


@pytest.fixture
def late(monkeypatch):
    """A closed loop on "a", and "b", of whose coming nobody was told: the run had not begun."""
    spawn = SimpleNamespace(spawn=lambda call, *arguments: call(*arguments))
    monkeypatch.setattr(hooks.fleet, "gevent", spawn)
    master = Master()
    fleet = RunFleet(master.environment, master)
    settings = make_settings("http://h")
    assert [] == fleet.gather(RUN, settings)
    state = SimpleNamespace(
        run_id=RUN,
        settings=SimpleNamespace(shape="ladder", max_requests=0),
        model="m",
        salt="s",
        folder=SimpleNamespace(path=SimpleNamespace(name="folder")),
        plan=SimpleNamespace(ended_early=None),
        last_phase=PHASE,
        wall_clocks={},
        notices=[],
        workers={},
        heard_in={},
        away={},
    )
    fleet.begin(state, include_usage=True)
    master.clients["b"] = WorkerNode("b", state=STATE_INIT)
    master._users_dispatcher.add_worker(master.clients["b"])  # Locust's own reaction
    master.sent.clear()
    fleet.check()
    return master, fleet


def test_a_worker_that_came_during_the_roll_call_is_asked_and_then_given_users(late):
    """It is told the run and its stage; users are handed out anew once, when it has answered."""
    master, fleet = late
    told = [(kind, "b") for kind in (messages.ROLL_CALL, messages.BEGIN, messages.PHASE)]
    assert told == master.sent
    assert ({"a": 4}, 0) == (master.users(), master.handed_out)

    master.answer("b")
    fleet.check()
    fleet.check()

    assert ({"a": 2, "b": 2}, 1) == (master.users(), master.handed_out)


def test_a_worker_with_trouble_is_given_no_users(late):
    """Nor is anything handed out anew: the others keep what they have."""
    master, fleet = late
    master.answer("b", trouble="its code is another")
    fleet.check()

    assert ({"a": 4}, 0) == (master.users(), master.handed_out)


def test_users_wait_until_locust_has_handed_out_what_it_was_at(late):
    """To begin in the middle of that would give it up."""
    master, fleet = late
    master.spawning_completed = False
    master.answer("b")
    fleet.check()
    assert 0 == master.handed_out
    master.spawning_completed = True
    fleet.check()

    assert 1 == master.handed_out
