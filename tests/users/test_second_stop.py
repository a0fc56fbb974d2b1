"""Users that are asked to stop twice."""

import gevent
import pytest
from gevent.event import Event
from gevent.pool import Group
from locust.env import Environment
from locust.user.task import LOCUST_STATE_RUNNING

from users.chat_user import StreamingChatUser
from users.open_loop import OpenLoopUser


@pytest.mark.parametrize("kind", [StreamingChatUser, OpenLoopUser])
def test_a_user_that_stops_may_be_asked_again(kind):
    """A worker that has lost its master drains, and the master, back again, ends it: the second
    time the user is left alone; when it is forced it goes at once."""
    user = kind(Environment())
    user._group = Group()
    user._greenlet = user._group.spawn(gevent.sleep, 60)
    user._leaving, user._wake = Event(), Event()
    user._state = LOCUST_STATE_RUNNING

    assert [False, False] == [user.stop(), user.stop()]
    assert not user._greenlet.dead
    assert user.stop(force=True)
    assert user._greenlet.dead
