"""Says what long report work is at: a live line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.status import Status

QUIET_S = 10.0
"""Work that is done by then is not worth a plain line."""
BETWEEN_S = 5.0
"""At least so long between two plain lines."""


class Progress:
    """Steps of one piece of work, told on ``err``; ``steps`` is how many there will be.

    On a terminal the line is there from the start and gone at the end. Elsewhere nothing is
    written within the first 10 s, then a line at most every 5 s. ``clock_s`` gives seconds of any
    monotonic clock.
    """

    def __init__(
        self,
        err: TextIO,
        steps: int,
        quiet: bool = False,
        clock_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        console = Console(file=err, highlight=False)
        self._status = Status("report", console=console) if console.is_terminal else None
        if quiet:
            self._status = None
        self._err, self._steps, self._quiet, self._clock_s = err, steps, quiet, clock_s
        self._begun_s = clock_s()
        self._told_s = self._begun_s + QUIET_S - BETWEEN_S
        self._step = 0

    def __enter__(self) -> Self:
        self._shown.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._shown.__exit__(kind, error, trace)

    @property
    def _shown(self) -> AbstractContextManager[object]:
        return self._status if self._status is not None else nullcontext()

    def step(self, what: str, long: bool = False) -> None:
        """The next step begins; ``long`` when it is known to take its time, so that it is told."""
        self._step = min(self._step + 1, self._steps)
        text = f"report: {what} ({self._step} of {self._steps})"
        if self._status is not None:
            self._status.update(text)
            return
        now_s = self._clock_s()
        if self._quiet or not (long or now_s - self._told_s >= BETWEEN_S):
            return
        self._told_s = now_s
        print(f"swarmgauge: {text}, {now_s - self._begun_s:.0f} s", file=self._err, flush=True)
