"""What several tests with servers and Locust use."""

import contextlib

import pytest


@pytest.fixture
def stack():
    """Ends what a test has started, the last first."""
    with contextlib.ExitStack() as processes:
        yield processes
