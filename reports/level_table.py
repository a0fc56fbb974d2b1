"""Reads a table of levels that somebody else measured: a CSV of means, one row for each level."""

import csv
import io
from collections.abc import Mapping, Sequence

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
COLUMNS = "users, requests_per_s, ttft_s, latency_s, and if known tpot_s and think_s (or _ms)"


def read_level_table(text: str) -> list[Level]:
    """The levels of a CSV with a head line; times end in ``_s`` or ``_ms``.

    Raises:
        ValueError: a column is missing, or a value cannot be used; with its line.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    head = [name.strip().lower() for name in next(reader, [])]
    users, latency = _column(head, _USERS), _time_column(head, "latency")
    if users is None or latency is None:
        missing = "users" if users is None else "latency_s"
        raise ValueError(f"line 1: no column {missing}; write {COLUMNS}")
    levels = []
    for number, row in enumerate(reader, start=2):
        if not any(cell.strip() for cell in row):
            continue
        try:
            levels.append(_level(head, row))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    if not levels:
        raise ValueError("no level: one line for each is needed below the head line")
    return levels


def _level(head: Sequence[str], row: Sequence[str]) -> Level:
    cells = {name: cell.strip() for name, cell in zip(head, row, strict=False)}
    users = _number(cells, _column(head, _USERS))
    latency_s = _time_s(head, cells, "latency")
    if users is None or users != int(users):
        raise ValueError(f"users is {cells.get(_column(head, _USERS) or '')!r}: a whole number")
    if latency_s is None:
        raise ValueError("the latency is empty")
    return level_of_means(
        int(users),
        _number(cells, _column(head, _RPS)),
        _time_s(head, cells, "ttft"),
        latency_s,
        _time_s(head, cells, "tpot"),
        _time_s(head, cells, "think") or 0.0,
    )


def _column(head: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in names if name in head), None)


def _time_column(head: Sequence[str], what: str) -> tuple[str, float] | None:
    for name in _TIMES[what]:
        for unit, seconds in _UNITS.items():
            if name + unit in head:
                return name + unit, seconds
    return None


def _time_s(head: Sequence[str], cells: Mapping[str, str], what: str) -> float | None:
    found = _time_column(head, what)
    value = None if found is None else _number(cells, found[0])
    return None if value is None or found is None else value * found[1]


def _number(cells: Mapping[str, str], name: str | None) -> float | None:
    text = "" if name is None else cells.get(name, "")
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}: write a number") from None
