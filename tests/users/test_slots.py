"""The slots of ``--max-in-flight``: how many at once, in which order, and none lost."""

import gevent
import pytest
from gevent.event import Event

from users.slots import Slots


class Street:
    """Greenlets that take a slot, keep it until they are told, and give it back."""

    def __init__(self, slots):
        self.slots = slots
        self.inside, self.turned_away, self.most = [], [], 0
        self.go = {}

    def comes(self, name, leaving=None):
        """One more; returns once it is inside, waits or is gone."""
        self.go[name] = Event()
        greenlet = gevent.spawn(self._visit, name, leaving)
        gevent.sleep(0)
        return greenlet

    def leaves(self, name):
        """It gives its slot back."""
        self.go[name].set()
        settle()

    def _visit(self, name, leaving):
        if not self.slots.take(leaving):
            self.turned_away.append(name)
            return
        self.inside.append(name)
        self.most = max(self.most, len(self.inside))
        try:
            self.go[name].wait()
        finally:
            self.inside.remove(name)
            self.slots.release()


def settle():
    """Let every greenlet do what it can."""
    for _ in range(5):
        gevent.sleep(0)


@pytest.fixture
def street():
    """Two slots."""
    return Street(Slots(2))


def test_no_more_are_inside_than_there_are_slots(street):
    """Ten come to two slots and each goes in once."""
    for name in range(10):
        street.comes(name)
    seen = []
    while street.inside:
        seen.append(street.inside[0])
        street.leaves(street.inside[0])

    assert 2 == street.most
    assert list(range(10)) == seen


def test_who_comes_later_goes_in_later(street):
    """A slot that becomes free is not taken by one who has just come."""
    for name in "abcd":
        street.comes(name)
    street.leaves("a")
    street.comes("e")

    assert ["b", "c"] == street.inside
    street.leaves("b")
    assert ["c", "d"] == street.inside


def test_who_is_told_to_leave_stops_waiting_and_takes_no_slot(street):
    """Two wait and are let go; the slot goes to the third."""
    leaving = Event()
    for name in "ab":
        street.comes(name)
    for name in "cd":
        street.comes(name, leaving)
    street.comes("e", Event())
    leaving.set()
    settle()

    assert ["c", "d"] == sorted(street.turned_away)
    street.leaves("a")
    assert ["b", "e"] == street.inside


def test_who_has_left_before_does_not_wait(street):
    """With a slot free it goes in all the same: nothing is waited for."""
    gone = Event()
    gone.set()
    street.comes("a", gone)
    street.comes("b")
    street.comes("c", gone)

    assert ["a", "b"] == street.inside
    assert ["c"] == street.turned_away


def test_who_is_killed_while_waiting_takes_no_slot(street):
    """The slot goes to the one behind it."""
    street.comes("a"), street.comes("b")
    waits = street.comes("c")
    street.comes("d")
    waits.kill()
    street.leaves("a")

    assert ["b", "d"] == street.inside


def test_a_slot_granted_to_one_that_is_killed_is_given_back():
    """The kill was on its way when the slot was handed over."""
    slots, gone = Slots(1), Event()
    gone.set()
    assert slots.take(None)
    doomed = gevent.spawn(slots.take, None)
    settle()
    doomed.kill(block=False)
    slots.release()
    settle()

    assert slots.take(gone), "there is a free slot"


def test_nothing_is_kept_of_those_who_waited(street):
    """A user's event is linked while one of its requests waits, and never after."""
    leaving = Event()
    for name in "abcd":
        street.comes(name, leaving)
    for name in "abcd":
        street.leaves(name)

    assert 0 == leaving.linkcount()
    assert [] == street.inside
