"""Closed-loop users in simulated time: their books, and the truth beside them."""

from __future__ import annotations

import ast
import math
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from simulator import closed_loop, engine, step_time, waiting, workload
from simulator.closed_loop import ClientRequest, ClosedLoop, Level, LevelResult, RequestOutcome
from simulator.profile import PROFILES, Buffering, LimitKind, Profile
from simulator.workload import Workload

PLAIN = Profile(
    name="plain",
    max_num_seqs=4,
    prefill_tokens_per_s=math.inf,
    decode_base_s=0.1,
    decode_per_seq_s=0.0,
    kv_tokens=1_000_000,
    max_model_len_tokens=10_000,
    prefix_cache=False,
)
EXACT = Workload(prompt_cv=0.0, output_tokens=10, output_cv=0.0, rtt_s=0.02)


def run(profile: Profile, users: int, successes: int, work: Workload = EXACT, **level):
    return ClosedLoop(profile, work, seed=1).run_level(Level(users, successes, **level))


def settled(result: LevelResult) -> list[ClientRequest]:
    """Successes that were neither warm-up nor sent before."""
    return [
        request
        for request in result.requests
        if request.outcome is RequestOutcome.OK
        and request.turn > 0
        and request.sent_s >= result.started_s
    ]


def mean(values) -> float:
    values = list(values)
    return math.fsum(values) / len(values)


def test_a_lone_user_sees_steps_and_the_network():
    """Ten steps of 0.1 s and 20 ms of network: first token at 0.12, answer at 1.02."""
    first, *_ = run(PLAIN, users=1, successes=3).requests

    assert (first.user, first.turn, first.sent_s, first.tokens) == (0, 0, 0.0, 10)
    assert first.ttft_s == pytest.approx(0.12)
    assert first.latency_s == pytest.approx(1.02)
    assert first.tpot_s == pytest.approx(0.1)
    assert (first.held_s, first.front_s) == (0.0, 0.0)


def test_an_answer_of_one_token_has_no_time_per_token():
    """There is no second token to count to."""
    result = run(PLAIN, 1, 2, replace(EXACT, output_tokens=1))

    assert [request.tpot_s for request in result.requests] == [None, None]


def test_users_have_one_request_at_a_time_and_think_between():
    """Each next request of a user is sent exactly its think time after the last answer."""
    result = run(PLAIN, 3, 30, replace(EXACT, think_s=0.5, think_cv=0.0))

    for user in range(3):
        own = [request for request in result.requests if request.user == user]
        assert [request.turn for request in own] == list(range(len(own)))
        for before, after in pairwise(own):
            assert after.sent_s == pytest.approx(before.sent_s + before.latency_s + 0.5)


@pytest.mark.parametrize(("users", "running", "waiting"), [(3, 3, 0), (4, 4, 0), (9, 4, 5)])
def test_the_truth_is_the_occupation_of_slots_and_queue(users, running, waiting):
    """Four slots: as many run as there are users, at most four, and the others wait."""
    work = Workload(output_tokens=20, output_cv=0.5, rtt_s=0.0)
    loop = ClosedLoop(PLAIN, work, seed=1)
    loop.run_level(Level(users, 4 * users))
    result = loop.run_level(Level(users, 100 * users))

    # A user who asks again joins one step later: one of twenty-one steps of its cycle.
    assert result.mean_running == pytest.approx(min(running, users * 20 / 21), rel=0.02)
    assert result.mean_running + result.mean_waiting == pytest.approx(users)
    assert (result.queued_ratio > 0.5) is (waiting > 0)
    assert (result.queue_began_s is None) is (waiting == 0)
    assert (max(request.held_s for request in result.requests) > 0) is (waiting > 0)


def test_little_s_law_holds_between_what_users_saw_and_the_server_had():
    """Users times time is the sum of all their cycles, within the requests cut at the ends."""
    work = Workload(output_tokens=32, think_s=0.3)
    loop = ClosedLoop(PROFILES["slots-8"], work, seed=3)
    loop.run_level(Level(20, 100))
    result = loop.run_level(Level(20, 4000))
    seconds = result.ended_s - result.started_s
    cycle_s = mean(request.latency_s for request in settled(result)) + work.think_s

    assert len(result.requests) / seconds * cycle_s == pytest.approx(20, rel=0.02)
    in_server = mean(request.latency_s for request in settled(result)) - work.rtt_s
    assert result.mean_running + result.mean_waiting == pytest.approx(
        len(result.requests) / seconds * in_server, rel=0.02
    )


def test_levels_follow_each_other_in_one_world():
    """Users that stay go on, those that leave finish, and every request is in the books once."""
    loop = ClosedLoop(PLAIN, Workload(output_tokens=20, rtt_s=0.0), seed=1)
    results = loop.run_levels([Level(8, 24), Level(2, 9), Level(5, 20)])

    for before, after in pairwise(results):
        assert after.started_s == before.ended_s
        # All had a request under way but those who got their answer at that very moment.
        ended = [r for r in before.requests if r.sent_s + r.latency_s >= before.ended_s]
        carried = [r for r in after.requests if r.sent_s < after.started_s]
        assert len(carried) == before.level.users - len(ended)
    assert [result.successes for result in results] == [24, 9, 20]
    assert {r.user for r in results[1].requests if r.sent_s >= results[1].started_s} == {0, 1}
    assert {r.user for r in results[2].requests} == set(range(5))
    for user in range(8):
        own = [r for result in results for r in result.requests if r.user == user]
        for before, after in pairwise(own):
            assert after.sent_s >= before.sent_s + before.latency_s - 1e-9


def test_a_user_that_thinks_when_it_is_removed_does_not_ask_again():
    """And one that is added again asks at once, once."""
    work = replace(EXACT, think_s=5.0, think_cv=0.0)
    loop = ClosedLoop(PLAIN, work, seed=1)
    loop.run_level(Level(2, 2))
    alone = loop.run_level(Level(1, 2))
    back = loop.run_level(Level(2, 2))

    assert {request.user for request in alone.requests} == {0}
    asked = [request for request in back.requests if request.user == 1]
    assert asked[0].sent_s == back.started_s


def test_a_request_on_its_way_when_its_user_leaves_is_still_answered():
    """Sent at 0 over half a second of network, while the level ends after a quarter."""
    loop = ClosedLoop(PLAIN, replace(EXACT, rtt_s=1.0), seed=1)
    loop.run_level(Level(2, 2, longest_s=0.25))
    after = loop.run_level(Level(1, 3))

    assert [(r.sent_s, r.turn, r.tokens) for r in after.requests if r.user == 1] == [(0.0, 0, 10)]


def test_joining_users_are_spread_over_the_ramp():
    """Four over two seconds: one every half second."""
    result = run(PLAIN, 4, 12, ramp_s=2.0)
    first_sent_s = {r.user: r.sent_s for r in result.requests if r.turn == 0}

    assert [first_sent_s[user] for user in range(4)] == pytest.approx([0.0, 0.5, 1.0, 1.5])


def test_a_level_ends_at_its_time_or_number_of_requests_too():
    """Whichever comes first."""
    by_time = run(PLAIN, 2, 1000, longest_s=7.25)
    by_number = run(PLAIN, 1, 1000, most_requests=5)

    assert by_time.ended_s == 7.25
    assert by_time.successes < 1000
    assert len(by_number.requests) == 5


def test_the_same_seed_gives_the_same_world_and_another_one_another():
    """All chance comes from the seed."""
    profile = PROFILES["noisy"]
    runs = [ClosedLoop(profile, Workload(), seed).run_level(Level(9, 200)) for seed in (1, 1, 2)]

    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_draws_have_the_mean_and_spread_that_were_asked():
    """Lengths of 100 +- 50 and thinking of 2 s +- 2 s, within a few standard errors."""
    work = Workload(output_tokens=100, output_cv=0.5, think_s=2.0, think_cv=1.0)
    result = ClosedLoop(PROFILES["soft"], work, 5).run_level(Level(50, 6000))
    lengths = [request.output_tokens for request in result.requests]
    average = mean(lengths)
    spread = math.sqrt(mean((length - average) ** 2 for length in lengths)) / average
    by_user: dict[int, list[ClientRequest]] = {}
    for request in result.requests:
        by_user.setdefault(request.user, []).append(request)
    thinks_s = [
        after.sent_s - before.sent_s - before.latency_s
        for own in by_user.values()
        for before, after in pairwise(own)
    ]

    assert average == pytest.approx(100, rel=0.04)
    assert spread == pytest.approx(0.5, rel=0.08)
    assert mean(thinks_s) == pytest.approx(2.0, rel=0.08)


def test_requests_always_fit_the_context():
    """However long the draw."""
    profile = replace(PLAIN, kv_tokens=60, max_model_len_tokens=60)
    result = run(profile, 2, 200, Workload(prompt_tokens=50, prompt_cv=1, output_cv=1))

    assert max(r.prompt_tokens + r.output_tokens for r in result.requests) == 60
    assert all(r.tokens == r.output_tokens >= 1 for r in result.requests)


def test_a_rate_limit_gives_429s_and_its_rate():
    """A window of 10 every 5 s: never more than 10 accepted in one, and users back off."""
    profile = replace(PLAIN, rpm=120, limit_kind=LimitKind.WINDOW, limit_span_s=5.0)
    result = run(profile, 8, 100)
    refused = [r for r in result.requests if r.outcome is RequestOutcome.RATE_LIMITED]
    accepted_s = [r.sent_s for r in result.requests if r.outcome is RequestOutcome.OK]

    assert len(result.requests) == 100 + len(refused)
    assert result.successes == 100
    windows = [int((sent_s + 1e-6) // 5.0) for sent_s in accepted_s]
    assert max(windows.count(window) for window in windows) == 10
    assert {round(r.latency_s, 9) for r in refused} == {0.02}
    assert {(r.ttft_s, r.tpot_s, r.tokens) for r in refused} == {(None, None, 0)}


def test_a_full_queue_gives_503s():
    """Four slots and room for two: eight users, and never more than six in the server."""
    result = run(replace(PLAIN, max_queue=2), 8, 60)

    outcomes = {request.outcome for request in result.requests}
    assert outcomes == {RequestOutcome.OK, RequestOutcome.QUEUE_FULL}
    assert result.mean_running + result.mean_waiting <= 6


def test_a_cap_on_requests_in_flight_gives_429s_and_no_queue():
    """Three at a time on four slots."""
    result = run(replace(PLAIN, max_in_flight=3), 8, 60)

    assert result.queue_began_s is None
    assert result.mean_running + result.mean_waiting <= 3
    assert {r.outcome for r in result.requests} == {RequestOutcome.OK, RequestOutcome.RATE_LIMITED}


def test_a_refused_user_waits_its_backoff_and_its_think_time():
    """2 s and 1 s after it was told."""
    work = replace(EXACT, think_s=1.0, think_cv=0.0, backoff_s=2.0)
    result = run(replace(PLAIN, max_in_flight=1), 2, 10, work)
    own = [request for request in result.requests if request.user == 1]
    refused = next(place for place, r in enumerate(own) if r.outcome is not RequestOutcome.OK)

    told_s = own[refused].sent_s + own[refused].latency_s
    assert own[refused + 1].sent_s == pytest.approx(told_s + 3.0)


def test_a_front_queues_unseen_by_the_engine():
    """Two front slots on four: the engine has no queue, the requests say where they waited."""
    result = run(replace(PLAIN, front_slots=2), 6, 60)

    assert result.queue_began_s is None
    assert result.queued_ratio == 0
    assert result.mean_front == pytest.approx(4, rel=0.1)
    assert mean(r.front_s for r in settled(result)) > 1.0
    assert {r.held_s for r in settled(result)} == {0.0}


@pytest.mark.parametrize("buffering", [Buffering.ANSWER, Buffering.ROLE_FIRST])
def test_behind_a_buffering_front_the_first_token_is_the_last(buffering):
    """No time is left between tokens."""
    result = run(replace(PLAIN, buffering=buffering), 2, 6)

    assert all(r.ttft_s == pytest.approx(r.latency_s) for r in result.requests)
    assert all(r.tpot_s == pytest.approx(0.0) for r in result.requests)


def test_shared_prefixes_are_found_in_the_cache():
    """With a prefix of 160 of 200 tokens, most prompts need a fifth of their prefill."""
    profile = replace(PLAIN, decode_base_s=0.0, prefill_tokens_per_s=1000.0, prefix_cache=True)
    work = replace(EXACT, prefixes=2, prefix_tokens=160)
    cold, warm = (mean(r.latency_s for r in run(profile, 1, 50, w).requests) for w in (EXACT, work))

    assert cold == pytest.approx(0.02 + 0.2)
    assert warm == pytest.approx((48 * 0.06 + 2 * 0.22) / 50)  # two prefixes were new once


def test_preemptions_are_counted_for_the_level_in_which_they_were():
    """Memory for two and a half: some with four users, none with one after them."""
    profile = replace(PLAIN, kv_tokens=260)
    loop = ClosedLoop(profile, replace(EXACT, prompt_tokens=50, output_tokens=60), seed=1)
    full, _, alone = loop.run_levels([Level(4, 20), Level(0, 1, longest_s=99), Level(1, 5)])

    assert full.preemptions > 0
    assert alone.preemptions == 0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Level(-1, 5), "users"),
        (lambda: Level(1, 0), "successes"),
        (lambda: Level(0, 5), "longest_s"),
        (lambda: Workload(output_tokens=0), "output_tokens is 0"),
        (lambda: Workload(backoff_s=0), "backoff_s is 0"),
        (lambda: Workload(think_s=-1), "think_s is -1"),
        (lambda: Workload(rtt_s=math.nan), "rtt_s is nan"),
    ],
)
def test_a_level_or_workload_without_meaning_is_refused(make, says):
    """The error names the value."""
    with pytest.raises(ValueError, match=says):
        make()


def test_fifty_thousand_requests_take_less_than_a_minute_of_cpu():
    """3,000 of them in 3.6 s at most; it takes about a tenth of that."""
    started_s = time.process_time()
    result = run(PROFILES["slots-48"], 72, 3000, Workload(output_tokens=50))

    assert len(result.requests) == 3000
    assert time.process_time() - started_s < 3.6


def test_the_model_knows_no_clock_and_no_socket():
    """What it imports is named here; chance is seeded, time is handed in."""
    pure = {"collections", "dataclasses", "enum", "functools", "heapq", "math", "random"}
    for module in (closed_loop, engine, step_time, waiting, workload):
        assert module.__file__ is not None
        tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
        names = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        outside = {name for name in names if name and not name.startswith("simulator.")}
        assert outside - {"__future__", "collections.abc"} <= pure
