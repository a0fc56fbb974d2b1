"""When requests of an open loop are due: one seeded schedule for the whole fleet, and its shares.

The times are absolute, in seconds from the schedule's beginning, so that a late arrival never
moves the ones after it and the offered rate stays what was asked for.
"""

import itertools
import math
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

_MOST_CV = 20.0
"""Beyond it nearly all arrivals come at once, and no window of a run has the asked rate."""
_LEAST_CV = 0.01

_Amount = TypeVar("_Amount", int, float)


class ArrivalKind(StrEnum):
    """How the gaps between arrivals are spread."""

    POISSON = "poisson"
    CONSTANT = "constant"
    GAMMA = "gamma"


@dataclass(frozen=True, slots=True)
class ArrivalProcess:
    """A way of arriving. ``cv`` is the coefficient of variation of the gaps: 0 constant, 1 Poisson,
    above 1 in bursts."""

    kind: ArrivalKind
    cv: float

    def describe(self) -> str:
        """The text it was read from."""
        if self.kind is ArrivalKind.GAMMA:
            return f"{self.kind.value}:{self.cv:g}"
        return self.kind.value

    def schedule_s(self, rate_rps: float, rng: random.Random) -> Iterator[float]:
        """Times of all arrivals, in order and without end, at ``rate_rps`` requests per second.

        Raises:
            ValueError: the rate is not over 0.
        """
        if not 0 < rate_rps < math.inf:
            raise ValueError(f"{rate_rps} requests/s: the rate is over 0")
        if self.kind is ArrivalKind.CONSTANT:
            # From the count each time: a sum of gaps would drift by its rounding.
            return (number / rate_rps for number in itertools.count())
        return _sums(factor / rate_rps for factor in self._gap_factors(rng))

    def token_schedule_s(
        self, tokens_per_s: float, tokens: Iterable[int], rng: random.Random
    ) -> Iterator[float]:
        """Times of arrivals at ``tokens_per_s``, as many as there are ``tokens`` of arrivals.

        An arrival is followed by the next after the time that its own tokens last at that rate,
        times a random factor of mean 1 unless arrivals are constant. The first is due at once.

        Raises:
            ValueError: the rate is not over 0.
        """
        if not 0 < tokens_per_s < math.inf:
            raise ValueError(f"{tokens_per_s} tokens/s: the rate is over 0")
        if self.kind is ArrivalKind.CONSTANT:
            # From whole tokens each time, for the same reason.
            return (before / tokens_per_s for before in _before_each(tokens, 0))
        factors = self._gap_factors(rng)
        weighed = (count * factor for count, factor in zip(tokens, factors, strict=False))
        return (before / tokens_per_s for before in _before_each(weighed, 0.0))

    def _gap_factors(self, rng: random.Random) -> Iterator[float]:
        """Gaps in units of the mean gap, without end."""
        if self.kind is ArrivalKind.POISSON:
            return (rng.expovariate(1.0) for _ in itertools.count())
        shape = 1 / self.cv**2
        return (rng.gammavariate(shape, 1 / shape) for _ in itertools.count())


def _sums(gaps_s: Iterator[float]) -> Iterator[float]:
    return itertools.accumulate(gaps_s)


def _before_each(amounts: Iterable[_Amount], nothing: _Amount) -> Iterator[_Amount]:
    """What the earlier ones add up to, for each; an amount is drawn only when it is needed."""
    before = nothing
    for amount in amounts:
        yield before
        before += amount


@dataclass(frozen=True, slots=True)
class Arrival:
    """One arrival: its number in the fleet's schedule, from 0, and when it is due, in seconds."""

    number: int
    due_s: float


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who shares a schedule from an instant on, as one worker sees it.

    It holds for arrivals of ``stage`` that are due from ``from_s`` on, in seconds from the
    schedule's beginning, and for all later stages. ``place`` is this worker's among ``workers``;
    None when it has no share.
    """

    stage: int
    from_s: float
    place: int | None
    workers: int


def share_of(
    schedule_s: Iterator[float], stage: int, sharings: Sequence[Sharing]
) -> Iterator[Arrival]:
    """A worker's arrivals of a stage: of n that share, worker i sends each whose number is i
    modulo n.

    The latest of ``sharings`` counts, which are in the order of their instants and begin before the
    schedule does. At every instant the shares of all workers are a partition. It ends when nothing
    is left for this one.
    """
    known = [sharing for sharing in sharings if sharing.stage <= stage]
    place = 0
    for number, due_s in enumerate(schedule_s):
        while place + 1 < len(known) and (known[place + 1].stage, known[place + 1].from_s) <= (
            stage,
            due_s,
        ):
            place += 1
        sharing = known[place]
        if sharing.place is None:
            if place + 1 == len(known):
                return
        elif number % sharing.workers == sharing.place:
            yield Arrival(number, due_s)


def count_share(total: int, worker: int, workers: int) -> int:
    """How many of ``total`` fall to this worker when each takes its equal share, the first ones one
    more. All shares add up to ``total``."""
    return total // workers + (worker < total % workers)


def parse_arrivals(text: str) -> ArrivalProcess:
    """Read ``poisson``, ``constant`` or ``gamma:CV``.

    Raises:
        ValueError: says what may be written.
    """
    kind, colon, rest = text.strip().lower().partition(":")
    if kind == ArrivalKind.POISSON and not colon:
        return ArrivalProcess(ArrivalKind.POISSON, 1.0)
    if kind == ArrivalKind.CONSTANT and not colon:
        return ArrivalProcess(ArrivalKind.CONSTANT, 0.0)
    if kind == ArrivalKind.GAMMA and re.fullmatch(r"\d+(\.\d+)?", rest):
        cv = float(rest)
        if not _LEAST_CV <= cv <= _MOST_CV:
            raise ValueError(f"{text!r}: write a CV from {_LEAST_CV:g} to {_MOST_CV:g}")
        return ArrivalProcess(ArrivalKind.GAMMA, cv)
    raise ValueError(f"{text!r} is no way of arriving; write poisson, constant or gamma:2")
