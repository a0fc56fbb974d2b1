"""Settings that a search cannot be run with, whoever asks for them."""

import pytest

from hooks.run_options import checked_settings
from options import DEFAULTS
from settings import SettingsError

LOCUSTS = {"host": "http://127.0.0.1:1", "num_users": None, "spawn_rate": None, "run_time": None}


def checked(workers=1, **given):
    """The settings of a run with these options on so many processes."""
    return checked_settings({**LOCUSTS, **DEFAULTS, **given}, workers)


@pytest.mark.parametrize(
    ("users", "most", "workers", "said"),
    [
        (32, 4, 1, "write 32 or more, or search only up to 4 users"),
        (32, 31, 1, "write 32 or more, or search only up to 31 users"),
        (33, 33, 2, "write 34 or more, or search only up to 32 users"),
        (None, 200, 1, "write 256 or more, or search only up to 200 users"),
    ],
)
def test_a_search_is_refused_fewer_in_flight_than_users(users, most, workers, said):
    """The client would be the limit that is found. Of two workers one may have 17 of 33 users and
    16 of 33 slots, so that 33 are too few there."""
    with pytest.raises(SettingsError) as caught:
        checked(workers, shape="knee", num_users=users, max_in_flight=most)

    assert str(caught.value).startswith(f"--max-in-flight {most}: a search up to")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("workers", "given"),
    [
        (1, {"shape": "knee", "num_users": 32, "max_in_flight": 32}),
        (2, {"shape": "knee", "num_users": 33, "max_in_flight": 34}),
        (1, {"shape": "knee", "num_users": 32}),
        (1, {"shape": "ladder", "stages": "1,32", "max_in_flight": 4}),
        (1, {"shape": "constant", "num_users": 32, "max_in_flight": 4}),
        (1, {"shape": "knee", "cancel_ratio": 0.9}),
        (1, {"shape": "constant", "cancel_ratio": 1.0}),
    ],
)
def test_enough_slots_and_other_shapes_pass(workers, given):
    """A ladder may be held above the bound; its report says what that is worth."""
    assert given["shape"] == checked(workers, **given).shape


def test_a_search_needs_users_who_wait():
    """Without any success no level would ever end but by its time."""
    with pytest.raises(SettingsError, match="--cancel-ratio 1: a search reads successes"):
        checked(shape="knee", cancel_ratio=1.0)
