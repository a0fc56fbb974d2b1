"""What falls into a held window, on each worker's own clock."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.stage import Phase, PhaseMark, Stage
from reports.load import frame_of
from reports.windows import Window, held_windows, overlap_ratio, window_rates
from tests.support.records import make_record

STAGE = Stage(0, "level", 2)


def answer(started_s, last_s, first_s=0.0, tokens=100, worker="w"):
    """A success sent at once: first token and last token after so many seconds."""
    return make_record(
        worker=worker,
        started_s=started_s,
        ttft_s=first_s,
        last_token_s=last_s,
        end_s=last_s,
        user_latency_s=last_s,
        completion_tokens=tokens,
    )


def test_edges_are_credited_by_time():
    """Answers half in and half out give half their tokens; completions count by their end."""
    records = [answer(-5, 10), answer(-1, 2), answer(5, 10), answer(2, 4), answer(20, 1)]

    rates = window_rates([Window("w", 0.0, 10.0)], frame_of(records))

    assert 25.0 == pytest.approx(rates.output_tokens_per_s)
    assert 0.3 == pytest.approx(rates.completed_rps)
    assert 0.2 == pytest.approx(rates.sent_rps)
    assert (5 + 1 + 5 + 4) / 10 == pytest.approx(rates.in_flight)


def test_waiting_for_the_first_token_earns_no_tokens():
    """A request that decodes only after the window gives it nothing."""
    records = frame_of([answer(0, 20, first_s=15)])

    assert 0.0 == window_rates([Window("w", 0.0, 10.0)], records).output_tokens_per_s


def test_workers_with_different_clocks_add_up():
    """The same load on two workers whose clocks are 1,000 s apart: twice the rate, one window."""
    here = [answer(n, 1.0, worker="a") for n in range(10)]
    there = [answer(1000 + n, 1.0, worker="b") for n in range(10)]
    windows = [Window("a", 0.0, 10.0), Window("b", 1000.0, 1010.0)]

    rates = window_rates(windows, frame_of(here + there))

    assert 10.0 == rates.window_s
    assert 200.0 == pytest.approx(rates.output_tokens_per_s)
    assert 2.0 == pytest.approx(rates.sent_rps)


def test_no_window_gives_no_rate():
    """Nothing held, or a window of no length: None, never a division."""
    records = frame_of([answer(0, 1)])

    for windows in ([], [Window("w", 3.0, 3.0)]):
        assert window_rates(windows, records).output_tokens_per_s is None


def test_a_window_ends_at_the_next_mark():
    """From HOLD to whatever follows on the same worker."""
    marks = [
        PhaseMark("a", STAGE, Phase.RAMP, 0.0, 0),
        PhaseMark("a", STAGE, Phase.HOLD, 2.0, 2),
        PhaseMark("b", STAGE, Phase.HOLD, 7.0, 2),
        PhaseMark("a", Stage(1, "level", 4), Phase.RAMP, 12.0, 2),
        PhaseMark("b", Stage(1, "level", 4), Phase.RAMP, 17.5, 2),
    ]

    windows = held_windows(marks, frame_of([]))

    assert [Window("a", 2.0, 12.0), Window("b", 7.0, 17.5)] == windows[0]


@given(
    st.lists(st.tuples(st.floats(-50, 50), st.floats(0, 60)), min_size=1, max_size=20),
    st.lists(st.floats(-40, 40), min_size=2, max_size=6, unique=True),
)
def test_neighbouring_windows_share_every_answer_exactly(spans, edges):
    """The credits of windows that tile a stretch add up to the credit of the whole stretch."""
    first_s = np.array([begin for begin, _ in spans])
    last_s = first_s + np.array([length for _, length in spans])
    edges = sorted(edges)

    parts = sum(overlap_ratio(first_s, last_s, begin, end) for begin, end in pairwise(edges))

    whole = overlap_ratio(first_s, last_s, edges[0], edges[-1])
    assert whole == pytest.approx(parts, abs=1e-6)
    assert (whole <= 1 + 1e-9).all()


def test_a_window_begins_after_the_last_warm_up_request():
    """Warm-up requests at 2 and 4 s of a window from 0 to 10 s: 6 s are left, and only what was
    started in them is counted."""
    marks = [
        PhaseMark("w", STAGE, Phase.HOLD, 0.0, 2),
        PhaseMark("w", Stage(1, "drain", 0), Phase.DRAIN, 10.0, 0),
    ]
    times = [(2, Phase.WARMUP), (4, Phase.WARMUP), (5, Phase.HOLD), (7, Phase.HOLD)]
    records = frame_of([make_record(worker="w", started_s=at, phase=phase) for at, phase in times])

    (window,) = held_windows(marks, records)[0]
    rates = window_rates([window], records)

    assert 6.0 == pytest.approx(window.length_s, abs=1e-5)
    assert 2 / 6 == pytest.approx(rates.sent_rps, rel=1e-5)


def test_warm_up_on_one_worker_leaves_the_others_window_whole():
    """Each worker left out its own share."""
    marks = [
        mark
        for worker in ("a", "b")
        for mark in (
            PhaseMark(worker, STAGE, Phase.HOLD, 0.0, 2),
            PhaseMark(worker, Stage(1, "drain", 0), Phase.DRAIN, 10.0, 0),
        )
    ]
    records = frame_of([make_record(worker="a", started_s=3, phase=Phase.WARMUP)])

    lengths_s = {window.worker: window.length_s for window in held_windows(marks, records)[0]}

    assert {"a": pytest.approx(7.0, abs=1e-5), "b": 10.0} == lengths_s
