"""What fell into held windows, summed up while a run goes on: rates, tokens, requests in flight.

The same definitions as the report's (``reports/windows.py``), so that both say the same in the end.
A request is counted when it is reported, which is after it ended. While a window is open the tokens
of answers under way are not known, so its token rate is that of the answers that ended in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metrics.outcome import Outcome
from metrics.record import FIELD_NAMES
from metrics.stage import Phase

_PLACES = {name: place for place, name in enumerate(FIELD_NAMES)}
_STARTED, _STREAMED, _LAST, _END = (
    _PLACES[name] for name in ("started_s", "streamed", "last_token_s", "end_s")
)
_USER_LATENCY, _TTFT, _OUTCOME, _TOKENS, _PHASE = (
    _PLACES[name] for name in ("user_latency_s", "ttft_s", "outcome", "completion_tokens", "phase")
)
_ENDLESS = float("inf")
_JUST_AFTER_S = 5e-7
_NOTHING = (0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class _Window:
    """One worker's held window, on its clock, and what fell into it."""

    stage: int
    begin_s: float
    end_s: float = _ENDLESS
    sent: int = 0
    completed: int = 0
    tokens: float = 0.0
    ended_tokens: int = 0
    """Of the answers that ended in it, whole."""
    in_flight_s: float = 0.0


@dataclass(slots=True)
class _Worker:
    windows: list[_Window] = field(default_factory=list)
    last_s: float = 0.0
    """When its last request ended."""
    warm_up_s: float = 0.0
    """Just after its last warm-up request was started."""


@dataclass(frozen=True, slots=True)
class HeldRates:
    """A stage's window over the fleet so far; None when nothing was held."""

    window_s: float | None = None
    sent_rps: float | None = None
    completed_rps: float | None = None
    output_tokens_per_s: float | None = None
    in_flight: float | None = None


class HeldWindows:
    """Fed with the workers' marks and rows, a worker's in the order in which they came."""

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}
        self._by_stage: dict[int, list[tuple[str, _Window]]] = {}
        self.requests = 0
        """How many rows have come: fewer than requests where the workers keep them."""

    def mark(self, marks: Iterable[Mapping[str, Any]]) -> None:
        """Phases that began; those of a report come before its rows."""
        for mark in marks:
            worker = self._workers.setdefault(mark["worker"], _Worker())
            at_s = mark["at_s"]
            if worker.windows and worker.windows[-1].end_s == _ENDLESS:
                worker.windows[-1].end_s = at_s
            if mark["phase"] == Phase.HOLD.value:
                window = _Window(mark["stage"], max(at_s, worker.warm_up_s))
                worker.windows.append(window)
                self._by_stage.setdefault(mark["stage"], []).append((mark["worker"], window))

    def add(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Requests of a worker that have ended."""
        worker = self._workers.setdefault(name, _Worker())
        for row in rows:
            self.requests += 1
            began_s = row[_STARTED]
            if row[_PHASE] == Phase.WARMUP.value:
                self._left_out(worker, began_s)
            latency_s = row[_LAST] if row[_STREAMED] and row[_LAST] is not None else row[_END]
            sent_s = began_s + row[_USER_LATENCY] - latency_s
            ended_s = sent_s + row[_END]
            worker.last_s = max(worker.last_s, ended_s)
            ok = row[_OUTCOME] == Outcome.OK.value
            first_s = sent_s + (row[_TTFT] or 0.0)
            for window in reversed(worker.windows):
                if window.end_s <= began_s:
                    break
                window.sent += window.begin_s <= began_s
                window.in_flight_s += _overlap_s(window, sent_s, ended_s)
                if ok:
                    ended = window.begin_s <= ended_s < window.end_s
                    window.completed += ended
                    window.ended_tokens += (row[_TOKENS] or 0) * ended
                    share = _overlap_ratio(window, first_s, sent_s + latency_s)
                    window.tokens += (row[_TOKENS] or 0) * share

    def rates(self, stage: int, held_s: float | None = None) -> HeldRates:
        """The stage's rates.

        ``held_s`` is how long a window that is still open has been held; None when the run is over.
        """
        lengths_s: dict[str, float] = {}
        sums: dict[str, list[float]] = {}
        for name, window in self._by_stage.get(stage, ()):
            length_s = _length_s(window, self._workers[name], held_s)
            if length_s <= 0:
                continue
            # A level that a worker held twice is one window of both lengths.
            lengths_s[name] = lengths_s.get(name, 0.0) + length_s
            still_open = window.end_s == _ENDLESS and held_s is not None
            tokens = window.ended_tokens if still_open else window.tokens
            own = (window.sent, window.completed, tokens, window.in_flight_s)
            sums[name] = [a + b for a, b in zip(sums.get(name, _NOTHING), own, strict=True)]
        if not sums:
            return HeldRates()
        rates = [[value / lengths_s[name] for value in own] for name, own in sums.items()]
        window_s = sum(lengths_s.values()) / len(sums)
        return HeldRates(window_s, *map(sum, zip(*rates, strict=True)))

    @staticmethod
    def _left_out(worker: _Worker, began_s: float) -> None:
        worker.warm_up_s = max(worker.warm_up_s, began_s + _JUST_AFTER_S)
        if worker.windows:
            last = worker.windows[-1]
            last.begin_s = max(last.begin_s, min(worker.warm_up_s, last.end_s))


def _length_s(window: _Window, worker: _Worker, held_s: float | None) -> float:
    if window.end_s < _ENDLESS:
        return window.end_s - window.begin_s
    return max(0.0, worker.last_s - window.begin_s) if held_s is None else held_s


def _overlap_s(window: _Window, first_s: float, last_s: float) -> float:
    return max(0.0, min(last_s, window.end_s) - max(first_s, window.begin_s))


def _overlap_ratio(window: _Window, first_s: float, last_s: float) -> float:
    """The share of an interval inside the window; an instant is wholly in or wholly out."""
    if last_s <= first_s:
        return float(window.begin_s <= first_s < window.end_s)
    return _overlap_s(window, first_s, last_s) / (last_s - first_s)
