"""How long a client waits before it tries again, when the server does not say.

All waits are seconds; chance is handed in, so that a run can be repeated.

Sources: exponential backoff, full and decorrelated jitter are those of Marc Brooker, "Exponential
Backoff And Jitter", AWS Architecture Blog, 2015.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

_DEFAULT_BASE_S = 0.5
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0}
_MOST_DOUBLINGS = 60
"""Any base is at the cap by then, and a power of two beyond 1023 is no float."""
_CHOICES = "full-jitter, full-jitter:500ms, exponential:1s, decorrelated:500ms, fixed:1s or server"


class Backoff(Protocol):
    """A way of waiting between tries."""

    def wait_s(self, retry: int, previous_s: float, chance: random.Random) -> float | None:
        """Seconds before retry number ``retry`` (from 1), ``previous_s`` being the wait before the
        last one (0 before the first). None when this policy knows no wait of its own."""

    def describe(self) -> str:
        """A text that ``parse_backoff`` reads as this."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """``min(cap, base · 2^(retry−1))``: clients that were refused together come back together."""

    base_s: float
    cap_s: float

    def wait_s(self, retry: int, previous_s: float, chance: random.Random) -> float:
        return _doubled_s(self.base_s, self.cap_s, retry)

    def describe(self) -> str:
        return f"exponential:{self.base_s:g}s"


@dataclass(frozen=True, slots=True)
class FullJitter:
    """``random between 0 and min(cap, base · 2^(retry−1))``."""

    base_s: float
    cap_s: float

    def wait_s(self, retry: int, previous_s: float, chance: random.Random) -> float:
        return chance.random() * _doubled_s(self.base_s, self.cap_s, retry)

    def describe(self) -> str:
        return f"full-jitter:{self.base_s:g}s"


@dataclass(frozen=True, slots=True)
class DecorrelatedJitter:
    """``min(cap, random between base and 3 · previous)``; the first previous is the base."""

    base_s: float
    cap_s: float

    def wait_s(self, retry: int, previous_s: float, chance: random.Random) -> float:
        most_s = 3 * max(self.base_s, previous_s)
        # A sum of rounded parts may pass its upper end by a bit.
        return min(self.cap_s, most_s, chance.uniform(self.base_s, most_s))

    def describe(self) -> str:
        return f"decorrelated:{self.base_s:g}s"


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same wait each time."""

    fixed_s: float

    def wait_s(self, retry: int, previous_s: float, chance: random.Random) -> float:
        return self.fixed_s

    def describe(self) -> str:
        return f"fixed:{self.fixed_s:g}s"


@dataclass(frozen=True, slots=True)
class ServerOnly:
    """Only waits that the server asks for: without one there is no retry."""

    def wait_s(self, retry: int, previous_s: float, chance: random.Random) -> None:
        return None

    def describe(self) -> str:
        return "server"


_JITTERED: dict[str, Callable[[float, float], Backoff]] = {
    "full-jitter": FullJitter,
    "exponential": Exponential,
    "decorrelated": DecorrelatedJitter,
}


def parse_backoff(text: str, cap_s: float) -> Backoff:
    """Read ``full-jitter:500ms``, ``exponential:1s``, ``decorrelated:500ms``, ``fixed:1s`` or
    ``server``; but for ``fixed`` the time may be left out (500 ms). ``cap_s`` bounds every wait.

    Raises:
        ValueError: it is none of these, or its time is 0 or over the cap.
    """
    kind, colon, rest = text.strip().lower().partition(":")
    if kind == "server" and not colon:
        return ServerOnly()
    make = _JITTERED.get(kind)
    if make is not None and not colon:
        return make(min(_DEFAULT_BASE_S, cap_s), cap_s)
    match = _DURATION.fullmatch(rest.strip())
    if match is None or (make is None and kind != "fixed"):
        raise ValueError(f"{text!r} is no backoff; write {_CHOICES}")
    time_s = float(match[1]) * _UNIT_S[match[2] or "s"]
    if time_s > cap_s:
        raise ValueError(f"{text!r}: {time_s:g} s is over the cap of {cap_s:g} s")
    if make is None:
        return Fixed(time_s)
    if time_s == 0:
        raise ValueError(f"{text!r}: the time is over 0; to retry at once write fixed:0s")
    return make(time_s, cap_s)


def _doubled_s(base_s: float, cap_s: float, retry: int) -> float:
    return min(cap_s, base_s * 2.0 ** min(retry - 1, _MOST_DOUBLINGS))
