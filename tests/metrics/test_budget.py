"""The budget holds in simulated runs whose reports come late, and is not left unused."""

import heapq
import random
from dataclasses import dataclass, replace
from itertools import count, pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metrics.budget import BudgetWatch, Progress, worst_case
from metrics.prices import Prices

UNIT = Prices(per_m_in=0.0, per_m_out=1e6)  # a completion token costs 1
EVERY_S = 2.0
LIMIT_S = 20_000.0


@dataclass(frozen=True)
class Ran:
    """What a simulated run spent, when its last request ended, and why it stopped."""

    spent: float
    ended_at_s: float
    stop: object


class Simulated:
    """A run under a watch, which is told every 2 s what was so ``late`` reports before.

    ``request`` gives the (seconds, cost) of the next request. A user asks again as soon as an
    answer ends; arrivals of an open loop come once. A stop keeps requests from being begun and
    lets those in flight finish.
    """

    def __init__(self, watch, request, late=0):
        self.watch, self.request, self.late = watch, request, late
        self.events, self.told, self._order = [], [], count()
        self.progress = Progress(elapsed_s=0.0)
        self.stop = None
        self.last_end_s = 0.0

    def closed(self, users_at):
        """Users added at the given instants."""
        for at_s in users_at:
            self._push(at_s, "join")
        return self._run(again=True)

    def open(self, arrivals, rate_at):
        """Arrivals at the given instants; ``rate_at`` tells the rate wanted from then on."""
        for at_s in arrivals:
            self._push(at_s, "begin")
        return self._run(again=False, rate_at=rate_at)

    def _push(self, at_s, kind, *more):
        heapq.heappush(self.events, (at_s, next(self._order), kind, more))

    def _run(self, again, rate_at=None):
        self._push(EVERY_S, "report")
        while self.events:
            at_s, _, kind, more = heapq.heappop(self.events)
            now = self.progress
            if at_s > LIMIT_S or (self.stop and not now.in_flight):
                break
            if kind == "end":
                self._end(at_s, *more)
                kind = "begin" if again else kind
            if kind == "join" and self.stop is None:
                self.progress = replace(now, users=now.users + 1)
                kind = "begin"
            if kind == "begin" and self.stop is None:
                seconds, cost = self.request()
                self.progress = replace(self.progress, in_flight=self.progress.in_flight + 1)
                self._push(at_s + seconds, "end", seconds, cost)
            if kind == "report":
                self._report(at_s, rate_at)
        return Ran(self.progress.spent, self.last_end_s, self.stop)

    def _end(self, at_s, seconds, cost):
        now = self.progress
        self.last_end_s = at_s
        self.progress = replace(
            now,
            spent=now.spent + cost,
            spent_squares=now.spent_squares + cost**2,
            ended=now.ended + 1,
            in_flight=now.in_flight - 1,
            drain_s=max(now.drain_s, seconds),
        )

    def _report(self, at_s, rate_at):
        rate_rps = rate_at(at_s) if rate_at else 0.0
        self.told.append(replace(self.progress, elapsed_s=at_s, rate_rps=rate_rps))
        if self.stop is None and len(self.told) > self.late:
            self.stop = self.watch.observe(self.told[-1 - self.late])
        self._push(at_s + EVERY_S, "report")


def spread(users, seconds):
    """Users who start one after the other over a time."""
    return [seconds * n / users for n in range(users)]


loops = st.fixed_dictionaries(
    {
        "users": st.integers(1, 40),
        "seconds": st.floats(0.3, 60),
        "cost": st.floats(1e-6, 10),
        "over": st.floats(1, 6),  # the worst case, as a multiple of what a request costs
        "in_step": st.booleans(),
        "late": st.integers(0, 1),
        "budgets": st.floats(1, 8),
    }
)


def least_that_is_reported(users, seconds, cost):
    """What is spent before anything of it can be reported and acted on: two intervals."""
    return users * cost * (2 * EVERY_S / seconds + 2)


def closed_run(case, budget):
    """The run of a case, all users from the start or one after the other."""
    watch = BudgetWatch(budget, UNIT, case["cost"] * case["over"])
    run = Simulated(watch, lambda: (case["seconds"], case["cost"]), case["late"])
    ramp_s = 0.0 if case["in_step"] else case["seconds"]
    return run.closed(spread(case["users"], ramp_s))


@settings(max_examples=150, deadline=None)
@given(loops)
def test_a_closed_loop_stays_within_its_budget(case):
    """Any users, latency and cost, in step or not, reports on time or one late."""
    first = least_that_is_reported(case["users"], case["seconds"], case["cost"])
    budget = first * case["budgets"]

    ran = closed_run(case, budget)

    assert ran.stop is not None
    assert ran.spent <= budget * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@example(
    {
        **{"users": 1, "seconds": 1.296875, "cost": 1.0, "over": 1.296875},
        **{"in_step": False, "late": 1, "budgets": 1.0},
    }
)
@given(loops)
def test_a_budget_far_over_what_is_in_flight_is_used(case):
    """20 times what can be spent unseen: over 70 % of it is spent when the run has ended."""
    first = least_that_is_reported(case["users"], case["seconds"], case["cost"])
    budget = first * case["over"] * 20

    ran = closed_run(case, budget)

    assert ran.stop is not None
    assert 0.7 * budget <= ran.spent <= budget * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(
    rate=st.floats(0.2, 10),
    seconds=st.floats(0.3, 20),
    late=st.integers(0, 1),
    poisson=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_an_open_loop_stays_within_its_budget_and_uses_it(rate, seconds, late, poisson, seed):
    """At a constant rate or at random arrivals, whatever is in flight."""
    chance = random.Random(seed)
    budget = 12 * (rate * (seconds + 4 * EVERY_S) + 10)
    arrivals, at_s = [], 0.0
    while len(arrivals) < 2 * budget:
        at_s += chance.expovariate(rate) if poisson else 1 / rate
        arrivals.append(at_s)
    run = Simulated(BudgetWatch(budget, UNIT, 1.0), lambda: (seconds, 1.0), late)

    ran = run.open(arrivals, lambda _: rate)

    assert ran.stop is not None
    assert 0.7 * budget <= ran.spent <= budget


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("budget", [200, 900, 2_000, 6_000])
def test_a_ladder_that_doubles_stays_within_its_budget(budget, late):
    """1 to 64 users, doubled every 10 s, a request of 1.5 s each."""
    joins = [0.0] + [10.0 * n for n in range(1, 7) for _ in range(2 ** (n - 1))]
    run = Simulated(BudgetWatch(budget, UNIT, 3.0), lambda: (1.5, 1.0), late)

    ran = run.closed(joins)

    assert ran.stop is not None
    assert ran.spent <= budget


@pytest.mark.parametrize("seed", range(8))
def test_long_answers_are_what_is_in_flight_when_the_run_stops(seed):
    """One in 20 answers has 2,000 tokens, the others 10, at 100/s: most in flight are long ones."""
    chance = random.Random(seed)

    def request():
        tokens = chance.choices((10, 2_000), (19, 1))[0]
        return tokens / 100, float(tokens)

    budget = 1_000_000.0
    ran = Simulated(BudgetWatch(budget, UNIT, 2_500.0), request, 1).closed(spread(60, 60.0))

    assert ran.stop is not None
    assert 0.7 * budget <= ran.spent <= budget


@pytest.mark.parametrize(("budget", "stopped"), [(1_021.0, False), (1_019.0, True)])
def test_what_follows_a_steady_load_is_its_rate_and_one_for_each_user(budget, stopped):
    """800 spent, 10 in flight, 50/s for 4 s and 10 users: 1,020 in all, with a request at 1."""
    watch = BudgetWatch(budget, UNIT, 1.0)
    for n in range(1, 9):
        ended = 100 * n
        sums = {"spent": float(ended), "spent_squares": float(ended), "ended": ended}
        stop = watch.observe(Progress(elapsed_s=2.0 * n, in_flight=10, users=10, **sums))

    assert stopped == (stop is not None)


def test_users_who_are_about_to_be_added_spend_too():
    """10 users spend 50/s; with 40 wanted, more than twice that is reckoned for what follows."""
    for wanted, stopped in ((10, False), (40, True)):
        watch = BudgetWatch(810.0, UNIT, 1.0)
        for n in range(1, 6):
            ended = 100 * n
            report = Progress(
                elapsed_s=2.0 * n,
                spent=float(ended),
                spent_squares=float(ended),
                ended=ended,
                in_flight=10,
                users=wanted if n == 5 else 10,
            )
            stop = watch.observe(report)

        assert stopped == (stop is not None)


def test_answers_that_come_after_a_flood_of_refusals_are_dear():
    """99 of 100 cost nothing: 40 in flight are reckoned at 10 each, not at 0.1."""
    watch = BudgetWatch(1_000.0, UNIT, 20.0)
    flood = Progress(
        elapsed_s=2.0, spent=600.0, spent_squares=6_000.0, ended=6_000, in_flight=40, users=40
    )

    stop = watch.observe(flood)

    assert stop.in_flight >= 400


@given(
    seconds=st.floats(1, 60),
    hours=st.floats(0.2, 1),
    late=st.integers(0, 1),
    gpus=st.integers(1, 8),
)
@settings(max_examples=40, deadline=None)
def test_gpu_hours_stay_within_the_budget_until_the_last_answer(seconds, hours, late, gpus):
    """The drain is paid for too; over 70 % of the time is used."""
    prices = Prices(gpu_hour=2.0, gpus=gpus)
    budget = 2.0 * gpus * hours
    run = Simulated(BudgetWatch(budget, prices), lambda: (seconds, 0.0), late)

    ran = run.closed(spread(2, 1.0))

    assert ran.stop is not None
    assert 0.7 * budget <= prices.of_gpu_time(ran.ended_at_s) <= budget


def test_a_budget_that_the_first_requests_would_pass_stops_before_them():
    """10 users, up to 4 each, 30 in all: not one is begun; of 50 they may."""
    before = Progress(elapsed_s=0.0, users=10)

    assert BudgetWatch(30.0, UNIT, 4.0).observe(before) is not None
    assert BudgetWatch(50.0, UNIT, 4.0).observe(before) is None


def test_an_order_to_stop_stands_when_a_later_report_looks_better():
    """Requests in flight turn out cheap: the run has stopped all the same."""
    watch = BudgetWatch(30.0, UNIT, 4.0)
    stop = watch.observe(Progress(elapsed_s=2.0, in_flight=8, users=8))

    assert stop is not None
    assert stop is watch.observe(Progress(elapsed_s=4.0, spent=1.0, ended=8))


def test_the_dearer_of_two_ways_of_paying_counts():
    """Tokens are far from the budget and an hour of a GPU is not."""
    prices = replace(UNIT, gpu_hour=10.0)
    cheap = Progress(elapsed_s=3590.0, spent=1.0, spent_squares=1.0, ended=100, drain_s=10.0)

    assert BudgetWatch(10.0, UNIT, 1.0).observe(cheap) is None
    assert BudgetWatch(10.0, prices, 1.0).observe(cheap).spent == pytest.approx(9.97, abs=0.01)


def test_the_sentence_gives_the_sums():
    """5 were begun in 2 s, perhaps 6, so 12 may be in two intervals and 4 at once: 16 at 4 each."""
    watch = BudgetWatch(30.0, UNIT, 4.0)

    stop = watch.observe(Progress(elapsed_s=2.0, spent=2.0, ended=1, in_flight=4, users=4))

    assert stop.sentence() == (
        "stopped for the budget of $30.00: $2.00 spent, up to $16.00 for what is in flight "
        "and $64.00 for what begins before a stop takes hold"
    )


def test_the_worst_case_has_nothing_cached_and_all_tokens():
    """1,000 at 0.50 and 200 at 2.00 per million; no token prices, no worst case."""
    prices = Prices(per_m_in=0.5, per_m_cached=0.1, per_m_out=2.0)

    assert 0.0009 == pytest.approx(worst_case(prices, 1_000, 200))
    assert worst_case(Prices(gpu_hour=1.0), 1_000, 200) is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((0.0, UNIT), "--budget 0"),
        ((float("inf"), UNIT), "--budget inf"),
        ((5.0, Prices()), "--budget 5 without a price"),
        ((5.0, UNIT, 1.0, 0.0), "report interval 0 s"),
    ],
)
def test_a_budget_that_cannot_be_watched_is_refused(arguments, told):
    """The message names the option, its value and what to give."""
    with pytest.raises(ValueError, match=told):
        BudgetWatch(*arguments)


def test_the_simulated_run_is_what_it_says():
    """Without a stop 3 users with requests of 1 s make 3 a second: the check of the checks."""
    run = Simulated(BudgetWatch(1e3, UNIT, 1.0), lambda: (0.99, 1.0))
    run.closed([0.0, 0.0, 0.0])

    while_on = [report for report in run.told if report.in_flight == 3]
    assert {6.0} == {b.spent - a.spent for a, b in pairwise(while_on[:20])}
    assert len(while_on) > 100
