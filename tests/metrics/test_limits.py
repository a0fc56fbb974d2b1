"""The limiter, found from outside: generated limiters of known kind and figure."""

import time
from dataclasses import replace

import numpy as np
import pytest

from bench.limits.both import Both
from bench.limits.kinds import all_kinds
from bench.limits.limiters import Ask, Bucket, Cap, Limiter, SlidingLog, Window
from bench.limits.others import OTHERS
from bench.limits.traffic import Traffic, generated
from metrics.limits import limits_found
from metrics.limits_attempts import Attempts
from metrics.limits_result import Charge, LimiterKind, LimitSource
from simulator import limiter as simulated
from simulator.profile import NULL, LimitKind

OPEN = Traffic(run_s=120, rate_rps=4, answer_s=0.8)
LOOP = Traffic(run_s=120, users=12, answer_s=0.8, retry_pause_s=0.4)
NEW = Traffic(run_s=120, users=12, answer_s=0.8, retry_pause_s=0.4, retries=False)
EACH = pytest.mark.parametrize("traffic", [OPEN, LOOP, NEW], ids=["open", "retries", "new"])


def only(traffic: Traffic, limiter: Limiter, seed: int = 1):
    found = limits_found(generated(traffic, limiter, seed))
    assert len(found) == 1
    return found[0]


@EACH
def test_a_fixed_window_is_found_with_its_length_and_phase(traffic: Traffic) -> None:
    found = only(traffic, Window(20, 10, 3.5, "requests"))
    assert (found.kind, found.window_s, found.figure) == (LimiterKind.REQUESTS_FIXED, 10, 120)
    assert found.phase_s is not None
    off_s = (found.phase_s - 3.5 + 5) % 10 - 5
    # Anywhere between the last refusal and the first that passes is as good.
    assert abs(off_s) < 0.5


@EACH
def test_a_window_of_a_minute_is_found_in_three(traffic: Traffic) -> None:
    found = only(replace(traffic, run_s=200), Window(100, 60, 20, "requests"), 2)
    assert (found.kind, found.window_s, found.figure) == (LimiterKind.REQUESTS_FIXED, 60, 100)


@EACH
def test_a_sliding_window_is_not_taken_for_a_fixed_one(traffic: Traffic) -> None:
    found = only(traffic, SlidingLog(20, 10, "requests"))
    assert (found.kind, found.window_s, found.figure) == (LimiterKind.REQUESTS_SLIDING, 10, 120)


@EACH
@pytest.mark.parametrize("burst", [1, 6, 25])
def test_a_bucket_is_found_with_its_rate_and_its_burst(traffic: Traffic, burst: int) -> None:
    found = only(traffic, Bucket(100, burst, "requests"))
    assert found.kind is LimiterKind.REQUESTS_BUCKET
    assert found.figure == pytest.approx(100, rel=0.02)
    assert found.burst == pytest.approx(burst, abs=1)


@EACH
def test_tokens_are_charged_by_what_was_asked_for(traffic: Traffic) -> None:
    found = only(traffic, Window(10_000, 10, 3.5, "asked"))
    assert (found.kind, found.charge) == (LimiterKind.TOKENS_FIXED, Charge.ASKED)
    assert found.figure == pytest.approx(60_000, rel=0.03)


@EACH
def test_tokens_are_charged_afterwards_by_what_was_used(traffic: Traffic) -> None:
    found = only(traffic, Bucket(50_000, 5_000, "used"))
    assert (found.kind, found.charge) == (LimiterKind.TOKENS_BUCKET, Charge.USED)
    assert found.figure == pytest.approx(50_000, rel=0.03)


@EACH
def test_a_cap_on_requests_at_once_is_exact(traffic: Traffic) -> None:
    found = only(traffic, Cap(3))
    assert (found.kind, found.figure) == (LimiterKind.CONCURRENCY, 3)


def test_the_true_figure_lies_in_the_interval_and_it_is_narrow() -> None:
    found = only(OPEN, Bucket(100, 6, "requests"))
    assert found.low is not None
    assert found.high is not None
    assert 0.995 * found.low <= 100 <= 1.005 * found.high
    assert found.high - found.low < 10


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: f"{kind.name}-{kind.loop}")
def test_random_limiters_are_named_rightly_or_not_at_all(kind) -> None:
    world = kind.world(40, attempts_max=1500)
    found = limits_found(world.attempts(40))[0]
    if found.figure is not None:
        assert found.kind.quantity == world.quantity, found.evidence
        assert found.figure == pytest.approx(world.figure, rel=0.1), found.evidence


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.name)
def test_what_is_no_rate_limit_is_named_or_left_unknown(other) -> None:
    for seed in (50, 51):
        found = limits_found(other.attempts(seed))[0]
        assert found.kind is other.expected, found.evidence
        if other.expected is LimiterKind.UNKNOWN:
            assert found.figure is None


def test_a_cooldown_has_the_length_of_its_spans() -> None:
    traffic = Traffic(
        run_s=150, users=10, fail_from_s=(10, 60, 110), cooldown_s=20, retry_pause_s=0.5
    )
    found = only(traffic, Cap(1000))
    assert found.kind is LimiterKind.COOLDOWN
    assert found.window_s == pytest.approx(20, abs=1)


def resting(slow_s: float) -> Attempts:
    """Nothing passes: twice three failures and then 429s for 5 s, all told ``slow_s`` late."""
    sent_s = np.arange(0.0, 12.0, 0.25)
    failed = np.isin(sent_s % 6.0, (0.0, 0.25, 0.5))
    return Attempts(
        sent_s=sent_s,
        ended_s=np.maximum(sent_s, sent_s // 6.0 * 6.0 + slow_s) + 0.05,
        accepted=np.zeros(sent_s.size, dtype=np.bool_),
        limited=~failed,
        retry_after_s=np.where(failed, np.nan, 5.0),
    )


@pytest.mark.parametrize("slow_s", [0.0, 4.0])
def test_a_cooldown_is_told_where_nothing_ever_passed(slow_s: float) -> None:
    found = limits_found(resting(slow_s))[0]
    assert found.kind is LimiterKind.COOLDOWN, found.evidence
    assert "2 spans" in found.evidence


def test_429s_alone_are_no_cooldown() -> None:
    rest = resting(0.0)
    ended_s = np.where(rest.limited, rest.ended_s, np.nan)
    found = limits_found(replace(rest, ended_s=ended_s))[0]
    assert found.kind is LimiterKind.UNKNOWN
    assert "none was accepted" in found.evidence


def test_requests_that_all_cost_the_same_leave_requests_or_tokens_open() -> None:
    same = Traffic(run_s=120, rate_rps=4, answer_s=0.8, spread=0.0, max_tokens=200)
    found = only(same, Window(20, 10, 3.5, "requests"))
    assert found.kind is LimiterKind.UNKNOWN
    assert "requests a minute" in found.evidence
    assert "tokens a minute" in found.evidence
    assert "requests that differ more in length would tell" in found.evidence


def test_two_limits_are_told_apart() -> None:
    both = Both(Window(20_000, 10, 2, "asked"), Cap(6))
    found = limits_found(generated(Traffic(run_s=120, rate_rps=4, answer_s=1.3), both, 0))
    figures = {one.kind: one.figure for one in found}
    assert set(figures) == {LimiterKind.CONCURRENCY, LimiterKind.TOKENS_FIXED}
    assert figures[LimiterKind.CONCURRENCY] == 6
    assert figures[LimiterKind.TOKENS_FIXED] == pytest.approx(120_000, rel=0.03)


def test_a_second_limit_behind_a_few_of_the_429s_is_found() -> None:
    both = Both(Window(20, 10, 3, "requests"), Bucket(62_000, 8_000, "asked"))
    found = limits_found(generated(Traffic(run_s=120, rate_rps=4, answer_s=1.3), both, 3))
    figures = {one.kind: one.figure for one in found}
    assert set(figures) == {LimiterKind.REQUESTS_FIXED, LimiterKind.TOKENS_BUCKET}
    assert figures[LimiterKind.REQUESTS_FIXED] == 120
    assert figures[LimiterKind.TOKENS_BUCKET] == pytest.approx(62_000, rel=0.03)


class Simulated:
    """The embedded endpoint's own limits, which the estimator has never seen."""

    def __init__(self, **settings: object) -> None:
        self.limiter = simulated.Limiter(replace(NULL, **settings))

    def admit(self, ask: Ask, now_s: float) -> bool:
        tokens = ask.prompt_tokens + ask.asked_max_tokens
        return self.limiter.admit(tokens, now_s) is None

    def ended(self, ask: Ask, now_s: float) -> None:
        pass


@EACH
@pytest.mark.parametrize(
    ("settings", "quantity", "figure"),
    [
        ({"rpm": 100, "limit_kind": LimitKind.BUCKET, "limit_span_s": 5.0}, "requests", 100),
        ({"rpm": 90, "limit_kind": LimitKind.WINDOW, "limit_span_s": 20.0}, "requests", 90),
        ({"tpm": 50_000, "limit_kind": LimitKind.BUCKET, "limit_span_s": 10.0}, "tokens", 50_000),
        ({"tpm": 60_000, "limit_kind": LimitKind.WINDOW, "limit_span_s": 20.0}, "tokens", 60_000),
    ],
    ids=["rpm bucket", "rpm window", "tpm bucket", "tpm window"],
)
def test_the_simulators_limits_are_found(
    traffic: Traffic, settings: dict[str, object], quantity: str, figure: float
) -> None:
    found = only(traffic, Simulated(**settings), 3)
    assert found.kind.quantity == quantity, found.evidence
    assert found.figure == pytest.approx(figure, rel=0.05)
    assert found.source is LimitSource.TRAFFIC


@pytest.mark.alone
def test_fifty_thousand_attempts_take_less_than_two_seconds() -> None:
    traffic = Traffic(run_s=280, rate_rps=180, answer_s=0.8)
    attempts = generated(traffic, Window(6000, 60, 20, "requests"), 1)
    assert len(attempts) > 49_000
    began_s = time.process_time()
    found = limits_found(attempts)
    assert time.process_time() - began_s < 2
    assert found[0].figure == pytest.approx(6000, rel=0.01)


def test_the_order_of_the_rows_and_the_clocks_zero_change_nothing() -> None:
    attempts = generated(OPEN, Window(20, 10, 3.5, "requests"), 1)
    rows = np.random.default_rng(1).permutation(len(attempts))
    moved = type(attempts)(
        sent_s=attempts.sent_s[rows] + 7_000,
        ended_s=attempts.ended_s[rows] + 7_000,
        accepted=attempts.accepted[rows],
        limited=attempts.limited[rows],
    )
    found, again = limits_found(attempts)[0], limits_found(moved)[0]
    assert (again.kind, again.figure, again.window_s) == (found.kind, found.figure, found.window_s)
