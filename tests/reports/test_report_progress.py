"""What long report work says of itself."""

import io
import re
from itertools import pairwise

from reports.faces.progress import BETWEEN_S, QUIET_S, Progress
from tests.support.terminals import Terminal


class Clock:
    """A clock that is set by hand, in seconds."""

    def __init__(self):
        self.at_s = 0.0

    def __call__(self):
        return self.at_s


def test_quick_work_says_nothing_and_long_work_a_line_now_and_then():
    """Nothing in the first 10 s; then never two lines within 5 s; steps are counted."""
    err, clock = io.StringIO(), Clock()
    with Progress(err, 40, clock_s=clock) as progress:
        for number in range(40):
            progress.step(f"plot {number}")
            clock.at_s += 1.0

    lines = err.getvalue().splitlines()
    told_s = [int(re.search(r", (\d+) s$", line)[1]) for line in lines]
    assert QUIET_S == told_s[0]
    assert all(b - a >= BETWEEN_S for a, b in pairwise(told_s))
    assert "swarmgauge: report: plot 10 (11 of 40), 10 s" == lines[0]


def test_what_is_known_to_take_long_is_told_before_it_begins():
    """Many rows: the line is there at 0 s; --quiet has none."""
    for quiet in (False, True):
        err = io.StringIO()
        with Progress(err, 4, quiet, Clock()) as progress:
            progress.step("reading the rows", long=True)

        assert ("reading the rows (1 of 4), 0 s" in err.getvalue()) != quiet


def test_a_terminal_has_one_live_line_that_goes_again(monkeypatch):
    """The line is written over itself, and the last thing done is to erase it."""
    monkeypatch.setenv("TERM", "xterm-256color")
    err = Terminal()
    with Progress(err, 2, clock_s=Clock()) as progress:
        progress.step("figures")
        progress.step("page")

    text = err.getvalue()
    assert "swarmgauge:" not in text
    assert "report" in text
    assert text.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))
