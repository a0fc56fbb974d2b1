"""The open loop's user without a run: what it sends, when, and what is left when it is ended."""

import time
from types import SimpleNamespace

import gevent
import pytest
from locust.exception import StopUser

from metrics.outcome import Outcome
from metrics.stage import Phase, Stage
from tests.support.asking import asker
from users.open_loop import OpenLoopUser
from users.run_context import CURRENT_RUN
from users.wire import WireFacts, WireFailure
from workloads.traffic import TrafficKind

DRAIN = Stage(1, "drain", 0)


class Endpoint:
    """A transport that answers after ``service_s``; it knows what it was asked and when."""

    def __init__(self, service_s=0.0):
        self.service_s = service_s
        self.asked_at_s = []

    def post(self, request, reader):
        """As a transport: a kill becomes a cancelled request and an interrupt."""
        sent_at_s = time.perf_counter()
        self.asked_at_s.append(sent_at_s)
        interrupt, failure = None, None
        try:
            gevent.sleep(self.service_s)
        except gevent.GreenletExit as told:
            interrupt = told
            failure = WireFailure(Outcome.CANCELLED, "told to stop")
        end_s = time.perf_counter() - sent_at_s
        return WireFacts(sent_at_s=sent_at_s, end_s=end_s, failure=failure, interrupt=interrupt)

    def close(self):
        """Nothing is kept."""


class Worker:
    """One open-loop user on a worker of its own, and the records that it fired."""

    def __init__(self, one, endpoint, position=0, workers=1):
        self.records = []
        self.context = one.context
        self.context.transports = {TrafficKind.STREAM: endpoint}
        self.context.position, self.context.workers = position, workers
        CURRENT_RUN.context = self.context
        request = SimpleNamespace(fire=lambda record, **_: self.records.append(record))
        environment = SimpleNamespace(events=SimpleNamespace(request=request))
        self.user = OpenLoopUser(environment)
        self.user.on_start()
        self.greenlet = gevent.spawn(self._run)

    def _run(self):
        try:
            self.user.dispatch()
        except StopUser:
            return "left"

    def leave(self):
        """What Locust's stop does to a user in the middle of its task."""
        self.user._left_at_s = time.perf_counter()
        self.user._wake.set()


@pytest.fixture
def start(monkeypatch):
    """Workers, made as a test needs them; none is left over."""
    monkeypatch.setattr(CURRENT_RUN, "context", None)
    made = []

    def start_one(endpoint, rate="40", arrivals="constant", options=None, **place):
        settings = {"shape": "open-loop", "rate": rate, "arrivals": arrivals, **(options or {})}
        one = asker("http://127.0.0.1:9", **settings).__enter__()
        made.append(Worker(one, endpoint, **place))
        return made[-1]

    yield start_one
    gevent.killall([worker.greenlet for worker in made])


def rate_stage(rate_rps=40.0):
    """A step of an open loop."""
    return Stage(0, "rate", 1, rate_rps)


def test_an_answer_that_takes_long_holds_up_no_arrival(start):
    """40/s on an endpoint that needs 1 s: all that is due in 0.5 s is under way by then."""
    endpoint = Endpoint(service_s=1.0)
    worker = start(endpoint)

    worker.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.5)
    under_way = len(endpoint.asked_at_s)
    worker.context.enter(DRAIN, Phase.DRAIN)
    worker.leave()

    assert worker.greenlet.get(timeout=5) == "left"
    assert 15 <= under_way <= 21
    assert len(endpoint.asked_at_s) == len(worker.records)


def test_a_blocked_client_sends_late_and_moves_no_arrival(start):
    """The loop is blocked for 0.3 s: what was due then is sent at once and says how late it is;
    the times that count stay those of the schedule."""
    worker = start(Endpoint())

    worker.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.1)
    time.sleep(0.3)
    gevent.sleep(0.2)
    worker.context.enter(DRAIN, Phase.DRAIN)
    worker.leave()
    worker.greenlet.get(timeout=5)

    began_s = worker.records[0].started_s
    by_number = sorted(worker.records, key=lambda record: record.user)
    assert list(range(len(by_number))) == [record.user for record in by_number]
    for record in by_number:
        assert record.started_s - began_s == pytest.approx(record.user / 40, abs=1e-6)
        assert record.user_latency_s >= record.schedule_delay_s
    assert max(record.schedule_delay_s for record in by_number) > 0.2
    assert by_number[-1].schedule_delay_s < 0.1, "it caught up"


def test_workers_send_their_own_share_only(start):
    """The second of three: arrivals 1, 4, 7 and so on."""
    worker = start(Endpoint(), position=1, workers=3)

    worker.context.enter(rate_stage(120.0), Phase.HOLD)
    gevent.sleep(0.3)
    worker.context.enter(DRAIN, Phase.DRAIN)
    worker.leave()
    worker.greenlet.get(timeout=5)

    numbers = sorted(record.user for record in worker.records)
    assert len(numbers) > 5
    assert list(range(1, numbers[-1] + 1, 3)) == numbers


def test_a_worker_that_joined_too_late_sends_nothing(start):
    """The schedule is shared out already: another share would be a rate nobody asked for."""
    endpoint = Endpoint()
    worker = start(endpoint, position=None, workers=2)

    worker.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.2)
    worker.leave()

    assert worker.greenlet.get(timeout=5) == "left"
    assert [] == endpoint.asked_at_s


def test_nothing_is_sent_before_the_load_begins(start):
    """While the other workers' users are still being started, nobody sends."""
    endpoint = Endpoint()
    worker = start(endpoint)

    worker.context.enter(rate_stage(), Phase.RAMP)
    gevent.sleep(0.2)
    during_ramp = len(endpoint.asked_at_s)
    worker.context.enter(rate_stage(), Phase.SETTLE)
    gevent.sleep(0.2)
    worker.leave()
    worker.greenlet.get(timeout=5)

    assert 0 == during_ramp
    assert {Phase.SETTLE} == {record.phase for record in worker.records}


def test_the_schedule_goes_on_from_settling_to_the_hold(start):
    """One schedule from the first announcement: its arrivals bear the phase they were due in."""
    worker = start(Endpoint())

    worker.context.enter(rate_stage(), Phase.SETTLE)
    gevent.sleep(0.26)
    worker.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.26)
    worker.leave()
    worker.greenlet.get(timeout=5)

    phases = [record.phase for record in sorted(worker.records, key=lambda r: r.user)]
    assert sorted(phases, reverse=True) == phases, "settle, then hold"
    assert {Phase.SETTLE, Phase.HOLD} == set(phases)
    assert list(range(len(phases))) == sorted(record.user for record in worker.records)


def test_a_killed_user_keeps_a_record_of_every_arrival(start):
    """Locust kills the user with answers under way: each is recorded once, as cancelled or, if it
    was about to begin, as not sent."""
    endpoint = Endpoint(service_s=30.0)
    worker = start(endpoint)

    worker.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.3)
    worker.greenlet.kill(timeout=5)

    cancelled = [record for record in worker.records if record.outcome is Outcome.CANCELLED]
    assert len(endpoint.asked_at_s) == len(cancelled) > 5
    assert {Outcome.CANCELLED, Outcome.NOT_SENT} >= {record.outcome for record in worker.records}
    assert list(range(len(worker.records))) == sorted(record.user for record in worker.records)


def test_what_is_a_second_late_at_the_end_is_recorded_and_not_sent(start):
    """The client was blocked over the stage's end: a burst afterwards is nobody's load."""
    endpoint = Endpoint()
    worker = start(endpoint)

    worker.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.1)
    time.sleep(0.2)
    worker.context.enter(DRAIN, Phase.DRAIN)
    time.sleep(1.3)
    worker.leave()
    worker.greenlet.get(timeout=5)

    missed = [record for record in worker.records if record.outcome is Outcome.NOT_SENT]
    assert 5 <= len(missed) <= 10
    assert len(worker.records) == len(endpoint.asked_at_s) + len(missed)
    assert all(record.schedule_delay_s > 1.0 and record.attempts == 0 for record in missed)
    assert {0} == {record.stage for record in worker.records}


def test_what_is_asked_follows_from_the_arrival_alone(start):
    """Whichever worker sends arrival 4, it asks the same prompt."""
    alone, shared = start(Endpoint()), start(Endpoint(), position=1, workers=3)
    wishes = []
    for worker in (alone, shared):
        arrival = SimpleNamespace(number=4, due_s=0.1)
        _, wish = worker.user._wish(rate_stage(), arrival, 0.0)
        wishes.append((wish.prompt, wish.body))

    assert wishes[0] == wishes[1]


UNEQUAL = {"prompt_tokens": "lognormal:p50=50,p90=300", "output_tokens": "uniform:10-100"}


def test_arrivals_paced_by_tokens_follow_from_what_is_asked(start):
    """12,000 tokens/s shared by two: each arrival waits for as long as the nominal tokens of all
    before it last, whoever sends them, and those are the tokens that are then asked for."""
    stage = Stage(0, "rate", 2, 40.0, 12_000.0)
    records, tokens = [], {}
    for position in range(2):
        worker = start(Endpoint(), "720k tokens/min", options=UNEQUAL, position=position, workers=2)
        asked = worker.user._wish

        def note(stage, arrival, due_at_s, asked=asked):
            kind, wish = asked(stage, arrival, due_at_s)
            nominal = wish.prompt.nominal_prompt_tokens
            tokens[arrival.number] = nominal + wish.asked_max_tokens
            return kind, wish

        worker.user._wish = note
        worker.context.enter(stage, Phase.HOLD)
        gevent.sleep(0.5)
        worker.context.enter(DRAIN, Phase.DRAIN)
        worker.leave()
        worker.greenlet.get(timeout=5)
        began_s, _ = worker.context.bounds_s(stage)
        records += [
            (record.user, record.started_s - (began_s - worker.context.joined_at_s))
            for record in worker.records
        ]

    due_s = dict(records)
    both = min(max(n for n in due_s if n % 2 == of) for of in range(2))
    assert both > 8
    assert len(set(tokens.values())) > 4
    for number in range(both + 1):
        before = sum(tokens[earlier] for earlier in range(number))
        assert due_s[number] == pytest.approx(before / 12_000.0, abs=1e-6)


def test_the_search_for_limits_sends_evenly_whatever_the_arrivals(start):
    """Chance clumps would be refused at a rate that the limiter carries."""
    worker = start(Endpoint(), arrivals="poisson", options={"shape": "limits"})

    worker.context.enter(rate_stage(), Phase.HOLD)
    gevent.sleep(0.4)
    worker.context.enter(DRAIN, Phase.DRAIN)
    worker.leave()
    worker.greenlet.get(timeout=5)

    began_s = worker.records[0].started_s
    assert len(worker.records) > 8
    for record in worker.records:
        assert record.started_s - began_s == pytest.approx(record.user / 40, abs=1e-6)
