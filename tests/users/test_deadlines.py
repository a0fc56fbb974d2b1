"""The limits on waiting: how long a read may take, and which limit ended it."""

import pytest

from metrics.outcome import Outcome
from settings import TimeLimits
from users.deadlines import Deadlines, LimitReached


def _deadlines(first_token_s=2.0, idle_s=1.0, total_s=None):
    return Deadlines(TimeLimits(None, first_token_s, idle_s, total_s))


@pytest.mark.parametrize(
    ("elapsed_s", "started", "last_output_s", "left_s"),
    [
        (0.0, False, 0.0, 2.0),
        (1.5, False, 0.0, 0.5),
        (0.1, True, 0.1, 1.0),
        (0.9, True, 0.1, 0.2),
        (12.0, True, 11.2, 0.2),
    ],
    ids=["sent", "waiting", "first token", "silent", "long stream"],
)
def test_E12_the_time_left_is_that_of_the_nearest_limit(elapsed_s, started, last_output_s, left_s):
    """The first-token limit counts from the send, the idle limit from the last output."""
    left = _deadlines().remaining_s(elapsed_s, started, last_output_s)

    assert pytest.approx(left_s) == left


def test_E12_a_stream_that_falls_silent_ends_after_the_idle_limit():
    """One token at 100 ms, then nothing: over at 1.1 s, as an idle timeout."""
    deadlines = _deadlines()

    assert deadlines.remaining_s(1.09, True, 0.1) > 0
    with pytest.raises(LimitReached, match=r"no output for 1\.0 s") as caught:
        deadlines.remaining_s(1.1, True, 0.1)

    assert caught.value.outcome is Outcome.IDLE_TIMEOUT


def test_E12_a_slow_stream_never_ends_by_time():
    """A token each 0.8 s for 12 s is within an idle limit of 1 s."""
    deadlines = _deadlines()

    for token in range(1, 16):
        assert deadlines.remaining_s(token * 0.8 + 0.79, True, token * 0.8) > 0


def test_E12_comments_do_not_stand_for_the_first_token():
    """Pings each 0.5 s and no token: over at 2 s, as a first-token timeout."""
    deadlines = _deadlines()

    for ping in range(1, 4):
        assert deadlines.remaining_s(ping * 0.5, False) > 0
    with pytest.raises(LimitReached, match="no token in 2 s") as caught:
        deadlines.remaining_s(2.0, False)

    assert caught.value.outcome is Outcome.FIRST_TOKEN_TIMEOUT


@pytest.mark.parametrize(
    ("elapsed_s", "started", "last_output_s"),
    [(5.0, True, 4.9), (5.0, False, 0.0), (9.0, True, 1.0)],
    ids=["in a stream", "before the first token", "beside the idle limit"],
)
def test_E12_the_total_limit_goes_before_the_others(elapsed_s, started, last_output_s):
    """Whatever else is over, a request past its total limit is a total timeout."""
    deadlines = _deadlines(first_token_s=5.0, total_s=5.0)

    with pytest.raises(LimitReached, match="not finished in 5 s") as caught:
        deadlines.remaining_s(elapsed_s, started, last_output_s)

    assert caught.value.outcome is Outcome.TOTAL_TIMEOUT


def test_the_total_limit_shortens_the_wait():
    """With 0.2 s left in all, an idle limit of 1 s does not allow a second."""
    assert pytest.approx(0.2) == _deadlines(total_s=5.0).remaining_s(4.8, True, 4.7)


@pytest.mark.parametrize(
    ("limits", "started"),
    [
        ({"first_token_s": None, "idle_s": None}, False),
        ({"first_token_s": None, "idle_s": None}, True),
        ({"first_token_s": None}, False),
        ({"idle_s": None}, True),
    ],
    ids=["all off before", "all off after", "first token off", "idle off"],
)
def test_a_limit_that_is_off_waits_for_ever(limits, started):
    """The other phase's limit does not stand in for it."""
    assert _deadlines(**limits).remaining_s(1e6, started) is None


@pytest.mark.parametrize(
    ("elapsed_s", "started", "outcome"),
    [
        (2.0, False, Outcome.FIRST_TOKEN_TIMEOUT),
        (2.0, True, Outcome.IDLE_TIMEOUT),
        (4.9995, True, Outcome.TOTAL_TIMEOUT),
        (4.9995, False, Outcome.TOTAL_TIMEOUT),
    ],
    ids=["first token", "idle", "total in a stream", "total before"],
)
def test_a_read_that_timed_out_knows_its_limit(elapsed_s, started, outcome):
    """A read may return a shade before the total limit it was given."""
    assert outcome is _deadlines(total_s=5.0).reached(elapsed_s, started, 1.0).outcome
