"""The options of the endpoint open a port of one machine: they are no part of what a run asks."""

from options import DEFAULTS
from reports.comparison.sameness import MAY_DIFFER, OF_THE_RUN
from reports.repeat import command_line
from tests.support.run_builder import META

GIVEN = {"metrics_port": 9646, "metrics_host": "0.0.0.0"}


def test_a_command_to_repeat_a_run_opens_no_port():
    """Pasted on another machine it would listen on all its addresses."""
    command = command_line({**META, "settings": {**DEFAULTS, **GIVEN}})

    assert "metrics" not in command


def test_runs_with_and_without_the_endpoint_can_be_compared():
    """What was asked of the server is the same; sampled traces are told of, for they cost it."""
    assert GIVEN.keys() <= OF_THE_RUN
    assert "traceparent" in MAY_DIFFER
