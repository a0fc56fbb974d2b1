"""What is read from a run's folder, and what is left in it."""

import io
import json
import subprocess
import sys

import pandas as pd
import pyarrow.parquet as pq
import pytest

from metrics.outcome import Outcome
from metrics.record import FIELD_NAMES, RequestRecord
from metrics.run_files import RunFileError
from reports.__main__ import main
from reports.load import load_run
from reports.parquet import keep_as_parquet
from reports.render import render_run
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered

RECORDS = numbered([make_record(), failed_record(error_sample='=1+1, "a"\t名前'), make_record()])


def test_parquet_keeps_every_field(tmp_path):
    """Each field of each record, missing ones included, is the same after the change of form."""
    folder = build_run(tmp_path / "r", RECORDS)
    run = load_run(folder, whole_rows=True)

    keep_as_parquet(folder, run.records, run.unread)

    after = load_run(folder).records
    assert not (folder / "requests.jsonl").exists()
    assert list(FIELD_NAMES) == list(pd.read_parquet(folder / "requests.parquet").columns)
    pd.testing.assert_frame_equal(run.records, after)
    kept = pq.read_table(folder / "requests.parquet").to_pylist()
    assert RECORDS == [RequestRecord.from_mapping(row) for row in kept]


@pytest.mark.parametrize("fault", ["cannot write", "rows missing"])
def test_the_lines_stay_until_the_parquet_is_whole(tmp_path, monkeypatch, fault):
    """A full disk, or a file that reads back short, leaves the lines where they are."""
    folder = build_run(tmp_path / "r", RECORDS)
    run, whole = load_run(folder, whole_rows=True), pq.ParquetWriter.write_table

    def failing(writer, table):
        if fault == "cannot write":
            raise OSError("no space left on device")
        whole(writer, table.slice(0, 1))

    monkeypatch.setattr(pq.ParquetWriter, "write_table", failing)

    with pytest.raises(OSError, match=r"no space|not all rows"):
        keep_as_parquet(folder, run.records, run.unread)
    assert (folder / "requests.jsonl").exists()
    assert not (folder / "requests.partial").exists()
    assert not (folder / "requests.parquet").exists()


def test_O03_spools_alone_are_a_run(tmp_path):
    """A master that was killed leaves only what its workers kept: their rows and a note."""
    killed = {"complete": False, "ended_at": None, "max_fail_ratio": 0.5}
    folder = build_run(tmp_path / "r", RECORDS, stages=False, **killed)
    (folder / "spool").mkdir()
    (folder / "requests.jsonl").rename(folder / "spool" / "w1.jsonl")

    run = load_run(folder)

    assert 3 == len(run.records)
    assert any("spools" in note for note in run.notes)
    assert 4 == render_run(folder, io.StringIO())


def test_rows_of_two_workers_with_the_same_sequence_are_two(tmp_path):
    """Sequences are counted by each worker for itself."""
    records = [make_record(worker="a"), make_record(worker="b")]

    assert 2 == len(load_run(build_run(tmp_path / "r", records)).records)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("stages.json", lambda values: values.pop("marks")),
        ("stages.json", lambda values: values["tallies"]["0"].pop("held")),
        ("stages.json", lambda values: values.update(schema="swarmgauge.stages/2")),
        ("run.json", lambda values: values.update(schema="swarmgauge.run/2")),
        ("run.json", lambda values: values.update(schema="other/1")),
    ],
    ids=["no marks", "half a tally", "newer stages", "newer run", "another kind"],
)
def test_a_file_of_another_shape_is_named(tmp_path, capsys, name, damage):
    """Exit code 2 with one line that says which file, and nothing about --slo."""
    folder = build_run(tmp_path / "r", RECORDS)
    values = json.loads((folder / name).read_text())
    damage(values)
    (folder / name).write_text(json.dumps(values))

    assert 2 == main([str(folder)])
    told = capsys.readouterr().err
    assert name in told
    assert "--slo" not in told
    with pytest.raises(RunFileError):
        load_run(folder)


@pytest.mark.parametrize(
    ("code", "records", "arguments"),
    [
        (0, [make_record()], ()),
        (1, [failed_record()], ()),
        (2, [make_record()], ("--slo", "speed>9000")),
        (3, [make_record()], ("--slo", "ttft_p50<1ms")),
        (4, [make_record(phase=None)], ()),
    ],
    ids=["valid", "error", "usage", "objective missed", "invalid"],
)
def test_the_exit_code_says_what_is_wrong(tmp_path, code, records, arguments):
    """One run for each code there is."""
    folder = build_run(tmp_path / "r", numbered(records))

    assert code == main([str(folder), "--quiet", *arguments])


def test_an_error_goes_before_an_invalid_run_and_that_before_an_objective(tmp_path):
    """All three apply: 1; without the failures: 4."""
    bad = failed_record(Outcome.SERVER_ERROR)
    wanted = {"levels": (1, 2), "not_reached": (1,), "slo": "ttft_p50<1ms"}

    assert 1 == main([str(build_run(tmp_path / "a", numbered([make_record(), bad]), **wanted))])
    assert 4 == main([str(build_run(tmp_path / "b", numbered([make_record()]), **wanted))])


def test_the_command_ends_with_the_code(tmp_path):
    """As a process of its own, in a terminal that knows no more than ASCII."""
    folder = build_run(tmp_path / "r", numbered([failed_record(error_sample="名前")]))

    done = subprocess.run(
        [sys.executable, "-m", "reports", str(folder)],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii"},
        check=False,
    )

    assert 1 == done.returncode
    assert b"none of 1 request succeeded" in done.stdout
    assert b"Traceback" not in done.stderr
