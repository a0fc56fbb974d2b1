"""The master's side of an open loop's schedule: who is told to share it, and who is given users."""

from functools import partial
from types import SimpleNamespace

import pytest
from locust import User
from locust.dispatch import UsersDispatcher
from locust.runners import STATE_RUNNING, MasterRunner, WorkerNode, WorkerNodes

import hooks.fleet
import hooks.schedule_shares
from hooks import messages
from hooks.fleet import MembersDispatcher
from hooks.schedule_shares import NOTICE_S, ScheduleShares
from metrics.stage import COLD_STAGE


class Asks(User):
    """A user that is never run."""


class Fleet(MasterRunner):
    """A master without a socket that notes what it sends."""

    def __init__(self, *names):
        self.clients = WorkerNodes()
        self.state = STATE_RUNNING
        self.spawning_completed = True
        self.target_user_count, self.spawn_rate = len(names), 3.0
        self.started, self.sent = [], []
        self._users_dispatcher = None
        self.environment = SimpleNamespace(
            dispatcher_class=UsersDispatcher, user_classes=[Asks], runner=self
        )
        for name in names:
            self.clients[name] = WorkerNode(name, state=STATE_RUNNING)
            self.clients[name].user_classes_count = {"Asks": 1}

    def __del__(self):
        """Nothing was begun that would have to end."""

    def send_message(self, msg_type, data=None, client_id=None):
        """Notes it."""
        assert msg_type == messages.SHARE_ANEW
        self.sent.append(data)

    def start(self, user_count, spawn_rate, **_):
        """Notes it."""
        self.started.append((user_count, spawn_rate))


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test sets; what is spawned is run at once."""
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(hooks.schedule_shares.time, "monotonic", lambda: now.s)
    spawn = SimpleNamespace(spawn=lambda call, *arguments: call(*arguments))
    monkeypatch.setattr(hooks.fleet, "gevent", spawn)
    return now


def begun(fleet, shape="open-loop"):
    """A run of all that are there now."""
    shares = ScheduleShares(fleet.environment, fleet)
    shares.begin("run", shape, list(fleet.clients))
    return shares


def phase(stage, name):
    """An announcement."""
    return {"stage": stage, "phase": name}


def test_those_that_are_left_share_from_a_few_seconds_later_on(clock):
    """B is missed 7 s after the stage began: from its second 7 and the notice on; back, it shares
    again."""
    fleet = Fleet("a", "b", "c")
    shares = begun(fleet)
    shares.enter(phase(0, "ramp"))
    clock.s = 103.0
    shares.enter(phase(0, "settle"))
    clock.s = 105.0
    shares.enter(phase(0, "hold"))
    clock.s = 110.0
    shares.check({"a", "b", "c"})
    assert [] == fleet.sent
    shares.check({"a", "c", "late"})
    clock.s = 111.0
    shares.check({"a", "c", "late"})
    clock.s = 112.0
    shares.check({"a", "b", "c", "late"})

    told = [(one["stage"], one["from_s"], one["fleet"]) for one in fleet.sent]
    assert [
        (0, 7.0 + NOTICE_S, ("a", "c")),
        (0, 9.0 + NOTICE_S, ("a", "b", "c")),
    ] == told


@pytest.mark.parametrize(("stage", "told"), [(COLD_STAGE, -1), (1, 1)], ids=["cold", "ramp"])
def test_before_its_load_begins_a_stage_is_shared_from_its_beginning(clock, stage, told):
    """In the cold start, or while users of the stage are still missing."""
    fleet = Fleet("a", "b")
    shares = begun(fleet)
    shares.enter(phase(stage, "ramp"))
    shares.check({"b"})

    assert [(told, 0.0, ("b",))] == [(s["stage"], s["from_s"], s["fleet"]) for s in fleet.sent]


def test_locust_starts_the_user_that_went_with_a_worker(clock):
    """Once, and not while it is at it already: the next stage would wait for it in vain."""
    fleet = Fleet("a", "b")
    shares = begun(fleet)
    shares.enter(phase(0, "hold"))
    del fleet.clients["b"]
    fleet.spawning_completed = False
    shares.check({"a"})
    assert [] == fleet.started
    fleet.spawning_completed = True
    for _ in range(3):
        shares.check({"a"})

    assert [(2, 3.0)] == fleet.started


@pytest.mark.parametrize("shape", ["constant", "ladder", "knee"])
def test_users_of_a_closed_loop_have_no_schedule(clock, shape):
    """Nothing is told, and Locust shares its users out as it does."""
    fleet = Fleet("a", "b")
    shares = begun(fleet, shape)
    shares.enter(phase(0, "hold"))
    shares.check({"a"})

    assert [] == fleet.sent == fleet.started
    assert UsersDispatcher is fleet.environment.dispatcher_class
    assert set() == shares.strangers({"a", "late"})


def test_a_closed_loop_after_an_open_one_has_locusts_dispatcher_again(clock):
    """The page starts one run after the other on the same fleet."""
    fleet = Fleet("a", "b")
    shares = begun(fleet)
    assert isinstance(fleet.environment.dispatcher_class, partial)
    assert {"late"} == shares.strangers({"a", "late"})
    shares.begin("next", "ladder", ["a", "b"])

    assert UsersDispatcher is fleet.environment.dispatcher_class


def given(dispatcher, users):
    """How many users each worker is told to run."""
    dispatcher.new_dispatch(users, spawn_rate=100.0)
    last = list(dispatcher)[-1]
    return {worker: sum(classes.values()) for worker, classes in last.items()}


def test_a_late_worker_takes_no_user_from_those_that_share(clock):
    """Locust would share three users out over four anew, and leave one that has a share without."""
    nodes = {name: WorkerNode(name, state=STATE_RUNNING) for name in ("b", "c", "d", "a-late")}
    members = [nodes[name] for name in ("b", "c", "d")]
    locusts = UsersDispatcher(list(members), [Asks])
    ours = MembersDispatcher(list(members), [Asks], members=("b", "c", "d"))
    for dispatcher in (locusts, ours):
        given(dispatcher, 3)
        dispatcher.add_worker(nodes["a-late"])

    assert 0 == given(locusts, 3)["d"]
    assert {"b": 1, "c": 1, "d": 1} == given(ours, 3)
    anew = MembersDispatcher(list(nodes.values()), [Asks], members=("b", "c", "d"))
    assert {"b": 1, "c": 1, "d": 1} == given(anew, 3)


def test_a_member_that_comes_back_is_given_its_user(clock):
    """It was missed, and is one of those that began the run."""
    nodes = [WorkerNode(name, state=STATE_RUNNING) for name in ("a", "b")]
    dispatcher = MembersDispatcher(list(nodes), [Asks], members=("a", "b"))
    given(dispatcher, 2)
    dispatcher.remove_worker(nodes[1])
    dispatcher.add_worker(nodes[1])

    assert {"a": 1, "b": 1} == given(dispatcher, 2)
