"""Live runs for tests: a run's state without its files, and reports as workers send them."""

from types import SimpleNamespace

from hooks.live.run import LiveRun
from metrics.run_files import mark_to_wire
from metrics.stage import Phase, PhaseMark, Stage
from metrics.tally import TallyBook
from shapes.plan import Directive


def live_state(folder, levels=(2, 4), **changes):
    """What ``RunState`` shows of a ladder whose stages are known from the start."""
    plan = SimpleNamespace(
        stages=tuple(Stage(number, "level", users) for number, users in enumerate(levels)),
        stage_count=len(levels),
        expected_s=60.0,
        not_reached=frozenset(),
        void_reasons={},
        ended_early=None,
    )
    settings = SimpleNamespace(
        shape="ladder",
        max_fail_ratio=0.1,
        endpoint=SimpleNamespace(url="http://127.0.0.1:1/v1/chat/completions"),
    )
    values = {
        "run_id": "20260102T030405Z-abcdef",
        "name": "ladder",
        "model": "m",
        "folder": SimpleNamespace(path=folder),
        "settings": settings,
        "plan": plan,
        "book": TallyBook(),
        "workers": {"w1": "host"},
        "lost": set(),
        "in_flight": 2,
        "end_reason": None,
    }
    return SimpleNamespace(**{**values, **changes})


class Played:
    """A live run that is fed by hand; every worker's clock is the master's."""

    def __init__(self, state):
        self.state = state
        self.run = LiveRun(state)

    def enter(self, number, phase, at_s, users=2):
        """A phase of a stage begins, and each worker notes it."""
        stage = self.state.plan.stages[number]
        self.run.note(Directive(stage, phase, 1.0), at_s)
        marks = [PhaseMark(worker, stage, phase, at_s, users) for worker in self.state.workers]
        for mark in marks:
            self.report(mark.worker, marks=[mark_to_wire(mark)])

    def report(self, worker, records=(), marks=(), gaps_s=(0.1,), health=()):
        """A worker's report; ``health`` are (stage, name, value)."""
        for record in records:
            self.state.book.add(record, gaps_s)
        for stage, name, value in health:
            self.state.book.stage(stage).health[name].add(value)
        rows = [record.to_row() for record in records]
        self.run.accept({"worker": worker, "rows": rows, "marks": list(marks)})

    def look(self, now_s, alive=("w1",), users=2):
        """Two seconds have passed."""
        self.run.look(now_s, alive, users)

    def line(self, stage):
        """The stage's line of the table."""
        return self.run.lines[stage][1]


HOLD, RAMP, DRAIN = Phase.HOLD, Phase.RAMP, Phase.DRAIN
