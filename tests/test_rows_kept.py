"""Rows as lines from worker to master, and rows that stay with the workers."""

import json

from hooks.recorder import Recorder
from hooks.run_folder import RunFolder
from metrics.run_files import read_rows, rows_of
from metrics.spool import read_spool, spool_header
from metrics.tally import TallyBook
from tests.support.spools import IDENTITY, WORKER, record


def in_spool(path):
    """The records of a spool."""
    return read_spool(path.read_bytes().splitlines(keepends=True), "w1").records


def test_the_masters_file_has_the_very_bytes_of_the_spool(tmp_path):
    """A row is written out once, on its worker."""
    recorder = Recorder(tmp_path / "w1.jsonl", spool_header(WORKER, IDENTITY))
    made = [record(n, ttft_s=0.1 + n / 3) for n in range(3)]
    for one in made:
        recorder.add(one, ())
    rows = recorder.take()["rows"]
    folder = RunFolder(tmp_path)
    folder.append(rows)
    folder.close()

    assert b"".join(rows) in (tmp_path / "w1.jsonl").read_bytes()
    with (tmp_path / "requests.jsonl").open("rb") as lines:
        assert in_spool(tmp_path / "w1.jsonl") == list(read_rows(lines))


def test_rows_of_lines_are_the_rows(tmp_path):
    """A search on the master sees the values."""
    recorder = Recorder(None)
    recorder.add(record(5, prompt_id='quote " and é'), ())

    assert [record(5, prompt_id='quote " and é').to_row()] == [
        [tuple(v) if isinstance(v, list) else v for v in row]
        for row in rows_of(recorder.take()["rows"])
    ]
    assert [] == rows_of([])


def test_rows_that_are_kept_on_the_worker_are_in_its_spool_alone(tmp_path):
    """Counts, histograms and marks are handed on as ever."""
    path = tmp_path / "w1.jsonl"
    recorder = Recorder(path, spool_header(WORKER, IDENTITY), keeps_rows=True)
    for n in range(3):
        recorder.add(record(n), [0.1])
    report = recorder.take()

    assert [] == report["rows"]
    assert 3 == report["tallies"]["0"]["everything"]["offered"]
    assert [record(n) for n in range(3)] == in_spool(path)


def test_a_full_disk_sends_rows_to_the_master_all_the_same(tmp_path, monkeypatch):
    """Those that the spool could not take, and all later ones; none before, none twice."""
    path = tmp_path / "w1.jsonl"
    recorder = Recorder(path, spool_header(WORKER, IDENTITY), keeps_rows=True)
    recorder.add(record(0), ())
    recorder.flush()

    class Full:
        def write(self, _):
            raise OSError(28, "No space left on device")

        def close(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder, "_spool", Full())
    recorder.add(record(1), ())
    recorder.flush()
    recorder.add(record(2), ())
    handed_on = rows_of(recorder.take()["rows"])
    recorder.add(record(3), ())
    handed_on += rows_of(recorder.take()["rows"])

    sequence = [row[3] for row in handed_on]
    assert [1, 2, 3] == sequence
    assert [record(0)] == in_spool(path)


def test_without_a_spool_rows_are_handed_on(tmp_path):
    """A single process has no workers to leave them with."""
    recorder = Recorder(None, keeps_rows=True)
    recorder.add(record(0), ())

    assert 1 == len(recorder.take()["rows"])


def test_half_a_character_does_not_keep_the_tallies_from_the_disk(tmp_path):
    """An endpoint's finish reason may hold half a surrogate pair, which UTF-8 cannot say."""
    book, folder = TallyBook(), RunFolder(tmp_path)
    book.add(record(0, finish_reason="bad \ud83d end"), ())
    folder.write_stages([], book, ())
    folder.close()
    saved = json.loads((tmp_path / "stages.json").read_text(encoding="utf-8"))

    assert {"bad ? end": 1} == saved["tallies"]["0"]["everything"]["by_finish_reason"]
    assert TallyBook.from_wire(saved["tallies"]).total().offered == 1
