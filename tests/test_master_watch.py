"""When a worker takes its master for lost."""

from gevent import sleep
from locust.event import Events

from hooks.master_watch import LIMIT_S, MOST_OF_A_TURN_S, TURN_S, MasterWatch, Silence


def turns_until_lost(silence, passed_s):
    """How many turns of so many seconds it takes."""
    return next(number for number in range(1, 1000) if silence.turn(passed_s))


def test_a_silent_master_is_lost_after_the_limit():
    """Turns on time: the first one past 5 s tells."""
    assert int(LIMIT_S / TURN_S) + 1 == turns_until_lost(Silence(), TURN_S)


def test_a_sign_of_life_begins_the_count_anew():
    """After 4.75 s of silence one heartbeat buys the whole limit again."""
    silence = Silence()
    assert not any(silence.turn(TURN_S) for _ in range(19))
    silence.heard()
    assert int(LIMIT_S / TURN_S) + 1 == turns_until_lost(silence, TURN_S)


def test_a_pause_of_this_process_is_no_silence_of_the_master():
    """An hour's sleep counts as half a second: nothing could be heard in it."""
    silence = Silence()
    assert not silence.turn(3600.0)
    assert MOST_OF_A_TURN_S == silence.awake_s


def test_a_process_that_is_always_late_still_finds_out():
    """Each turn takes 2 s in place of 0.25 s: half a second of each counts."""
    assert 11 == turns_until_lost(Silence(), 2.0)


class Worker:
    """As much of Locust's runner as is watched."""

    def __init__(self):
        self.environment = self
        self.events = Events()
        self.last_heartbeat_timestamp = None

    def hears(self):
        """A heartbeat of the master, as Locust takes it."""
        self.last_heartbeat_timestamp = 1.0
        self.events.heartbeat_received.fire(client_id="master", timestamp=1.0)


def test_a_lost_master_is_told_once(monkeypatch):
    """With a limit of 0.3 s and no heartbeat: one call, with at least that silence."""
    monkeypatch.setattr("hooks.master_watch.LIMIT_S", 0.3)
    told = []
    watch = MasterWatch(Worker(), told.append)

    watch._watching.join(10)

    assert watch._watching.ready()
    assert 1 == len(told)
    assert told[0] > 0.3


def test_a_heartbeat_puts_locusts_own_check_out_of_force():
    """It goes by the wall clock and would end a worker that was merely paused for a minute."""
    worker = Worker()
    watch = MasterWatch(worker, print)
    watch._silence.awake_s = 4.0

    worker.hears()
    sleep(0)

    assert worker.last_heartbeat_timestamp is None
    assert watch._silence.awake_s == 0.0
    watch._watching.kill()
