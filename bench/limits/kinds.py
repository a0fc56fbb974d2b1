"""The kinds of limiters of the accuracy table, each with random figures and traffic."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bench.limits.limiters import Bucket, Cap, Limiter, OpenedWindow, SlidingLog, Window
from bench.limits.traffic import Traffic, generated
from metrics.limits_attempts import Attempts

ATTEMPTS_MAX = 30_000
"""Runs of more than about so many attempts are drawn again, to keep the bench short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One limiter of known figure, its traffic, and what is to be found."""

    quantity: str
    """requests, tokens or concurrency."""
    figure: float
    """Units per minute, or at once."""
    limiter: Callable[[], Limiter]
    traffic: Traffic

    def attempts(self, seed: int) -> Attempts:
        """The attempts of one run."""
        return generated(self.traffic, self.limiter(), seed)


Make = Callable[[np.random.Generator, str], World]


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table."""

    name: str
    make: Make
    loop: str

    def world(self, seed: int, attempts_max: int = ATTEMPTS_MAX) -> World:
        """A random world of the kind, with about so many attempts at most."""
        rng = np.random.default_rng((seed, 1))
        while True:
            world = self.make(rng, self.loop)
            if _attempts_about(world.traffic) <= attempts_max:
                return world


def _attempts_about(traffic: Traffic) -> float:
    if not traffic.users:
        return traffic.rate_rps * traffic.run_s
    cycle_s = (traffic.retry_pause_s + traffic.answer_s) / 2
    return traffic.users * traffic.run_s / cycle_s


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _traffic(
    rng: np.random.Generator, loop: str, passing_rps: float, run_s: float, base: Traffic
) -> Traffic:
    """1.2 to 3 times what the limiter lets through."""
    over = float(rng.uniform(1.2, 3.0))
    if loop == "open":
        return replace(base, run_s=run_s, rate_rps=over * passing_rps)
    users = max(2, round(over * passing_rps * base.answer_s) + 1)
    pause_s = float(rng.uniform(0.1, 1.0)) * max(1.0, users / 100)
    return replace(base, run_s=run_s, users=users, retries=loop == "retry", retry_pause_s=pause_s)


def _base(rng: np.random.Generator) -> Traffic:
    return Traffic(
        run_s=0,
        answer_s=_between(rng, 0.3, 3.0),
        one_way_s=float(rng.uniform(0.002, 0.04)),
        jitter_s=float(rng.uniform(0.0005, 0.004)),
        spread=float(rng.uniform(0.3, 0.9)),
        max_tokens=int(rng.choice([0, 256, 1024])) or None,
    )


def _window_s(rng: np.random.Generator, per_minute: float) -> float:
    fits = [w for w in (1.0, 10.0, 30.0, 60.0) if per_minute * w / 60 >= 3]
    return float(rng.choice(fits))


def _run_s(rng: np.random.Generator, window_s: float) -> float:
    return max(30.0, window_s * float(rng.uniform(3, 5)))


def requests_fixed(rng: np.random.Generator, loop: str) -> World:
    """A counter cleared every 1 to 60 s."""
    rpm = _between(rng, 60, 6000)
    window_s = _window_s(rng, rpm)
    limit = max(1, round(rpm * window_s / 60))
    rpm, phase_s = limit * 60 / window_s, float(rng.uniform(0, window_s))
    traffic = _traffic(rng, loop, rpm / 60, _run_s(rng, window_s), _base(rng))
    make = lambda: Window(limit, window_s, phase_s, "requests")  # noqa: E731
    return World(quantity="requests", figure=rpm, limiter=make, traffic=traffic)


def requests_opened(rng: np.random.Generator, loop: str) -> World:
    """A counter whose window is opened by its first request."""
    rpm = _between(rng, 60, 6000)
    window_s = _window_s(rng, rpm)
    limit = max(1, round(rpm * window_s / 60))
    traffic = _traffic(rng, loop, rpm / 60, _run_s(rng, window_s), _base(rng))
    make = lambda: OpenedWindow(limit, window_s, "requests")  # noqa: E731
    figure = limit * 60 / window_s
    return World(quantity="requests", figure=figure, limiter=make, traffic=traffic)


def requests_sliding(rng: np.random.Generator, loop: str) -> World:
    """A log of the last 1 to 60 s."""
    rpm = _between(rng, 60, 6000)
    window_s = _window_s(rng, rpm)
    limit = max(1, round(rpm * window_s / 60))
    traffic = _traffic(rng, loop, rpm / 60, _run_s(rng, window_s), _base(rng))
    make = lambda: SlidingLog(limit, window_s, "requests")  # noqa: E731
    figure = limit * 60 / window_s
    return World(quantity="requests", figure=figure, limiter=make, traffic=traffic)


def requests_bucket(rng: np.random.Generator, loop: str) -> World:
    """A bucket of 1 to 50 requests."""
    rpm = _between(rng, 60, 6000)
    burst = round(_between(rng, 1, 50))
    run_s = min(300.0, max(60.0, 3 * burst * 60 / rpm))
    traffic = _traffic(rng, loop, rpm / 60, run_s, _base(rng))
    make = lambda: Bucket(rpm, burst, "requests")  # noqa: E731
    return World(quantity="requests", figure=rpm, limiter=make, traffic=traffic)


def _tokens(rng: np.random.Generator, loop: str, unit: str, form: str) -> World:
    tpm = _between(rng, 6_000, 3_000_000)
    base = _base(rng)
    # Small limits are met with small requests, as they are in life.
    scale = min(1.0, tpm / 60_000)
    base = replace(
        base,
        prompt_median=max(20.0, 400 * scale),
        answer_median=max(20.0, 250 * scale),
        max_tokens=base.max_tokens and max(64, int(base.max_tokens * scale)),
    )
    sample = _mean_cost(base, unit)
    rps = tpm / 60 / sample
    window_s = float(rng.choice([w for w in (1.0, 10.0, 60.0) if tpm * w / 60 >= 8 * sample]))
    run_s = _run_s(rng, window_s)
    if form == "fixed":
        phase_s = float(rng.uniform(0, window_s))
        make: Callable[[], Limiter] = lambda: Window(  # noqa: E731
            tpm * window_s / 60, window_s, phase_s, unit
        )
    elif form == "sliding":
        make = lambda: SlidingLog(tpm * window_s / 60, window_s, unit)  # noqa: E731
    else:
        depth = tpm / 60 * float(rng.choice([10.0, 20.0, 60.0]))
        run_s = float(rng.uniform(180, 300))
        make = lambda: Bucket(tpm, max(depth, 8 * sample), unit)  # noqa: E731
    traffic = _traffic(rng, loop, rps, run_s, base)
    return World(quantity="tokens", figure=tpm, limiter=make, traffic=traffic)


def _mean_cost(base: Traffic, unit: str) -> float:
    stretch = float(np.exp(base.spread**2 / 2))
    answer = base.answer_median * stretch
    second = answer if unit == "used" else base.max_tokens or 1.5 * answer
    return base.prompt_median * stretch + second


def tokens_fixed(rng: np.random.Generator, loop: str) -> World:
    """Prompt and asked maximum, per window."""
    return _tokens(rng, loop, "asked", "fixed")


def tokens_sliding(rng: np.random.Generator, loop: str) -> World:
    """Prompt and asked maximum, in the last so many seconds."""
    return _tokens(rng, loop, "asked", "sliding")


def tokens_bucket(rng: np.random.Generator, loop: str) -> World:
    """Prompt and asked maximum, from a bucket."""
    return _tokens(rng, loop, "asked", "bucket")


def tokens_used_fixed(rng: np.random.Generator, loop: str) -> World:
    """Prompt and completion, charged afterwards, per window."""
    return _tokens(rng, loop, "used", "fixed")


def tokens_used_bucket(rng: np.random.Generator, loop: str) -> World:
    """Prompt and completion, charged afterwards, from a bucket."""
    return _tokens(rng, loop, "used", "bucket")


def concurrency(rng: np.random.Generator, loop: str) -> World:
    """So many at once."""
    cap = round(_between(rng, 4, 64))
    base = _base(rng)
    traffic = _traffic(rng, loop, cap / base.answer_s, float(rng.uniform(30, 90)), base)
    return World(quantity="concurrency", figure=cap, limiter=lambda: Cap(cap), traffic=traffic)


MAKES = {
    "requests, fixed window": requests_fixed,
    "requests, window opened by a request": requests_opened,
    "requests, sliding window": requests_sliding,
    "requests, token bucket": requests_bucket,
    "tokens asked for, fixed window": tokens_fixed,
    "tokens asked for, sliding window": tokens_sliding,
    "tokens asked for, bucket": tokens_bucket,
    "tokens used, fixed window": tokens_used_fixed,
    "tokens used, bucket": tokens_used_bucket,
    "requests at once": concurrency,
}
LOOPS = {"open": "open", "retry": "closed, retries", "new": "closed, no retries"}


def all_kinds() -> list[Kind]:
    """Each limiter with each traffic."""
    return [Kind(name, make, loop) for name, make in MAKES.items() for loop in LOOPS]
