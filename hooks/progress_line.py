"""Shows how far a headless run is: one live line on a terminal, now and then a line elsewhere."""

import logging
import sys
from collections.abc import Callable, Iterable
from typing import TextIO

import gevent
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType

from hooks.live.recent import recent
from hooks.live.run import LiveRun
from hooks.progress import ProgressFigures, progress_text

REFRESH_S = 1.0
BETWEEN_S = 15.0
"""Between two lines where there is no terminal; the log tells each change of a stage besides."""
RECENT_S = 10.0

log = logging.getLogger("swarmgauge")


class ProgressLine:
    """The line on ``err``. On a terminal it stays the last one; elsewhere it goes to the log.

    ``turn`` is called every ``REFRESH_S`` seconds.
    """

    def __init__(self, err: TextIO) -> None:
        self._console = Console(file=err, highlight=False)
        self._shown = False
        self._told_s: float | None = None
        self._run: LiveRun | None = None

    @property
    def live(self) -> bool:
        """Whether it is a terminal that can rewrite a line."""
        return self._console.is_terminal and not self._console.is_dumb_terminal

    def turn(self, run: LiveRun | None) -> None:
        """Show how far the run is; nothing when none is under way."""
        if run is not self._run:
            self._run, self._told_s = run, None
        if run is None or not run.running:
            self.clear()
            return
        if self.live:
            self._show(progress_text(figures_of(run)))
        elif self._told_s is None:
            self._told_s = run.now_s  # its beginning has just been told
        elif run.now_s - self._told_s >= BETWEEN_S:
            self._told_s = run.now_s
            log.info("%s", progress_text(figures_of(run)))

    def clear(self) -> None:
        """Take the line away; the next thing written stands in its place."""
        if self._shown:
            self._console.control(_LINE_AWAY)
            self._shown = False

    def keep_out_of(self, handlers: Iterable[logging.Handler]) -> None:
        """Have the line gone before any of these writes to the terminal."""
        if not self.live:
            return
        for handler in handlers:
            handler.addFilter(self._gone)

    def _gone(self, _: logging.LogRecord) -> bool:
        self.clear()
        return True

    def _show(self, text: str) -> None:
        self.clear()
        # A line that wraps could not be taken away again.
        self._console.print(
            text[: self._console.width - 1], end="", markup=False, no_wrap=True, soft_wrap=True
        )
        self._console.file.flush()
        self._shown = True


_LINE_AWAY = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


def figures_of(run: LiveRun) -> ProgressFigures:
    """What the line tells of a run, as it was at its last look."""
    plan, totals = run.state.plan, run.totals
    return ProgressFigures(
        directive=run.directive,
        stages=plan.stage_count,
        users=run.users,
        in_flight=run.state.in_flight,
        recent=recent(run.series, RECENT_S),
        ok=totals.ok,
        failed=totals.failed,
        rate_limited=totals.rate_limited_attempts,
        elapsed_s=run.now_s,
        expected_s=plan.expected_s,
    )


def show_progress(current: Callable[[], LiveRun | None]) -> gevent.Greenlet:
    """Show how far the runs of this process are, until it ends; ``current`` gives the present."""
    line = ProgressLine(sys.stderr)
    loggers = (None, "locust", "locust.stats_logger")
    line.keep_out_of({each for name in loggers for each in logging.getLogger(name).handlers})
    return gevent.spawn(_again_and_again, line, current)


def _again_and_again(line: ProgressLine, current: Callable[[], LiveRun | None]) -> None:
    while True:
        gevent.sleep(REFRESH_S)
        line.turn(current())
