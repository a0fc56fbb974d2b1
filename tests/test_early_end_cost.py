"""What a run under way is reckoned to have cost, by the records of its ended requests."""

from types import SimpleNamespace

import pytest

from hooks.early_end import EarlyEnds
from metrics.outcome import Outcome
from options import DEFAULTS
from settings import Settings
from tests.support.records import failed_record, make_record

NO_USAGE = {"prompt_tokens": None, "completion_tokens": None}
LEFT = {"outcome": Outcome.CANCELLED, "asked_max_tokens": 48, **NO_USAGE}


def spent(*records, **options):
    """The sum that the order to stop names, in cents; a token costs one."""
    options = {"price_in": 1e4, "price_out": 1e4, "budget": 1e-6, **options}
    settings = Settings.from_options(
        {**DEFAULTS, "host": "http://127.0.0.1", "run_time": 9, **options}, lambda name: ""
    )
    ends = EarlyEnds(SimpleNamespace(register_message=lambda *_: None))
    plan = ends.bound("run", SimpleNamespace(), settings, 5.0)
    ends.accept({"rows": [record.to_row() for record in records]})
    ends.check(0, None)
    reason = plan.ended_early.reason
    return round(float(reason.partition(": $")[2].partition(" spent")[0]) * 100)


OK = make_record(prompt_tokens=10, completion_tokens=10, chunks=5)


@pytest.mark.parametrize(
    ("record", "tokens"),
    [
        (make_record(**LEFT, chunks=3), 10 + 8),
        (make_record(**LEFT, chunks=40), 10 + 48),
        (make_record(**LEFT, chunks=0, status=None), 10 + 2),
        (make_record(**LEFT, chunks=0, stream_asked=False), 10 + 48),
        (make_record(**LEFT, chunks=0, status=429), 0),
        (make_record(**LEFT, chunks=0, attempts=0, status=None), 0),
        (failed_record(Outcome.INTERRUPTED, 200, chunks=3, asked_max_tokens=48), 10 + 8),
        (failed_record(), 0),
        (failed_record(Outcome.CONNECT_ERROR, None), 0),
    ],
    ids=[
        "in mid-answer",
        "near its end",
        "before any output",
        "a whole answer",
        "in a pause before a retry",
        "never sent",
        "lost in mid-answer",
        "refused",
        "no connection",
    ],
)
def test_what_told_no_usage_is_reckoned_from_the_others(record, tokens):
    """Prompts as long as theirs; a chunk more than was seen, of as many tokens as theirs, and
    never more than was asked for; nothing for what the server did not let in."""
    assert 20 + tokens == spent(OK, record)


def test_lost_attempts_that_were_let_in_are_paid_for():
    """A 200 that broke costs its prompt and what it made; a 429 costs nothing."""
    lost = {"attempts": 3, "lost_status": (429, 200), "wasted_tokens": 4}
    retried = make_record(prompt_tokens=10, completion_tokens=10, chunks=5, **lost)
    assert 20 + 10 + 4 == spent(retried)


def test_a_failure_with_usage_is_paid_for_once():
    """Its wasted tokens are its own completion."""
    broken = make_record(
        outcome=Outcome.TRUNCATED, prompt_tokens=10, completion_tokens=6, wasted_tokens=6
    )
    assert 16 == spent(broken)
