"""Lines of progress."""

from types import SimpleNamespace

import pytest

from hooks.run_state import RunState
from metrics.stage import Phase, Stage


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("limits", "stage 3: waiting idle, because next to nothing was let through"),
        ("knee", "stage 3: waiting idle, so that what went wrong may settle"),
    ],
)
def test_a_pause_is_told_with_its_reason(shape, why):
    """A search for limits waits for a limiter that is shut; a search for a knee for calm."""
    state = SimpleNamespace(settings=SimpleNamespace(shape=shape))

    assert why == RunState.describe(state, Stage(2, "rate", 1, 4.0), Phase.IDLE, 0)
