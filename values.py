"""Reads the values of options that are times, user counts, rates or other numbers."""

import math
import re
from dataclasses import dataclass

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def parse_duration_s(text: str) -> float:
    """Seconds of ``30s``, ``500ms``, ``2m``, ``1h30m`` or a plain number of seconds.

    Raises:
        ValueError: it is none of these.
    """
    stripped = text.strip().lower()
    if stripped.endswith("ms") and re.fullmatch(r"\d+(\.\d+)?", stripped[:-2]):
        return float(stripped[:-2]) / 1000
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        return float(stripped)
    match = _DURATION.fullmatch(stripped)
    if not stripped or match is None:
        raise ValueError(f"{text!r} is not a time; write for example 30s, 500ms, 2m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def parse_hold_s(text: str) -> float:
    """How long a stage is held, in seconds; over 0."""
    seconds = parse_duration_s(text)
    if seconds <= 0:
        raise ValueError("a stage is held over 0 s; write for example 12s")
    return seconds


def parse_limit_s(text: str) -> float | None:
    """A time limit in seconds; ``off`` (or 0) is None: wait for ever."""
    if text.strip().lower() in ("", "off", "none"):
        return None
    return parse_duration_s(text) or None


def parse_stages(text: str) -> tuple[int, ...]:
    """The user counts of a ladder, such as ``1,2,4,8``; any order, at least one, each over 0."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[1-9]\d*", part) for part in parts):
        raise ValueError(f"{text!r} is not a list of user counts; write for example 1,2,4,8,16")
    return tuple(int(part) for part in parts)


@dataclass(frozen=True, slots=True)
class OfferedRate:
    """What an open loop offers per second: requests, or the nominal tokens of requests."""

    per_s: float
    of_tokens: bool


_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)\s*(requests|tokens|)\s*(?:/\s*(s|min|h))?")
_SECONDS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
_THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6}


def parse_rates(text: str) -> tuple[OfferedRate, ...]:
    """The rates of an open loop's steps, such as ``2,4,8``, ``300/min`` or ``90k tokens/min``.

    A plain number is requests/s. May be empty; 0 alone is nothing, too.

    Raises:
        ValueError: one of them is no such rate, or is 0.
    """
    if text.strip() in ("", "0", "0.0"):
        return ()
    return tuple(_rate(part.strip().lower()) for part in text.split(","))


def _rate(text: str) -> OfferedRate:
    match = _RATE.fullmatch(text)
    if match is None or not float(match[1]):
        raise ValueError(
            f"{text!r} is no rate; write for example 5 (requests/s), 300/min or 90k tokens/min"
        )
    number, thousands, what, per = match.groups()
    per_s = float(number) * _THOUSANDS[thousands] / _SECONDS[per or ""]
    return OfferedRate(per_s, what == "tokens")


def parse_optional_whole(text: str) -> int | None:
    """A whole number; nothing is None."""
    if not text.strip():
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def parse_optional_number(text: str) -> float | None:
    """A finite number; nothing is None."""
    if not text.strip():
        return None
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{text!r} cannot be sent; write a number such as 0.7")
    return number
