"""Who sends the arrivals of an open loop when workers, and Locust's users on them, come and go."""

import time
from types import SimpleNamespace

import gevent
import pytest

from metrics.stage import Phase
from tests.support.asking import asker
from tests.users.test_open_loop import DRAIN, Endpoint, Worker, rate_stage
from users.open_loop import OpenLoopUser
from users.run_context import CURRENT_RUN
from workloads.arrivals import Sharing


class SecondUser(Worker):
    """One more user on a worker that has one."""

    def __init__(self, first):
        self.records, self.context = first.records, first.context
        request = SimpleNamespace(fire=lambda record, **_: self.records.append(record))
        self.user = OpenLoopUser(SimpleNamespace(events=SimpleNamespace(request=request)))
        self.user.on_start()
        self.greenlet = gevent.spawn(self._run)


@pytest.fixture
def worker(monkeypatch):
    """Makes a worker with one user, at 40 arrivals a second; ends all users."""
    monkeypatch.setattr(CURRENT_RUN, "context", None)
    made = []

    def make(first=None, **place):
        if first is not None:
            made.append(SecondUser(first))
        else:
            settings = {"shape": "open-loop", "rate": "40", "arrivals": "constant"}
            one = asker("http://127.0.0.1:9", **settings).__enter__()
            made.append(Worker(one, Endpoint(), **place))
        return made[-1]

    yield make
    gevent.killall([each.greenlet for each in made])


def numbers_of(worker):
    """Of the arrivals that it sent."""
    return sorted(record.user for record in worker.records)


def ended(worker, *users):
    """The run ends, and these users with it."""
    worker.context.enter(DRAIN, Phase.DRAIN)
    for user in (worker, *users):
        user.leave()
    for user in (worker, *users):
        assert user.greenlet.get(timeout=5) == "left"


def test_a_second_user_of_a_worker_sends_nothing_twice(worker):
    """Locust gives a lost worker's user to another: it came in mid-stage, and every arrival is
    still sent once."""
    first = worker()
    first.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.3)
    second = worker(first)
    gevent.sleep(0.3)
    ended(first, second)

    numbers = numbers_of(first)
    assert len(numbers) > 15
    assert list(range(len(numbers))) == numbers


def test_a_user_that_is_moved_away_hands_its_worker_over(worker):
    """The first leaves in mid-stage: the second sends what comes after, and nothing once more."""
    first = worker()
    first.context.enter(rate_stage(), Phase.HOLD)
    second = worker(first)
    gevent.sleep(0.3)
    first.leave()
    first.greenlet.get(timeout=5)
    so_far = len(first.records)
    gevent.sleep(0.3)
    ended(second)

    numbers = numbers_of(first)
    assert len(numbers) > so_far + 5
    assert list(range(len(numbers))) == numbers


def test_a_lost_workers_share_is_taken_over_from_the_instant_that_was_told(worker):
    """The first of two has the even ones, and all from 0.5 s on, as it heard at 0.2 s."""
    first = worker(position=0, workers=2)
    first.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.2)
    first.context.share_anew(Sharing(0, 0.5, 0, 1))
    gevent.sleep(0.6)
    ended(first)

    numbers = numbers_of(first)
    assert numbers[-1] > 25
    # Number 20 is due at 0.5 s.
    assert [*range(0, 20, 2), *range(20, numbers[-1] + 1)] == numbers


def test_a_share_that_was_given_away_is_sent_no_longer(worker):
    """It was taken for lost, and hears of it: what is due from then on is another's."""
    first = worker(position=0, workers=2)
    first.context.enter(rate_stage(), Phase.HOLD)
    first.context.share_anew(Sharing(0, 0.3, None, 1))
    gevent.sleep(0.6)
    ended(first)

    assert [0, 2, 4, 6, 8, 10] == numbers_of(first)


def test_a_process_that_was_stopped_hears_first_who_shares_now(worker):
    """It sleeps for 1.5 s; the message that gave its share away waits for it meanwhile and is read
    before any of the late arrivals that are another's is sent."""
    first = worker(position=0, workers=2)
    first.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.1)
    # As a message that came while the process was stopped, and is read when the loop comes round.
    gevent.spawn_later(0.15, first.context.share_anew, Sharing(0, 0.2, None, 1))
    time.sleep(1.5)
    gevent.sleep(0.4)
    ended(first)

    assert [0, 2, 4, 6] == numbers_of(first)
