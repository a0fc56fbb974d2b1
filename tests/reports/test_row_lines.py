"""Rows of lines are read many at a time, and say what they say when read one by one."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import reports.row_lines
from metrics.outcome import ReadMode
from metrics.record import FIELD_NAMES, RequestRecord
from metrics.run_files import RunFileError, header_line, json_line, read_rows, row_line
from metrics.stage import Phase
from reports.load import load_run
from reports.parquet import keep_as_parquet
from reports.row_columns import UNREAD
from reports.row_lines import table_of_lines
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered

REPORTS = Path(__file__).resolve().parents[2] / "reports"


def chance_record(rng, number):
    """A record with whatever a run may put into one."""
    lost = rng.choice([0, 0, 0, 1, 3])
    make = rng.choice([make_record, make_record, failed_record])
    changes = {
        "worker": rng.choice(["b", "a", "名前"]),
        "user": rng.randrange(5),
        "sequence": number,
        "stage": rng.choice([None, 0, 1]),
        "phase": rng.choice([None, *Phase]),
        "started_s": rng.choice([1.0, 1.5, rng.uniform(0, 9)]),
        "session": rng.choice([None, "s, 1"]),
        "turn": rng.choice([None, 2]),
        "buffered": rng.random() < 0.2,
        "completion_tokens": rng.choice([None, 0, 1, 2, 2**40]),
        "max_gap_s": rng.choice([None, 0, 1]),
        "error_sample": rng.choice([None, '=1+1, "a"\t名前', ""]),
        "attempts": lost + 1,
        "lost_sent_s": tuple(rng.random() for _ in range(lost)),
        "lost_end_s": tuple(rng.random() for _ in range(lost)),
        "lost_status": tuple(rng.choice([0, 429, 503]) for _ in range(lost)),
        "read_mode": rng.choice(list(ReadMode)),
        "limit_tokens": rng.choice([None, 10**12]),
        "reset_s": rng.choice([None, 3, 0.25]),
    }
    return make(**changes)


def by_start(records):
    """The order that everything is read in."""
    return sorted(records, key=lambda r: (r.started_s, r.worker, r.sequence))


def written(path, records, *extra):
    """A file of these rows, as a worker writes them, and further lines."""
    lines = [row_line(record.to_row()) for record in records]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header_line() + b"".join([*lines, *extra]))
    return path


def one_by_one(table):
    """The records of a table."""
    return [RequestRecord.from_mapping(row) for row in table.to_pylist()]


@pytest.mark.parametrize("seed", range(20))
def test_columns_hold_what_the_rows_say(tmp_path, monkeypatch, seed):
    """Every field of 60 records of all kinds, three lines at a time, two parts joined at a time."""
    monkeypatch.setattr(reports.row_lines, "_row_by_row", None)  # the plain way is not taken
    monkeypatch.setattr(reports.row_lines, "AT_ONCE", 3)
    monkeypatch.setattr(reports.row_lines, "PUT_TOGETHER", 2)
    rng = random.Random(seed)
    path = written(tmp_path / "rows", [chance_record(rng, n) for n in range(60)])
    with path.open("rb") as lines:
        expected = by_start(read_rows(lines))

    assert expected == one_by_one(table_of_lines([path]))


@pytest.mark.parametrize("seed", range(5))
def test_the_frame_says_of_each_request_what_its_record_says(tmp_path, seed):
    """Counted, TPOT, latency, the winning attempt's send and the whole wait, of 200 records."""
    rng = random.Random(seed)
    made = [chance_record(rng, n) for n in range(200)]
    folder = build_run(tmp_path / "r", made, levels=(1, 2), stages=False)

    frame = load_run(folder).records

    with (folder / "requests.jsonl").open("rb") as lines:
        expected = by_start(read_rows(lines))
    missing = [np.nan if r.tpot_s is None else r.tpot_s for r in expected]
    assert [r.sequence for r in expected] == frame.sequence.tolist()
    assert [r.counted for r in expected] == frame.counted.tolist()
    assert [r.lost_status for r in expected] == frame.lost_status.tolist()
    np.testing.assert_array_equal(missing, frame.tpot_s)
    assert [r.e2e_latency_s for r in expected] == frame.e2e_latency_s.tolist()
    waits_s = [r.user_latency_s - r.e2e_latency_s for r in expected]
    np.testing.assert_array_equal(
        [r.started_s + s for r, s in zip(expected, waits_s, strict=True)], frame.sent_s
    )
    np.testing.assert_array_equal(
        [s + r.end_s for r, s in zip(expected, waits_s, strict=True)], frame.elapsed_s
    )


def test_rows_from_lines_and_from_parquet_are_one_frame(tmp_path):
    """Types included, also where a column has no value at all."""
    rng = random.Random(3)
    for name, records in (
        ("some", [chance_record(rng, n) for n in range(50)]),
        ("none", []),
    ):
        folder = build_run(tmp_path / name, records)
        run = load_run(folder, whole_rows=True)
        keep_as_parquet(folder, run.records, run.unread)

        pd.testing.assert_frame_equal(run.records, load_run(folder).records)


def test_a_file_of_other_fields_is_read_by_its_own_header(tmp_path):
    """Another order, a field that is gone and one that is not there yet, which has its default."""
    names = [*reversed(FIELD_NAMES), "of_tomorrow"]
    names.remove("read_mode")
    record = make_record(turn=3)
    values = {**dict(zip(FIELD_NAMES, record.to_row(), strict=True)), "of_tomorrow": [1]}
    head = json.loads(header_line()) | {"fields": names}
    path = tmp_path / "rows"
    path.write_bytes(json_line(head) + json_line([values[name] for name in names]))

    assert [record] == one_by_one(table_of_lines([path]))


@pytest.mark.parametrize(
    ("name", "value"),
    [("outcome", "fine"), ("started_s", "soon"), ("prompt_tokens", 1.5), ("lost_status", 3)],
)
def test_a_value_of_another_kind_is_refused(tmp_path, name, value):
    """With the file's name; one bad row among good ones is enough."""
    row = make_record(sequence=1).to_row()
    row[FIELD_NAMES.index(name)] = value
    path = written(tmp_path / "rows.jsonl", [make_record()], json_line(row))

    with pytest.raises(RunFileError, match=r"rows\.jsonl"):
        table_of_lines([path])


@pytest.mark.parametrize("line", [b"[1,2]\n", b"nonsense\n", b"[]\n", b'"text"\n', b"[1],[2]\n"])
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    """Its number, as when rows are read one by one."""
    after = row_line(make_record(sequence=9).to_row())
    path = written(tmp_path / "rows", numbered([make_record()] * 4), line, after)

    with pytest.raises(RunFileError, match="line 6"):
        table_of_lines([path])


def test_O03_a_torn_line_and_the_objects_of_a_spool_are_no_rows(tmp_path, monkeypatch):
    """Whole rows count, also those behind an object; what was not written to its end does not.

    For neither is a file read row by row.
    """
    monkeypatch.setattr(reports.row_lines, "_row_by_row", None)
    first, second = numbered([make_record()] * 2)
    torn = row_line(make_record(sequence=7).to_row())[:-1]
    between = [json_line({"mark": {"at_s": 1}}), row_line(second.to_row()), torn]

    table = table_of_lines([written(tmp_path / "rows", [first], *between)])

    assert [first, second] == one_by_one(table)


def test_a_request_in_several_files_is_one(tmp_path):
    """The same line twice, and another one of the same request: what comes last is kept."""
    same, changed, own = numbered([make_record()] * 3)
    later = make_record(sequence=1, chunks=99)
    rows = written(tmp_path / "rows", [same, changed])
    spool = written(tmp_path / "spool", [same, later, own])

    assert [same, later, own] == by_start(one_by_one(table_of_lines([rows, spool])))


def test_no_report_reads_a_field_that_it_does_not_load():
    """What is left on disk is named by no module that makes figures."""
    of_rows = rf'\brecords\[[^\]]*"({"|".join(UNREAD)})"'
    anywhere = rf'"({"|".join(UNREAD - {"run_id", "prefix_id"})})"'  # also in run.json and spools
    pattern = re.compile(f"{of_rows}|{anywhere}")
    asking = {"row_columns.py", "slowest.py"}  # the latter asks for whole rows
    modules = [path for path in REPORTS.rglob("*.py") if path.name not in asking]
    found = {
        (path.name, match[0]) for path in modules for match in pattern.finditer(path.read_text())
    }

    assert set() == found
    assert set(FIELD_NAMES) > UNREAD
