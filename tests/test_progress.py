"""The line of progress: what it says, and that what is not known is left out."""

import logging
from io import StringIO
from types import SimpleNamespace

import pytest

from hooks.live.points import Point
from hooks.progress import ProgressFigures, duration, progress_text
from hooks.progress_line import BETWEEN_S, ProgressLine
from metrics.histogram import Histogram
from metrics.stage import Phase, Stage
from shapes.plan import Directive
from tests.support.live_runs import DRAIN, HOLD, RAMP, Played, live_state
from tests.support.records import make_record


def point(ok=0, tokens=0, ttft_s=(), length_s=10.0):
    """What came in the last seconds."""
    histogram = Histogram()
    histogram.add_many(ttft_s)
    found = {"ttft_s": histogram} if ttft_s else {}
    return Point(0.0, length_s, 12.0, 9, ok=ok, tokens=tokens, histograms=found)


def figures(phase=Phase.HOLD, stage=None, **changes):
    """A ladder's third level of eight."""
    values = {
        "directive": Directive(stage or Stage(2, "level", 12), phase, 1.0),
        "stages": 8,
        "users": 12,
        "in_flight": 9,
        "recent": point(ok=40, tokens=2000, ttft_s=(0.1,) * 72),
        "ok": 1234,
        "failed": 5,
        "rate_limited": 6,
        "elapsed_s": 60.0,
        "expected_s": 185.0,
    }
    return ProgressFigures(**{**values, **changes})


def test_a_line_has_stage_users_latency_rate_refusals_and_what_is_left():
    """Everything that somebody who waits wants to know."""
    assert (
        "stage 3/8 measuring, 12 users, TTFT p95 100 ms, 200 tokens/s, 6 x 429, 5 failed, "
        "1,234 ok, 9 in flight, about 2:05 left"
    ) == progress_text(figures())


def test_a_search_has_no_number_of_stages_and_no_end():
    """Neither is guessed: it tells how long it has gone on."""
    text = progress_text(figures(stages=None, expected_s=None))

    assert text.startswith("stage 3 measuring, ")
    assert text.endswith(", 1:00 so far")


def test_what_is_not_known_is_left_out():
    """No TTFT while nothing was held, no rate before the first point; never a 0 for it."""
    young = progress_text(figures(recent=None, in_flight=None))
    without_ttft = progress_text(figures(recent=point(ok=1, tokens=30)))

    assert "stage 3/8 measuring, 12 users, 6 x 429, 5 failed, 1,234 ok, about 2:05 left" == young
    assert "TTFT" not in without_ttft
    assert "3 tokens/s" in without_ttft


def test_tokens_that_a_server_does_not_tell_are_not_zero():
    """Successes without usage; without a success there is nothing to tell."""
    assert "tokens not told" in progress_text(figures(recent=point(ok=3)))
    assert ", 0 tokens/s" in progress_text(figures(recent=point()))


@pytest.mark.parametrize(("samples", "text"), [(71, "100 ms*"), (72, "100 ms,")])
def test_a_percentile_of_few_samples_is_marked(samples, text):
    """As in the report."""
    assert text in progress_text(figures(recent=point(ttft_s=(0.1,) * samples)))


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"phase": Phase.RAMP}, "stage 3/8 changing users, 12 users"),
        ({"phase": Phase.SETTLE, "users": 1}, "stage 3/8 settling, 1 user,"),
        ({"phase": Phase.DRAIN}, "draining, 12 users"),
        ({"phase": Phase.IDLE}, "stage 3/8 waiting idle, 12 users"),
        ({"phase": Phase.COLD, "stage": Stage(-2, "cold", 1)}, "cold start, 12 users"),
        ({"directive": None, "users": 0}, "starting, 0 users"),
        ({"stage": Stage(2, "rate", 2, rate_rps=5.0)}, "stage 3/8 measuring, 5 requests/s, TTFT"),
    ],
)
def test_every_phase_has_its_word(changes, start):
    """An open loop's load is its rate."""
    assert progress_text(figures(**changes)).startswith(start)


@pytest.mark.parametrize(
    ("elapsed_s", "end"), [(184.5, "about to end"), (400.0, "about to end"), (0.0, "3:05 left")]
)
def test_what_takes_longer_than_planned_is_about_to_end(elapsed_s, end):
    """Ramps take as long as they take; no time left is negative."""
    assert progress_text(figures(elapsed_s=elapsed_s)).endswith(end)


def test_times_are_read_as_on_a_clock():
    """Hours only where there are some."""
    assert ["0:00", "0:59", "1:00", "59:59", "1:00:00", "10:02:03"] == [
        duration(seconds) for seconds in (0, 59.4, 59.6, 3599, 3600, 36123)
    ]


class Terminal(StringIO):
    """What takes everything and says that it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def played(tmp_path):
    """A run whose first stage is held."""
    made = Played(live_state(tmp_path))
    made.enter(0, RAMP, 0.0)
    made.enter(0, HOLD, 1.0)
    made.report("w1", [make_record(worker="w1", started_s=1.1)])
    made.look(2.0)
    return made


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def shown(terminal):
    """What stands in the terminal's last line now."""
    return terminal.getvalue().rpartition("\x1b[2K")[2]


def test_a_terminal_has_one_line_that_is_written_anew(played, terminal):
    """No line end is ever written, so that nothing scrolls; it fits, so that it can go away."""
    line = ProgressLine(terminal)
    line.turn(played.run)
    first = shown(terminal)
    played.enter(0, DRAIN, 3.0)
    played.look(4.0)
    line.turn(played.run)

    assert first.startswith("stage 1/2 measuring, 2 users, TTFT p95 100 ms*")
    assert shown(terminal).startswith("draining, 2 users")
    assert "\n" not in terminal.getvalue()
    assert len(first) < 80


def test_the_line_is_gone_when_the_run_is_over(played, terminal):
    """And never there where none is under way."""
    line = ProgressLine(terminal)
    line.turn(None)
    assert "" == terminal.getvalue()
    line.turn(played.run)
    played.run.end(5.0)
    line.turn(played.run)

    assert "" == shown(terminal)


def test_a_log_line_takes_the_place_of_the_line(played, terminal):
    """Else both stood in one."""
    handler = logging.StreamHandler(terminal)
    line = ProgressLine(terminal)
    line.keep_out_of([handler])
    line.turn(played.run)
    handler.handle(logging.makeLogRecord({"msg": "stage 2"}))

    assert "stage 2\n" == shown(terminal)


@pytest.mark.parametrize("kind", [StringIO, Terminal])
def test_without_a_terminal_there_are_whole_lines_now_and_then(played, kind, caplog, monkeypatch):
    """A file, and a terminal that cannot rewrite a line: one each 15 s, with no escape in it."""
    monkeypatch.setenv("TERM", "dumb")
    caplog.set_level(logging.INFO, "swarmgauge")
    err = kind()
    line = ProgressLine(err)
    told = []
    for second in range(2, 62, 2):
        played.look(second + 1.0)
        line.turn(played.run)
        told.append(len(caplog.messages))
    played.run.end(99.0)
    line.turn(played.run)

    assert "" == err.getvalue()
    assert 3 == len(caplog.messages) == told[-1]
    assert all(text.startswith("stage 1/2 measuring, 2 users") for text in caplog.messages)
    assert [0, 1] == [told[int(BETWEEN_S / 2) - 1], told[int(BETWEEN_S / 2) + 1]]


def test_another_run_of_the_process_starts_the_wait_anew(played, caplog, tmp_path):
    """Its times begin at 0."""
    caplog.set_level(logging.INFO, "swarmgauge")
    line = ProgressLine(StringIO())
    for now_s in (100.0, 120.0):
        played.look(now_s)
        line.turn(played.run)
    then = Played(live_state(tmp_path, stage_count=SimpleNamespace()))
    then.enter(0, HOLD, 0.0)
    for now_s in (2.0, 10.0, 18.0):
        then.look(now_s)
        line.turn(then.run)

    assert 2 == len(caplog.messages)
