"""When a queue begins and ends, and the front that queues unseen."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import Engine
from simulator.events import (
    AdmitEvent,
    EngineRequest,
    Event,
    FinishEvent,
    QueueEvent,
    QueueName,
    RefusalReason,
    TokenEvent,
)
from simulator.profile import Profile

TWO_SLOTS = Profile(
    name="two",
    max_num_seqs=2,
    prefill_tokens_per_s=math.inf,
    decode_base_s=0.1,
    decode_per_seq_s=0.0,
    kv_tokens=100_000,
    max_model_len_tokens=10_000,
    prefix_cache=False,
)
ROOMY = replace(TWO_SLOTS, max_num_seqs=8)


def submit(engine: Engine, names: str, at_s: float = 0.0, output_tokens: int = 5) -> None:
    for name in names:
        assert engine.submit(EngineRequest(name, 10, output_tokens), at_s).refusal is None


def queues(events: list[Event], queue: QueueName) -> list[tuple[float, int, int, int]]:
    """Instant, waiting, running and in flight of each change of a queue."""
    return [
        (round(event.at_s, 6), event.waiting, event.running, event.in_flight)
        for event in events
        if isinstance(event, QueueEvent) and event.queue is queue
    ]


def admitted(events: list[Event]) -> dict[str, AdmitEvent]:
    return {event.request_id: event for event in events if isinstance(event, AdmitEvent)}


def test_the_queue_is_told_when_it_begins_and_when_it_ends():
    """Five of five tokens on two slots: three are left behind at 0, the last has a slot at 1."""
    engine = Engine(TWO_SLOTS)
    submit(engine, "abcde")

    assert queues(engine.advance(100.0), QueueName.ENGINE) == [(0.0, 3, 2, 5), (1.0, 0, 1, 1)]


def test_waiting_for_the_step_under_way_is_no_queue():
    """A closed loop with as many users as slots never has one, one user more has."""
    for users, queues_seen in ((2, False), (3, True)):
        engine = Engine(TWO_SLOTS)
        submit(engine, "abc"[:users])
        events: list[Event] = []
        while (at_s := engine.next_event_at_s()) is not None and at_s < 30.0:
            for event in engine.advance(at_s):
                events.append(event)
                if isinstance(event, FinishEvent):
                    engine.submit(EngineRequest(event.request_id, 10, 5), event.at_s + 0.01)

        assert bool(queues(events, QueueName.ENGINE)) is queues_seen


def test_time_held_is_what_a_request_waited_beyond_the_step_under_way():
    """It comes at 0.03 into a step of 0.1: queued 0.07 and held 0 with a slot free."""
    engine = Engine(TWO_SLOTS)
    submit(engine, "a")
    engine.advance(0.03)
    submit(engine, "bc", at_s=0.03)
    events = admitted(engine.advance(100.0))

    assert (events["b"].queue_s, events["b"].held_s) == (pytest.approx(0.07), 0.0)
    assert events["c"].queue_s == pytest.approx(0.47)  # until a's fifth token
    assert events["c"].held_s == pytest.approx(0.4)


def test_the_queue_ends_when_those_who_waited_have_hung_up():
    """It is told at the end of the step under way, also if nothing is left to do."""
    engine = Engine(TWO_SLOTS)
    submit(engine, "abc")
    assert len(queues(engine.advance(0.05), QueueName.ENGINE)) == 1
    for name in "abc":
        assert engine.cancel(name)

    assert queues(engine.advance(100.0), QueueName.ENGINE) == [(0.1, 0, 0, 0)]
    assert engine.next_event_at_s() is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 12)), min_size=1, max_size=30),
    st.integers(1, 4),
    st.sampled_from([None, 1, 3]),
    st.integers(20, 60),
)
def test_queue_events_agree_with_what_requests_waited(arrivals, slots, front_slots, kv_tokens):
    """A request was held exactly when its wait lies in a span of the queue; spans alternate."""
    profile = replace(TWO_SLOTS, max_num_seqs=slots, front_slots=front_slots, kv_tokens=kv_tokens)
    engine = Engine(profile)
    events: list[Event] = []
    for serial, (at_s, output_tokens) in enumerate(sorted(arrivals)):
        events += engine.advance(at_s)
        engine.submit(EngineRequest(str(serial), 5, output_tokens), at_s)
        assert front_slots is None or engine.running + engine.waiting <= front_slots
    while (at_s := engine.next_event_at_s()) is not None:
        events += engine.advance(at_s)

    for name in QueueName:
        edges = queues(events, name)
        assert [waiting > 0 for _, waiting, _, _ in edges] == [True, False] * (len(edges) // 2)
    edges_s = [
        event.at_s
        for event in events
        if isinstance(event, QueueEvent) and event.queue is QueueName.ENGINE
    ]
    spans = list(zip(edges_s[::2], edges_s[1::2], strict=True))
    preempted = engine.counters.preemptions
    for event in admitted(events).values():
        if event.held_s > 0:
            assert any(start_s < event.at_s <= end_s for start_s, end_s in spans)
    if not preempted:
        assert bool(spans) == any(event.held_s > 0 for event in admitted(events).values())


def test_a_front_lets_through_what_it_has_slots_for():
    """Eight slots behind three front slots: three run, the engine has no queue at all."""
    engine = Engine(replace(ROOMY, front_slots=3))
    submit(engine, "abcde")
    events = engine.advance(0.05)

    assert (engine.running, engine.waiting, engine.front_waiting, engine.in_flight) == (3, 0, 2, 5)
    events += engine.advance(100.0)
    assert queues(events, QueueName.ENGINE) == []
    assert queues(events, QueueName.FRONT) == [(0.0, 1, 0, 4), (0.5, 0, 0, 2)]


def test_time_in_the_front_is_told_apart_from_the_queue():
    """d and e wait half a second in the front, and not at all for the engine."""
    engine = Engine(replace(ROOMY, front_slots=3))
    submit(engine, "abcde")
    events = engine.advance(100.0)
    waits = {name: (event.front_s, event.queue_s) for name, event in admitted(events).items()}

    assert waits["c"] == (0.0, 0.0)
    assert waits["d"] == waits["e"] == (pytest.approx(0.5), 0.0)
    first = {e.request_id: e for e in events if isinstance(e, TokenEvent) and e.ordinal == 1}
    assert first["d"].since_previous_s == pytest.approx(0.1)  # what the engine's metrics see
    assert first["d"].at_s == pytest.approx(0.6)


def test_a_front_serves_in_order_of_arrival():
    """A newcomer does not overtake those who wait, even when a slot has just come free."""
    engine = Engine(replace(ROOMY, front_slots=1))
    submit(engine, "abc")
    engine.advance(0.05)
    engine.cancel("a")
    submit(engine, "d", at_s=0.06)

    assert list(admitted(engine.advance(100.0))) == ["b", "c", "d"]


def test_hanging_up_in_the_front_frees_the_place_there():
    """b leaves before its turn; the others are served, and the engine comes to rest."""
    engine = Engine(replace(ROOMY, front_slots=1))
    submit(engine, "abc")
    assert engine.cancel("b") is True
    assert engine.cancel("a") is True  # nothing has run yet: only the front is left

    events = engine.advance(100.0)
    assert list(admitted(events)) == ["c"]
    assert (engine.in_flight, engine.next_event_at_s()) == (0, None)
    assert queues(events, QueueName.FRONT)[-1][1] == 0


def test_the_cap_on_requests_in_flight_counts_those_in_the_front():
    """A cap of 4 refuses the fifth, although the engine holds two."""
    engine = Engine(replace(ROOMY, front_slots=2, max_in_flight=4))
    submit(engine, "abcd")
    submission = engine.submit(EngineRequest("e", 10, 5), 0.0)

    assert submission.refusal is not None
    assert submission.refusal.reason is RefusalReason.TOO_MANY_IN_FLIGHT
    assert (submission.waiting_before, submission.running_before) == (4, 0)


def test_leaving_out_tokens_changes_no_time():
    """`every_token=False` tells first tokens and ends, at the same instants."""
    runs = []
    for every_token in (True, False):
        engine = Engine(replace(TWO_SLOTS, jitter_ratio=0.2), seed=4, every_token=every_token)
        submit(engine, "abcde")
        runs.append(engine.advance(100.0))
    whole, short = runs

    assert short == [
        event for event in whole if not isinstance(event, TokenEvent) or event.ordinal == 1
    ]
    assert len(whole) - len(short) == 5 * 4
