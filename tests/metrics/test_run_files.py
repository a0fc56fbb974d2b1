"""Request rows on disk: what is written reads back, also after a kill."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.run_files import (
    REQUESTS_SCHEMA,
    RunFileError,
    check_schema,
    header_line,
    mark_from_wire,
    mark_to_wire,
    read_rows,
    row_line,
)
from metrics.stage import Phase, PhaseMark, Stage
from tests.support.records import failed_record, make_record


def test_records_read_back_as_they_were():
    """Enums, None and numbers survive the file."""
    records = [make_record(), failed_record(error_sample='bad, "very" bad')]
    lines = [header_line(), *(row_line(record.to_row()) for record in records)]

    assert records == list(read_rows(lines))


@given(st.integers(0, 400))
def test_O03_a_torn_last_line_loses_only_itself(cut):
    """A file cut anywhere gives every whole record before the cut."""
    lines = [header_line(), *(row_line(make_record(sequence=n).to_row()) for n in range(3))]
    body = b"".join(lines)
    whole = body[: len(lines[0]) + len(lines[1]) + min(cut, len(lines[2]) - 1)]

    assert [record.sequence for record in read_rows(whole.splitlines(keepends=True))] == [0]


def test_a_garbled_line_is_named():
    """A finished line that does not parse is an error with its number, not a skipped row."""
    lines = [header_line(), b"[1,2]\n"]

    with pytest.raises(RunFileError, match="line 2"):
        list(read_rows(lines))


def test_a_newer_file_is_refused_and_an_older_row_is_read():
    """Unknown columns of a newer minor writer are ignored, a newer schema is refused."""
    names = ["run_id", "new_column"]
    newer = json.dumps({"schema": "swarmgauge.requests/9", "fields": names}).encode() + b"\n"

    with pytest.raises(RunFileError, match="newer"):
        list(read_rows([newer]))
    with pytest.raises(RunFileError, match="not a"):
        check_schema("somebody.else/1", REQUESTS_SCHEMA, "x")


def test_O10_a_row_is_small():
    """One request takes under 700 bytes as a line, with an error text and all."""
    record = failed_record(error_sample="x" * 160, request_id="r" * 40)

    assert len(row_line(record.to_row())) < 700


def test_unpaired_surrogates_do_not_break_the_file():
    """Whatever a server's text holds, the line is valid UTF-8."""
    line = row_line(failed_record(error_sample="bad \ud83d end").to_row())

    assert "bad" in line.decode("utf-8")


def test_marks_read_back_as_they_were():
    """A phase mark survives its plain form."""
    mark = PhaseMark("w", Stage(3, "level", 8), Phase.HOLD, 12.5, 8)

    assert mark == mark_from_wire(mark_to_wire(mark))
