"""What a search for limits is told of the attempts while the run goes on."""

import numpy as np
import pytest

from hooks.attempt_log import AttemptLog
from metrics.outcome import Outcome
from tests.support.records import failed_record, make_record


def mark(worker, at_s):
    return {"worker": worker, "stage": 0, "phase": "ramp", "at_s": at_s}


def log_of(*records, marks=()):
    """A log that was fed with one report."""
    log = AttemptLog()
    log.accept({"rows": [record.to_row() for record in records], "marks": list(marks)})
    return log


def test_attempts_of_all_workers_are_on_one_clock():
    """The first announcement is one moment on both clocks; later ones move nothing."""
    a = make_record(worker="a", started_s=12.0)
    b = make_record(worker="b", started_s=102.0)
    log = log_of(a, b, marks=[mark("a", 10.0), mark("b", 100.0), mark("a", 11.0)])

    sent_s = log.attempts().sent_s
    assert sent_s[0] == pytest.approx(sent_s[1])
    assert 2.0 <= sent_s[0] < 2.5


def test_each_attempt_of_a_request_is_one():
    """Refused, then answered: the first has its own times and only the wait that 429s have."""
    record = make_record(
        attempts=2,
        lost_sent_s=(0.1,),
        lost_end_s=(0.2,),
        lost_status=(429,),
        asked_wait_s=3.0,
        rate_limited_attempts=1,
        started_s=5.0,
    )
    attempts = log_of(record, marks=[mark(record.worker, 0.0)]).attempts()

    assert ([False, True], [True, False]) == (list(attempts.accepted), list(attempts.limited))
    assert (5.1, 5.2) == (pytest.approx(attempts.sent_s[0]), pytest.approx(attempts.ended_s[0]))
    assert 3.0 == attempts.retry_after_s[0]
    assert np.isnan(attempts.retry_after_s[1])


def test_a_stage_has_its_own_attempts_only():
    """Those of other stages are in the whole run's."""
    log = log_of(make_record(stage=0), make_record(stage=1), make_record(stage=1))

    assert (1, 2, 3) == (len(log.attempts(0)), len(log.attempts(1)), len(log.attempts()))
    assert 0 == len(log.attempts(7))


@pytest.mark.parametrize(
    ("outcome", "status", "accepted", "limited"),
    [
        (Outcome.RATE_LIMITED, 429, False, True),
        (Outcome.SERVER_ERROR, 500, False, False),
        (Outcome.CONNECT_ERROR, None, False, False),
        (Outcome.TOTAL_TIMEOUT, None, True, False),
        (Outcome.INTERRUPTED, 200, True, False),
    ],
)
def test_what_was_let_in_is_accepted_whatever_became_of_it(outcome, status, accepted, limited):
    """A limiter charges what it lets in, and refuses with 429 alone."""
    attempts = log_of(failed_record(outcome=outcome, status=status)).attempts()

    assert [accepted] == list(attempts.accepted)
    assert [limited] == list(attempts.limited)


def test_what_was_never_sent_is_no_attempt():
    """It waited for a slot until the end."""
    assert 0 == len(log_of(failed_record(outcome=Outcome.NOT_SENT, attempts=0)).attempts())


def test_a_refusal_that_was_not_read_is_neither_let_in_nor_refused():
    """Who left as early as a 429 takes may have been refused; who left later was not."""
    refused = failed_record(Outcome.RATE_LIMITED, 429, rate_limited_attempts=1)
    left = {"outcome": Outcome.CANCELLED, "status": None, "streamed": False, "ttft_s": None}
    early, late = (
        make_record(**left, last_token_s=None, end_s=end_s, user_latency_s=end_s)
        for end_s in (refused.end_s / 2, refused.end_s * 2)
    )
    attempts = log_of(refused, early, late).attempts()

    assert ([False, True], [True, False]) == (list(attempts.accepted), list(attempts.limited))
