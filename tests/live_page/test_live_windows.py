"""The live rates of held windows are the report's, whatever the order in which reports came."""

import random

import pytest

from hooks.live.windows import HeldWindows
from metrics.outcome import Outcome
from metrics.run_files import mark_to_wire
from metrics.stage import Phase, PhaseMark, Stage
from reports.load import frame_of
from reports.windows import held_windows, window_rates
from tests.support.records import failed_record, make_record

LEVELS = (Stage(0, "level", 2), Stage(1, "level", 4), Stage(2, "level", 8))


def random_marks(chance, worker):
    """Settle and hold of each level, then the drain, on the worker's own clock."""
    at_s, marks = chance.uniform(0, 1), []
    for stage in LEVELS:
        for phase, length_s in ((Phase.SETTLE, 1.5), (Phase.HOLD, chance.uniform(3, 5))):
            marks.append(PhaseMark(worker, stage, phase, at_s, stage.target_users))
            at_s += length_s
    return [*marks, PhaseMark(worker, Stage(3, "drain", 0), Phase.DRAIN, at_s, 0)]


def random_record(chance, worker, marks):
    """A request of any kind, of the phase in which it was started."""
    began_s = chance.uniform(marks[0].at_s, marks[-1].at_s - 1e-3)
    mark = [mark for mark in marks if mark.at_s <= began_s][-1]
    of = {"worker": worker, "started_s": began_s, "stage": mark.stage.id, "phase": mark.phase}
    kind = chance.random()
    if kind < 0.15:
        return failed_record(**of, end_s=0.3, user_latency_s=0.3)
    if kind < 0.2:
        return failed_record(Outcome.NOT_SENT, None, **of, end_s=0.0, user_latency_s=0.0)
    ttft_s, end_s = chance.uniform(0.01, 1), chance.uniform(1, 6)
    waited_s = chance.choice((0.0, 0.4))
    times = {"ttft_s": ttft_s, "last_token_s": end_s, "end_s": end_s + 0.01}
    tokens = chance.choice((None, 0, 1, 40))
    if kind < 0.4:
        times = {"ttft_s": None, "ttfa_s": None, "last_token_s": None, "end_s": end_s}
    return make_record(
        **of,
        **times,
        streamed=kind >= 0.4,
        completion_tokens=tokens,
        user_latency_s=end_s + waited_s,
    )


def play(records, marks, chance):
    """The run's reports, once a second and worker: marks first, then what has ended."""
    windows = HeldWindows()
    for worker in sorted({mark.worker for mark in marks}):
        own = [record for record in records if record.worker == worker]
        chance.shuffle(own)
        for second in range(60):
            due = [m for m in marks if m.worker == worker and second <= m.at_s < second + 1]
            windows.mark(map(mark_to_wire, due))
            ended = [
                one for one in own if second <= one.started_s + one.user_latency_s < second + 1
            ]
            windows.add(worker, [one.to_row() for one in ended])
    return windows


@pytest.mark.parametrize("seed", range(12))
def test_live_rates_are_the_reports_at_the_end(seed):
    """Sent, completed, tokens/s, in flight and length of every window, over two workers."""
    chance = random.Random(seed)
    marks = [mark for worker in ("w1", "w2") for mark in random_marks(chance, worker)]
    by_worker = {w: [m for m in marks if m.worker == w] for w in ("w1", "w2")}
    records = [
        random_record(chance, worker, by_worker[worker])
        for worker in ("w1", "w2")
        for _ in range(60)
    ]
    live = play(records, marks, chance)
    frame = frame_of(records)
    held = held_windows(marks, frame)

    assert len(records) == live.requests
    for stage in LEVELS:
        wanted, found = window_rates(held[stage.id], frame), live.rates(stage.id)
        for name in ("window_s", "sent_rps", "completed_rps", "output_tokens_per_s", "in_flight"):
            assert getattr(found, name) == pytest.approx(getattr(wanted, name)), (stage.id, name)


def test_an_open_window_goes_by_the_answers_that_ended_in_it():
    """Of 2 s, one answer of 5 tokens: 2.5 tokens/s, though it began before the window."""
    windows = HeldWindows()
    windows.mark([mark_to_wire(PhaseMark("w1", LEVELS[0], Phase.HOLD, 1.0, 2))])
    windows.add("w1", [make_record(worker="w1", started_s=0.8, phase=Phase.SETTLE).to_row()])

    open_rates, at_the_end = windows.rates(0, held_s=2.0), windows.rates(0)
    assert (2.0, 0.0, 2.5) == (
        open_rates.window_s,
        open_rates.sent_rps,
        open_rates.output_tokens_per_s,
    )
    assert at_the_end.window_s == pytest.approx(0.3), "up to the last end that is known"


def test_what_was_never_held_has_no_rates():
    """None, which is not zero."""
    assert HeldWindows().rates(0).window_s is None
    assert HeldWindows().rates(0).output_tokens_per_s is None


def test_a_window_begins_after_the_last_warm_up_request():
    """As in the report: requests left out by --warmup-requests are not waited for."""
    windows = HeldWindows()
    windows.mark([mark_to_wire(PhaseMark("w1", LEVELS[0], Phase.HOLD, 0.0, 2))])
    first = make_record(worker="w1", started_s=1.0, phase=Phase.WARMUP)
    windows.add("w1", [first.to_row(), make_record(worker="w1", started_s=2.0).to_row()])
    windows.mark([mark_to_wire(PhaseMark("w1", LEVELS[0], Phase.DRAIN, 3.0, 0))])

    assert windows.rates(0).window_s == pytest.approx(2.0, abs=1e-5)
    assert windows.rates(0).sent_rps == pytest.approx(0.5, abs=1e-5)
