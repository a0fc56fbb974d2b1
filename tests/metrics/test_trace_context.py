"""``traceparent``: valid by W3C's grammar, one trace for a request, one parent for an attempt."""

import re

import pytest

from metrics.trace_context import SAMPLINGS, parent_id, trace_id, traceparent
from tests.support.records import make_record

VALID = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[01]")
NAMES = [f"20260102T030405Z-abcdef-worker-{number}" for number in range(2000)]


@pytest.mark.parametrize("sampling", [name for name in SAMPLINGS if name != "off"])
def test_every_header_is_valid(sampling):
    """Version 00, lower-case hexadecimal digits of the right number, nothing all zeros."""
    headers = [traceparent(name, 0, sampling) for name in NAMES]

    assert [] == [header for header in headers if not VALID.fullmatch(header)]


def test_each_request_has_a_trace_and_each_attempt_a_parent_of_its_own():
    """No two of two thousand requests with three attempts each are told apart by chance only."""
    traces = {trace_id(name) for name in NAMES}
    parents = {parent_id(name, attempt) for name in NAMES for attempt in range(3)}

    assert len(NAMES) == len(traces)
    assert 3 * len(NAMES) == len(parents)


def test_the_attempts_of_a_request_share_its_trace():
    """Only the parent differs."""
    first, second = (traceparent("run-w-7", attempt, "sampled").split("-") for attempt in (0, 1))

    assert first[1] == second[1] == trace_id("run-w-7")
    assert first[2] != second[2]


def test_the_flag_says_what_was_asked_for():
    """Sampled, not sampled, or no header at all."""
    headers = [traceparent("run-w-7", 0, sampling) for sampling in SAMPLINGS]

    assert ["01", "00", None] == [header and header[-2:] for header in headers]


def test_a_record_of_an_old_run_gives_the_trace_too():
    """It follows from the request's id, whatever columns a version has."""
    record = make_record(request_id="run-w-7")

    assert trace_id("run-w-7") == record.trace_id
    assert make_record(request_id=None).trace_id is None
    assert make_record(request_id="run-w-7", attempts=0).trace_id is None
