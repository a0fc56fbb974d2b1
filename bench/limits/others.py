"""429s that are no rate limit, and runs in which too little is seen."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.limits.limiters import Bucket, Cap, Chance, Limiter, Quota, Window
from bench.limits.traffic import Traffic, generated
from metrics.limits_attempts import Attempts
from metrics.limits_result import LimiterKind

Draw = Callable[[np.random.Generator], tuple[Traffic, Limiter]]


@dataclass(frozen=True, slots=True)
class Other:
    """A cause that is to be named, or not to be guessed at."""

    name: str
    expected: LimiterKind
    draw: Draw

    def attempts(self, seed: int) -> Attempts:
        """The attempts of one run."""
        traffic, limiter = self.draw(np.random.default_rng((seed, 2)))
        return generated(traffic, limiter, seed)


def full_queue(rng: np.random.Generator) -> tuple[Traffic, Limiter]:
    """A server with slots and a line behind them that is full at times."""
    slots = int(rng.integers(2, 12))
    places = slots + int(rng.integers(slots, 4 * slots))
    answer_s = float(rng.uniform(0.4, 1.5))
    rate_rps = float(rng.uniform(1.2, 2.0)) * slots / answer_s
    return Traffic(run_s=90, rate_rps=rate_rps, answer_s=answer_s, slots=slots), Cap(places)


def cooldown(rng: np.random.Generator) -> tuple[Traffic, Limiter]:
    """A gateway that rests its upstream for a while after three failures in a row."""
    first_s, length_s = float(rng.uniform(5, 20)), float(rng.uniform(5, 30))
    starts = tuple(first_s + n * (length_s + 20.0) for n in range(3))
    users = int(rng.integers(4, 30))
    traffic = Traffic(
        run_s=180, users=users, fail_from_s=starts, cooldown_s=length_s, retry_pause_s=0.5
    )
    return traffic, Cap(10_000)


def quota(rng: np.random.Generator) -> tuple[Traffic, Limiter]:
    """A plan that is used up and stays so."""
    users = int(rng.integers(4, 20))
    return Traffic(run_s=200, users=users, retry_pause_s=2.0), Quota(int(rng.integers(20, 200)))


def by_lot(rng: np.random.Generator) -> tuple[Traffic, Limiter]:
    """A server that refuses a share of all requests, whatever comes."""
    lot = deque(rng.random(9973).tolist())
    share = float(rng.uniform(0.05, 0.5))
    return Traffic(run_s=60, rate_rps=float(rng.uniform(2, 20))), Chance(share, lot)


def few_refusals(rng: np.random.Generator) -> tuple[Traffic, Limiter]:
    """One to nine 429s at the end of a minute."""
    rate_rps = float(rng.uniform(2, 6))
    limit = round(rate_rps * 60 - float(rng.uniform(0, 5)))
    return Traffic(run_s=61, rate_rps=rate_rps), Window(limit, 60, 0, "requests")


def short(rng: np.random.Generator) -> tuple[Traffic, Limiter]:
    """Five seconds of a window of a minute."""
    limit = int(rng.integers(20, 60))
    traffic = Traffic(run_s=5, users=40, retry_pause_s=0.2, answer_s=0.4)
    return traffic, Window(limit, 60, 0, "requests")


def none_refused(rng: np.random.Generator) -> tuple[Traffic, Limiter]:
    """A limit that is never met."""
    return Traffic(run_s=60, rate_rps=float(rng.uniform(1, 5))), Bucket(6000, 50, "requests")


OTHERS = (
    Other("a server whose queue is full", LimiterKind.OVERLOAD, full_queue),
    Other("a gateway's cooldown", LimiterKind.COOLDOWN, cooldown),
    Other("a quota that is used up", LimiterKind.QUOTA, quota),
    Other("429s by lot", LimiterKind.UNKNOWN, by_lot),
    Other("few 429s, or none", LimiterKind.UNKNOWN, few_refusals),
    Other("5 s of a window of 60 s", LimiterKind.UNKNOWN, short),
    Other("no 429", LimiterKind.UNKNOWN, none_refused),
)
