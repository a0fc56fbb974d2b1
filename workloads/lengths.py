"""Distributions of lengths (in tokens) and pauses (in seconds), from a short text.

``200`` · ``uniform:50-400`` · ``normal:200,50`` · ``lognormal:p50=200,p90=900`` ·
``exponential:20`` · ``file:lengths.csv``
"""

import csv
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Protocol

_NUMBER = r"\d+(?:\.\d+)?"
_MOST = 1e9
"""No number and no mean is above this: beyond it floats overflow, and no one means it."""
_Z90 = NormalDist().inv_cdf(0.9)
_FORMS = (
    "200, uniform:50-400, normal:200,50, lognormal:p50=200,p90=900, exponential:20 "
    "or file:lengths.csv"
)


class Distribution(Protocol):
    """A distribution of values of 0 and more."""

    @property
    def mean(self) -> float:
        """The expected value before it is cut at 0."""

    def sample(self, rng: random.Random) -> float:
        """One value, never below 0."""

    def sample_tokens(self, rng: random.Random, minimum: int = 1) -> int:
        """One value as a whole number of tokens, at least ``minimum``."""

    def describe(self) -> str:
        """The text it was read from."""


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A distribution by its sampling function; the only kind of state is numbers."""

    text: str
    mean: float
    # It follows from the text, and functions have no equals.
    draw: Callable[[random.Random], float] = field(compare=False)

    def sample(self, rng: random.Random) -> float:
        return max(0.0, self.draw(rng))

    def sample_tokens(self, rng: random.Random, minimum: int = 1) -> int:
        return max(minimum, round(self.draw(rng)))

    def describe(self) -> str:
        return self.text


def _no_files(path: str) -> str:
    raise ValueError(f"file:{path} cannot be read here")


def parse_distribution(text: str, read_file: Callable[[str], str] = _no_files) -> Distribution:
    """Read a distribution; ``read_file`` gives the text of a file that it names.

    Raises:
        ValueError: says which part is wrong and what may be written instead.
        OSError: from ``read_file``.
    """
    stripped = text.strip()
    if re.fullmatch(_NUMBER, stripped):
        return _constant(stripped, _value(stripped))
    kind, colon, rest = stripped.partition(":")
    parse = _KINDS.get(kind)
    if parse is not None and colon:
        found = parse(stripped, rest)
        if found is not None:
            return found
    elif kind == "file" and colon:
        return _from_file(stripped, rest, read_file(rest))
    raise ValueError(f"{text!r} is not a distribution; write {_FORMS}")


def _value(text: str) -> float:
    number = float(text)
    if number > _MOST:
        raise ValueError(f"{text[:20]!r} is too large; write a number up to {_MOST:g}")
    return number


def _constant(text: str, value: float) -> _Sampled:
    return _Sampled(text, value, lambda rng: value)


def _uniform(text: str, rest: str) -> _Sampled | None:
    match = re.fullmatch(rf"({_NUMBER})-({_NUMBER})", rest)
    if match is None:
        return None
    low, high = _value(match[1]), _value(match[2])
    if low > high:
        raise ValueError(f"{text!r}: the first number is above the second")
    return _Sampled(text, (low + high) / 2, lambda rng: rng.uniform(low, high))


def _normal(text: str, rest: str) -> _Sampled | None:
    match = re.fullmatch(rf"({_NUMBER}),({_NUMBER})", rest)
    if match is None:
        return None
    mean, deviation = _value(match[1]), _value(match[2])
    return _Sampled(text, mean, lambda rng: rng.gauss(mean, deviation))


def _lognormal(text: str, rest: str) -> _Sampled | None:
    match = re.fullmatch(rf"p50=({_NUMBER}),p90=({_NUMBER})", rest)
    if match is None:
        return None
    p50, p90 = _value(match[1]), _value(match[2])
    if not 0 < p50 <= p90:
        raise ValueError(f"{text!r}: p50 is over 0 and not above p90")
    mu, sigma = math.log(p50), math.log(p90 / p50) / _Z90
    if mu + sigma**2 / 2 > math.log(_MOST):
        raise ValueError(f"{text!r}: the mean is too large; write a p90 closer to p50")
    return _Sampled(text, math.exp(mu + sigma**2 / 2), lambda rng: rng.lognormvariate(mu, sigma))


def _exponential(text: str, rest: str) -> _Sampled | None:
    if not re.fullmatch(_NUMBER, rest) or not float(rest):
        return None
    mean = _value(rest)
    return _Sampled(text, mean, lambda rng: rng.expovariate(1 / mean))


def _from_file(text: str, path: str, content: str) -> _Sampled:
    """Draws with replacement from the first column; a first row that is no number is a header."""
    values: list[float] = []
    for number, row in enumerate(_rows(path, content), start=1):
        cell = row[0].strip() if row else ""
        if not cell or (number == 1 and not re.fullmatch(_NUMBER, cell)):
            continue
        if not re.fullmatch(_NUMBER, cell):
            raise ValueError(f"{path} line {number}: {cell!r} is not a length of 0 or more")
        values.append(_value(cell))
    if not values:
        raise ValueError(f"{path} holds no lengths; write one number per line")
    return _Sampled(text, sum(values) / len(values), lambda rng: rng.choice(values))


def _rows(path: str, content: str) -> list[list[str]]:
    # Spreadsheets put a byte-order mark in front, which would make the first number a header.
    try:
        return list(csv.reader(content.removeprefix("\ufeff").splitlines()))
    except csv.Error as error:
        raise ValueError(f"{path} is not CSV ({error})") from None


_KINDS = {
    "uniform": _uniform,
    "normal": _normal,
    "lognormal": _lognormal,
    "exponential": _exponential,
}
