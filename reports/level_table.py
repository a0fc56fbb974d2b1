"""Reads a table of levels that somebody else measured: a CSV of means, one row for each level."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metrics.knee_level import Level, level_of_means

_USERS = ("users", "concurrency", "n")
_RPS = ("requests_per_s", "requests/s", "rps", "completed_rps", "req/s")
_TIMES = {
    "ttft": ("ttft", "mean_ttft", "ttft_mean"),
    "latency": ("latency", "e2e_latency", "mean_latency", "latency_mean", "e2e"),
    "tpot": ("tpot", "itl", "mean_tpot", "tpot_mean"),
    "think": ("think", "think_time"),
}
_UNITS = {"_s": 1.0, "_ms": 1e-3}
_LIKE = {
    "ttft": ("ttft",),
    "latency": ("latency", "e2e"),
    "tpot": ("tpot", "itl"),
    "think": ("think",),
}
"""Words in the name of a column that show what it may be meant for. Passed over in silence, a TTFT
would be missed, and the verdict would say that there was none."""
COLUMNS = "users, requests_per_s, ttft_s, latency_s, and if known tpot_s and think_s (or _ms)"


LAW_FACTOR = 3.0
"""By how much users and rate x (latency + think time) may differ. Ramps and stragglers inside the
window can halve a rate; another unit, tokens instead of requests or the rate of one of many servers
is off by more."""


def read_level_table(text: str) -> list[Level]:
    """The levels of a CSV with a head line; times end in ``_s`` or ``_ms``.

    Raises:
        ValueError: a column is missing or there twice, a value cannot be used, or the values of a
            line cannot be of one level; with its line, the column, the value and what to do.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    head = [name.strip().lower() for name in next(reader, [])]
    try:
        columns = _columns(head)
    except ValueError as error:
        raise ValueError(f"line 1: {error}") from None
    levels = []
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        try:
            levels.append(_level(columns, len(head), row))
        except ValueError as error:
            raise ValueError(f"line {reader.line_num}: {error}") from None
    if not levels:
        raise ValueError("no level: one line for each is needed below the head line")
    return levels


@dataclass(frozen=True, slots=True)
class _Column:
    """Where a figure stands, its name in the file, and what one of its unit is in our unit."""

    place: int
    name: str
    factor: float = 1.0

    def text(self, row: Sequence[str]) -> str:
        """The cell; empty where the line is too short."""
        return row[self.place].strip() if self.place < len(row) else ""

    def value(self, row: Sequence[str]) -> float | None:
        """The number in our unit; None for an empty cell."""
        text = self.text(row)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise ValueError(f"{self.name} is {text!r}: write a number from 0 on")
        return number * self.factor


def _columns(head: Sequence[str]) -> dict[str, _Column]:
    """The columns that are used, by what they hold."""
    wanted = {"users": dict.fromkeys(_USERS, 1.0), "rps": dict.fromkeys(_RPS, 1.0)}
    for what, names in _TIMES.items():
        wanted[what] = {name + unit: s for name in names for unit, s in _UNITS.items()}
    found = {}
    for what, names in wanted.items():
        there = [
            _Column(n, name, names[name])  # by place, so that a name that is there twice counts so
            for n, name in enumerate(head)
            if name in names
        ]
        if len(there) > 1:
            said = " and ".join(f"{c.name} (column {c.place + 1})" for c in there)
            raise ValueError(f"{said} hold the same figure: keep one of them")
        if there:
            found[what] = there[0]
    for what, words in _LIKE.items():
        for n, name in enumerate(head):
            alike = any(word in words for word in re.split("[^a-z0-9]+", name))
            if what not in found and alike:
                raise ValueError(_unknown(n, name, _TIMES[what]))
    for what, name in (("users", "users"), ("latency", "latency_s")):
        if what not in found:
            raise ValueError(f"no column {name}; write {COLUMNS}")
    return found


def _unknown(place: int, name: str, names: Sequence[str]) -> str:
    """Why a column that looks like a time cannot be read, and how to write it."""
    said = f"column {place + 1} is {name!r}"
    if name in names:
        return f"{said}, without a unit: write {name}_s or {name}_ms"
    means = ", ".join(f"{known}_s" for known in names)
    return (
        f"{said}, which is not known: a mean is called {means} (or _ms); rename it, or take it "
        "out if it is no mean"
    )


def _level(columns: Mapping[str, _Column], width: int, row: Sequence[str]) -> Level:
    if any(cell.strip() for cell in row[width:]):
        raise ValueError(
            f"{len(row)} cells, and the head line has {width}: write numbers with a point and "
            "without separators"
        )
    seen = {what: column.value(row) for what, column in columns.items()}
    users, latency_s = seen["users"], seen["latency"]
    if users is None or users != int(users) or users < 1:
        text, name = columns["users"].text(row), columns["users"].name
        raise ValueError(f"{name} is {text!r}: write a whole number from 1 on")
    if not latency_s:
        text, name = columns["latency"].text(row), columns["latency"].name
        raise ValueError(f"{name} is {text!r}: a request takes time, write its mean latency")
    ttft_s, rps, think_s = seen.get("ttft"), seen.get("rps"), seen.get("think") or 0.0
    if ttft_s is not None and ttft_s > latency_s:
        raise ValueError(
            f"{columns['ttft'].name} is {columns['ttft'].text(row)!r}, more than "
            f"{columns['latency'].name} of {columns['latency'].text(row)!r}: the first token comes "
            "before the end, so check the units and whether the columns are swapped"
        )
    if rps is not None:
        _check_law(int(users), rps, latency_s + think_s, columns["rps"], row)
    return level_of_means(int(users), rps, ttft_s, latency_s, seen.get("tpot"), think_s)


def _check_law(users: int, rps: float, cycle_s: float, column: _Column, row: Sequence[str]) -> None:
    """Little's law: users = rate x (latency + think time)."""
    implied = rps * cycle_s
    if users / LAW_FACTOR <= implied <= users * LAW_FACTOR:
        return
    raise ValueError(
        f"{column.name} is {column.text(row)!r}, which in cycles of {cycle_s:g} s is the work of "
        f"{implied:.3g} users and not of {users}: check that it counts whole requests a second, of "
        "all servers, that the times have the unit of their column, and that think time is there"
    )
