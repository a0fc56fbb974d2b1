"""One schedule for the whole fleet: its rate, its spread, and the workers' shares of it."""

import itertools
import random
import statistics
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.arrivals import Sharing, count_share, parse_arrivals, share_of

KINDS = st.sampled_from(["poisson", "constant", "gamma:0.5", "gamma:3"])


def times_of(text, rate_rps, n, seed=1):
    return list(islice(parse_arrivals(text).schedule_s(rate_rps, random.Random(seed)), n))


@given(text=KINDS, rate_rps=st.floats(0.1, 1e4), workers=st.integers(1, 9), seed=st.integers())
def test_the_shares_of_all_workers_are_the_schedule(text, rate_rps, workers, seed):
    """Each arrival belongs to exactly one worker, with the same time there as in the whole."""
    process = parse_arrivals(text)
    whole = list(islice(process.schedule_s(rate_rps, random.Random(seed)), 50))
    shares = []
    for worker in range(workers):
        schedule_s = islice(process.schedule_s(rate_rps, random.Random(seed)), 50)
        shares.append(list(share_of(schedule_s, 0, [Sharing(0, 0.0, worker, workers)])))

    together = sorted(itertools.chain(*shares), key=lambda arrival: arrival.number)
    assert list(enumerate(whole)) == [(a.number, a.due_s) for a in together]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 3), st.floats(0, 6), st.sets(st.sampled_from("abcd"), min_size=1)),
        max_size=6,
    ),
    seed=st.integers(),
)
def test_each_arrival_has_one_sender_whoever_comes_and_goes(changes, seed):
    """Who shares changes at instants that all know: in each of four stages every arrival is sent
    once, by one of those that share when it is due."""
    fleets = [(-1, 0.0, {"a", "b", "c"}), *sorted(changes, key=lambda change: change[:2])]
    for stage in range(4):
        whole = times_of("poisson", 8.0, 50, seed)
        sent = {}
        for worker in "abcd":
            sharings = [
                Sharing(
                    number,
                    from_s,
                    sorted(fleet).index(worker) if worker in fleet else None,
                    len(fleet),
                )
                for number, from_s, fleet in fleets
            ]
            for arrival in share_of(iter(whole), stage, sharings):
                assert arrival.number not in sent
                sent[arrival.number] = worker
                assert whole[arrival.number] == arrival.due_s
        assert list(range(50)) == sorted(sent)
        for number, worker in sent.items():
            begun = [f for s, from_s, f in fleets if (s, from_s) <= (stage, whole[number])]
            assert worker in begun[-1]


def test_a_share_that_is_over_ends():
    """Who has no share any more does not look through a schedule without end."""
    endless_s = parse_arrivals("constant").schedule_s(4.0, random.Random(1))
    left = [Sharing(0, 0.0, 1, 2), Sharing(0, 1.0, None, 1), Sharing(1, 0.0, 0, 2)]

    assert [1, 3] == [arrival.number for arrival in share_of(endless_s, 0, left)]


@given(text=KINDS, rate_rps=st.floats(0.1, 1e4), seed=st.integers())
def test_times_never_go_back(text, rate_rps, seed):
    """Arrivals come in order, from 0 on."""
    times = times_of(text, rate_rps, 200, seed)

    assert times[0] >= 0
    assert all(a <= b for a, b in pairwise(times))


@given(rate_rps=st.floats(0.1, 1e4), number=st.integers(0, 100_000))
def test_a_constant_rate_is_exact_however_long_it_lasts(rate_rps, number):
    """Arrival k is due at k / rate: no rounding adds up."""
    schedule_s = parse_arrivals("constant").schedule_s(rate_rps, random.Random(0))

    assert number / rate_rps == next(islice(schedule_s, number, None))


@pytest.mark.parametrize(
    ("text", "cv"), [("poisson", 1.0), ("gamma:0.5", 0.5), ("gamma:2", 2.0), ("constant", 0.0)]
)
def test_rate_and_spread_are_those_asked_for(text, cv):
    """20,000 arrivals at 5/s: the rate within 5 %, the gaps' CV within 6 %."""
    gaps = [b - a for a, b in pairwise(times_of(text, 5.0, 20_000))]

    assert pytest.approx(1 / 5.0, rel=0.05) == statistics.mean(gaps)
    assert pytest.approx(cv, rel=0.06, abs=1e-9) == statistics.pstdev(gaps) / statistics.mean(gaps)


def test_the_same_chance_gives_the_same_schedule():
    """It follows from the source of chance alone, and another one gives another."""
    assert times_of("poisson", 3, 20, seed=7) == times_of("poisson", 3, 20, seed=7)
    assert times_of("poisson", 3, 20, seed=7) != times_of("poisson", 3, 20, seed=8)


@given(total=st.integers(0, 1000), workers=st.integers(1, 20))
def test_counts_are_shared_without_loss(total, workers):
    """Equal shares that differ by one at most and add up."""
    shares = [count_share(total, worker, workers) for worker in range(workers)]

    assert total == sum(shares)
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    "text", ["", "uniform", "poisson:2", "gamma", "gamma:", "gamma:0", "gamma:-1", "gamma:99", "1"]
)
def test_a_wrong_way_of_arriving_is_refused_with_what_to_write(text):
    """The message shows the value and what is possible."""
    with pytest.raises(ValueError, match="write") as raised:
        parse_arrivals(text)

    assert repr(text) in str(raised.value)


@pytest.mark.parametrize("text", ["poisson", "constant", "gamma:2.5"])
def test_what_is_read_is_what_is_told(text):
    """It describes itself as it was written."""
    assert text == parse_arrivals(text).describe()


LENGTHS = st.lists(st.integers(1, 5000), min_size=1, max_size=60)


def token_times_of(text, tokens_per_s, tokens, seed=1):
    process = parse_arrivals(text)
    return list(process.token_schedule_s(tokens_per_s, iter(tokens), random.Random(seed)))


@given(
    text=KINDS,
    tokens=LENGTHS,
    tokens_per_s=st.floats(0.1, 1e6),
    workers=st.integers(1, 9),
    seed=st.integers(),
)
def test_the_shares_of_a_token_schedule_are_the_schedule(text, tokens, tokens_per_s, workers, seed):
    """Paced by tokens, too, each arrival belongs to one worker and has the same time there."""
    whole = token_times_of(text, tokens_per_s, tokens, seed)
    shares = [
        list(
            share_of(
                iter(token_times_of(text, tokens_per_s, tokens, seed)),
                0,
                [Sharing(0, 0.0, worker, workers)],
            )
        )
        for worker in range(workers)
    ]

    together = sorted(itertools.chain(*shares), key=lambda arrival: arrival.number)
    assert list(enumerate(whole)) == [(a.number, a.due_s) for a in together]


@given(tokens=LENGTHS, tokens_per_s=st.floats(0.1, 1e6))
def test_a_constant_pace_of_tokens_is_exact(tokens, tokens_per_s):
    """Each arrival is due when the tokens of all before it have lasted, without rounding."""
    expected = [sum(tokens[:place]) / tokens_per_s for place in range(len(tokens))]

    assert expected == token_times_of("constant", tokens_per_s, tokens)


@pytest.mark.parametrize("text", ["poisson", "constant", "gamma:0.5", "gamma:2"])
@pytest.mark.parametrize("seed", range(3))
def test_the_tokens_per_minute_are_those_asked_for(text, seed):
    """90,000 tokens/min of very unequal requests: within 2 % over a long window."""
    rng = random.Random(seed)
    tokens = [max(1, round(rng.lognormvariate(5.0, 0.8))) for _ in range(60_000)]
    times = token_times_of(text, 1500.0, tokens, seed)

    minutes = (times[-1] - times[0]) / 60
    assert pytest.approx(90_000, rel=0.02) == sum(tokens[:-1]) / minutes


def test_tokens_are_looked_at_no_further_than_needed():
    """A schedule has no end: the tokens of an arrival are drawn once the one after it is wanted."""
    drawn = []
    tokens = (drawn.append(number) or 10 for number in itertools.count())
    schedule_s = parse_arrivals("constant").token_schedule_s(10.0, tokens, random.Random(0))

    assert [0.0, 1.0, 2.0] == list(islice(schedule_s, 3))
    assert [0, 1, 2] == drawn


@pytest.mark.parametrize("tokens_per_s", [0.0, -1.0, float("inf"), float("nan")])
def test_a_pace_of_no_tokens_is_refused(tokens_per_s):
    """The value is in the message."""
    with pytest.raises(ValueError, match="tokens/s: the rate is over 0"):
        parse_arrivals("poisson").token_schedule_s(tokens_per_s, iter([1]), random.Random(0))
