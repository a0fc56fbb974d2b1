"""The capacity model, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import Engine
from simulator.events import (
    AdmitEvent,
    EngineRequest,
    Event,
    FinishEvent,
    PreemptEvent,
    RefusalReason,
    TokenEvent,
)
from simulator.profile import PROFILES, Profile, ProfileError

E = TypeVar("E")

PLAIN = Profile(
    name="plain",
    max_num_seqs=4,
    prefill_tokens_per_s=1000.0,
    decode_base_s=0.020,
    decode_per_seq_s=0.001,
    kv_tokens=100_000,
    max_model_len_tokens=10_000,
    prefix_cache=False,
)
NO_PREFILL = replace(PLAIN, prefill_tokens_per_s=math.inf)


def request(name: str, prompt_tokens: int = 10, output_tokens: int = 5) -> EngineRequest:
    return EngineRequest(name, prompt_tokens, output_tokens)


def drain(engine: Engine, until_s: float = math.inf) -> list[Event]:
    """All events up to `until_s`, reached in the engine's own strides."""
    events: list[Event] = []
    while (at_s := engine.next_event_at_s()) is not None and at_s <= until_s:
        events += engine.advance(at_s)
    return events


def run(profile: Profile, requests: Sequence[EngineRequest], at_s: float = 0.0) -> list[Event]:
    """All events of requests that arrive together."""
    engine = Engine(profile)
    for each in requests:
        assert engine.submit(each, at_s).refusal is None
    return drain(engine)


def of_kind(events: Sequence[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def tokens_of(events: Sequence[Event], name: str) -> list[TokenEvent]:
    return [event for event in of_kind(events, TokenEvent) if event.request_id == name]


def test_a_lone_request_takes_prefill_plus_one_step_per_token():
    """First token after a + b + prompt/rate, each further one after a + b."""
    events = run(PLAIN, [request("a", prompt_tokens=200, output_tokens=3)])

    times_s = [event.at_s for event in tokens_of(events, "a")]
    assert times_s == pytest.approx([0.221, 0.242, 0.263])
    assert of_kind(events, FinishEvent)[0].elapsed_s == pytest.approx(0.263)


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_step_time_grows_linearly_with_the_batch(batch):
    """With `batch` sequences decoding, a step takes a + b * batch."""
    events = run(NO_PREFILL, [request(f"r{i}") for i in range(batch)])

    gaps_s = [event.since_previous_s for event in of_kind(events, TokenEvent)]
    assert gaps_s == pytest.approx([0.020 + 0.001 * batch] * 5 * batch)


def test_requests_are_admitted_in_order_of_arrival():
    """The queue is first in, first out."""
    names = [f"r{i}" for i in range(12)]
    events = run(PLAIN, [request(name, output_tokens=1 + i % 3) for i, name in enumerate(names)])

    assert [event.request_id for event in of_kind(events, AdmitEvent)] == names


def test_the_fifth_of_five_waits_for_a_slot_of_four():
    """Its queue time is the others' service time: five steps of four sequences."""
    events = run(NO_PREFILL, [request(f"r{i}") for i in range(5)])

    waits_s = [event.queue_s for event in of_kind(events, AdmitEvent)]
    assert waits_s == pytest.approx([0, 0, 0, 0, 5 * 0.024])


def test_an_arrival_during_a_step_waits_for_its_end():
    """Nothing joins a step that is under way."""
    engine = Engine(NO_PREFILL)
    engine.submit(request("a", output_tokens=2), 0.0)
    engine.advance(0.001)
    engine.submit(request("b", output_tokens=1), 0.010)
    events = drain(engine)

    admitted = of_kind(events, AdmitEvent)[-1]
    assert (admitted.request_id, admitted.at_s) == ("b", pytest.approx(0.021))
    assert admitted.queue_s == pytest.approx(0.011)


@pytest.mark.parametrize("late_s", [0.0, 0.5, 30.0])
def test_a_late_caller_changes_nothing_in_the_model(late_s):
    """Steps follow the virtual clock: events are the same however late they are fetched."""
    prompt = [request(f"r{i}", output_tokens=7) for i in range(6)]
    expected = run(PLAIN, prompt)
    engine = Engine(PLAIN)
    for each in prompt:
        engine.submit(each, 0.0)
    events: list[Event] = []
    while (at_s := engine.next_event_at_s()) is not None:
        events += engine.advance(at_s + late_s)

    assert events == expected


def test_a_late_caller_does_not_let_an_arrival_into_the_past():
    """A request never gets a slot before it arrived."""
    engine = Engine(NO_PREFILL)
    engine.submit(request("a", output_tokens=3), 0.0)
    engine.submit(request("b"), 0.050)
    admitted = of_kind(engine.advance(10.0), AdmitEvent)

    assert admitted[1].at_s == pytest.approx(0.063)


def saturated_tokens_per_s(streams: int) -> float:
    """Closed loop of `streams` clients against the small profile, for 60 virtual seconds."""
    engine = Engine(replace(PROFILES["small"], jitter_ratio=0.0))
    for client in range(streams):
        engine.submit(request(f"{client}/0", 200, 48), 0.0)
    tokens = 0
    while (at_s := engine.next_event_at_s()) is not None and at_s < 60.0:
        for event in engine.advance(at_s):
            tokens += isinstance(event, TokenEvent)
            if isinstance(event, FinishEvent):
                client, turn = event.request_id.split("/")
                engine.submit(request(f"{client}/{int(turn) + 1}", 200, 48), event.at_s)
    return tokens / 60.0


def test_throughput_of_the_small_profile_rises_to_16_streams_and_is_flat_after():
    """The knee sits at max_num_seqs."""
    rates = {streams: saturated_tokens_per_s(streams) for streams in (1, 8, 12, 16, 20, 32)}

    assert rates[8] > 5 * rates[1]
    assert rates[12] > 1.2 * rates[8]
    assert rates[16] > 1.1 * rates[12]
    assert rates[20] == pytest.approx(rates[16], rel=0.02)
    assert rates[32] == pytest.approx(rates[16], rel=0.02)


def test_the_small_profile_feels_as_its_table_says():
    """200 in, 48 out, alone: first token after 40-60 ms, whole answer in 1.2-1.8 s."""
    profile = replace(PROFILES["small"], jitter_ratio=0.0)
    events = run(profile, [request("a", prompt_tokens=200, output_tokens=48)])

    assert 0.040 <= tokens_of(events, "a")[0].at_s <= 0.060
    assert 1.2 <= of_kind(events, FinishEvent)[0].elapsed_s <= 1.8


def test_a_long_prompt_is_prefilled_in_chunks_while_others_decode():
    """A chunk lengthens a step, it does not hold the others up until the prompt is done."""
    profile = replace(PLAIN, prefill_chunk_tokens=100)
    engine = Engine(profile)
    engine.submit(request("short", prompt_tokens=10, output_tokens=8), 0.0)
    engine.advance(0.001)
    engine.submit(request("long", prompt_tokens=300, output_tokens=1), 0.002)
    events = drain(engine)

    gaps_s = [event.since_previous_s for event in tokens_of(events, "short")[1:5]]
    assert gaps_s == pytest.approx([0.121, 0.121, 0.122, 0.021])
    assert len(tokens_of(events, "long")) == 1


TIGHT_KV = replace(NO_PREFILL, kv_tokens=60, max_model_len_tokens=60)


def test_the_latest_admitted_is_preempted_and_returns_first():
    """60 tokens hold one of 20 + 20 and a half: b gives way to a, then c to b."""
    events = run(TIGHT_KV, [request(name, 20, 20) for name in ("a", "b", "c")])

    assert [event.request_id for event in of_kind(events, PreemptEvent)] == ["b", "c"]
    finished = [event.request_id for event in of_kind(events, FinishEvent)]
    assert finished == ["a", "b", "c"]


def test_preemption_loses_and_repeats_no_token():
    """Every request gives each of its tokens once, in order."""
    engine = Engine(TIGHT_KV)
    for name in ("a", "b", "c", "d"):
        engine.submit(request(name, 12, 25), 0.0)
    events = drain(engine)

    assert engine.counters.preemptions > 0
    for name in ("a", "b", "c", "d"):
        assert [event.ordinal for event in tokens_of(events, name)] == list(range(1, 26))
    assert engine.counters.generation_tokens == 100
    assert engine.counters.prompt_tokens == 48
    assert engine.kv_usage_ratio == 0


def test_a_preempted_request_computes_again_what_it_had():
    """Its prompt and its tokens so far are prefilled once more before the next token."""
    profile = replace(TIGHT_KV, prefill_tokens_per_s=1000.0)
    events = run(profile, [request("a", 20, 20), request("b", 20, 20)])

    gone_at_s = of_kind(events, PreemptEvent)[0].at_s
    before = [event for event in tokens_of(events, "b") if event.at_s <= gone_at_s]
    after = next(event for event in tokens_of(events, "b") if event.at_s > gone_at_s)
    freed_at_s = of_kind(events, FinishEvent)[0].at_s
    recomputed_tokens = 20 + len(before)
    assert after.at_s == pytest.approx(freed_at_s + 0.021 + recomputed_tokens / 1000)


def test_kv_memory_keeps_a_request_out_although_slots_are_free():
    """A prompt waits until it fits."""
    engine = Engine(TIGHT_KV)
    engine.submit(request("a", 40, 5), 0.0)
    engine.submit(request("b", 40, 5), 0.0)
    engine.advance(0.001)

    assert (engine.running, engine.waiting) == (1, 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 2), st.integers(1, 30), st.integers(1, 30), st.booleans()),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 5),
    st.integers(60, 200),
)
def test_slots_memory_and_tokens_are_kept_whatever_arrives(arrivals, slots, kv_tokens):
    """Never over the slots or the memory; each request gives its tokens once, unless cancelled."""
    profile = replace(
        PLAIN, max_num_seqs=slots, kv_tokens=kv_tokens, prefill_chunk_tokens=16, jitter_ratio=0.1
    )
    engine = Engine(profile, seed=3)
    given_tokens: dict[str, list[int]] = {}
    asked: dict[str, int] = {}
    cancelled: set[str] = set()

    def take(events):
        for event in events:
            if isinstance(event, TokenEvent):
                assert event.request_id not in cancelled
                given_tokens[event.request_id].append(event.ordinal)
        assert engine.running <= slots
        assert 0 <= engine.kv_usage_ratio <= 1

    for serial, (at_s, prompt, output, cancel) in enumerate(sorted(arrivals)):
        take(engine.advance(at_s))
        name = f"r{serial}"
        asked[name], given_tokens[name] = output, []
        engine.submit(request(name, prompt, output), at_s)
        if cancel and serial:
            victim = f"r{serial - 1}"
            if engine.cancel(victim):
                cancelled.add(victim)
    while (at_s := engine.next_event_at_s()) is not None:
        take(engine.advance(at_s))

    assert (engine.running, engine.waiting, engine.kv_usage_ratio) == (0, 0, 0)
    for name, output in asked.items():
        count = len(given_tokens[name])
        assert given_tokens[name] == list(range(1, count + 1))
        assert count == output or name in cancelled
    assert engine.counters.generation_tokens == sum(map(len, given_tokens.values()))


def test_cancelling_frees_the_slot_for_the_next_in_line():
    """The step under way ends as planned, and the waiting request is in the next one."""
    engine = Engine(replace(NO_PREFILL, max_num_seqs=1))
    engine.submit(request("a", output_tokens=1000), 0.0)
    engine.submit(request("b"), 0.0)
    engine.advance(0.030)

    assert engine.cancel("a") is True
    assert (engine.running, engine.kv_usage_ratio) == (0, 0)
    events = drain(engine)
    assert of_kind(events, AdmitEvent)[0].at_s == pytest.approx(0.042)
    assert tokens_of(events, "a") == []
    assert engine.cancel("a") is False


def test_cancelling_a_waiting_request_removes_it_from_the_queue():
    """It never gets a slot."""
    engine = Engine(replace(NO_PREFILL, max_num_seqs=1))
    for name in ("a", "b", "c"):
        engine.submit(request(name), 0.0)
    assert engine.cancel("b") is True

    assert [event.request_id for event in of_kind(drain(engine), AdmitEvent)] == ["a", "c"]


def test_the_first_request_after_idling_pays_for_the_cold_start():
    """Also the very first one; a request within `idle_after_s` of the last step does not."""
    engine = Engine(replace(NO_PREFILL, cold_start_s=3.0, idle_after_s=10.0))
    first_token_s = []
    for at_s in (0.0, 5.0, 30.0):
        engine.submit(request(f"at {at_s}", output_tokens=1), at_s)
        first_token_s.append(of_kind(drain(engine), FinishEvent)[0].elapsed_s)

    assert first_token_s == pytest.approx([3.021, 0.021, 3.021])


def test_stalls_come_as_often_as_asked_and_hold_everybody_up():
    """About one step in a hundred takes `stall_s` longer, for all in the batch."""
    profile = replace(NO_PREFILL, stall_probability=0.01, stall_s=1.0)
    events = run(profile, [request("a", 10, 5000), request("b", 10, 5000)])

    for name in ("a", "b"):
        gaps_s = [event.since_previous_s for event in tokens_of(events, name)]
        stalled = sum(gap_s > 0.5 for gap_s in gaps_s)
        assert 30 <= stalled <= 70
        assert max(gaps_s) == pytest.approx(1.022)


def test_jitter_spreads_steps_without_moving_their_mean():
    """Lognormal with mean 1: 5 % spread, mean kept within a few standard errors."""
    events = run(replace(NO_PREFILL, jitter_ratio=0.05), [request("a", 10, 9000)])

    gaps_s = [event.since_previous_s for event in tokens_of(events, "a")]
    mean_s = math.fsum(gaps_s) / len(gaps_s)
    spread = math.sqrt(math.fsum((gap_s / mean_s - 1) ** 2 for gap_s in gaps_s) / len(gaps_s))
    assert mean_s == pytest.approx(0.021, rel=0.003)
    assert spread == pytest.approx(0.05, rel=0.1)


def test_the_same_seed_gives_the_same_run():
    """Chance comes from the engine's seed alone."""
    profile = replace(PLAIN, jitter_ratio=0.2, stall_probability=0.1)
    requests = [request(f"r{i}") for i in range(9)]

    assert run(profile, requests) == run(profile, requests)


@pytest.mark.parametrize(
    ("change", "taken", "reason"),
    [
        ({"max_in_flight": 3}, 3, RefusalReason.TOO_MANY_IN_FLIGHT),
        ({"max_queue": 2}, 6, RefusalReason.QUEUE_FULL),
        ({"max_queue": 0}, 4, RefusalReason.QUEUE_FULL),
        ({"rpm": 5}, 5, RefusalReason.RATE_LIMITED),
    ],
    ids=["in flight", "queue of 2", "no queue", "rate"],
)
@pytest.mark.parametrize("started", [False, True], ids=["at once", "one by one"])
def test_limits_refuse_exactly_what_is_beyond_them(change, taken, reason, started):
    """Four slots, ten requests: the first are taken, the rest refused with the reason."""
    engine = Engine(replace(NO_PREFILL, **change))
    refusals = []
    for serial in range(10):
        at_s = serial * 0.0001 if started else 0.0
        refusals.append(engine.submit(request(f"r{serial}", output_tokens=50), at_s).refusal)
        if started:
            engine.advance(at_s)

    assert refusals[:taken] == [None] * taken
    assert {refusal.reason for refusal in refusals[taken:]} == {reason}


@pytest.mark.parametrize(
    ("prompt_tokens", "output_tokens"), [(0, 1), (1, 0), (50, 11)], ids=["empty", "mute", "huge"]
)
def test_a_request_that_can_never_run_is_misuse(prompt_tokens, output_tokens):
    """The HTTP face must have turned it away."""
    with pytest.raises(ValueError, match="r"):
        Engine(TIGHT_KV).submit(request("r", prompt_tokens, output_tokens), 0.0)


@pytest.mark.parametrize(
    "change",
    [
        {"max_num_seqs": 0},
        {"prefill_tokens_per_s": 0.0},
        {"decode_base_s": -0.1},
        {"decode_base_s": math.nan},
        {"stall_probability": 1.5},
        {"rpm": 0},
        {"max_queue": -1},
        {"jitter_ratio": -0.1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_profile_refuses_constants_without_meaning(change):
    """The error names the field."""
    with pytest.raises(ProfileError, match=next(iter(change))):
        replace(PLAIN, **change)


def test_the_null_profile_answers_in_no_time():
    """All tokens carry the instant of arrival."""
    events = run(PROFILES["null"], [request("a", 5000, 200)], at_s=7.0)

    assert {event.at_s for event in events} == {7.0}
