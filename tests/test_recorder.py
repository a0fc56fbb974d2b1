"""A worker's spool: what is in it, and when."""

import logging

from hooks.recorder import Recorder
from metrics.histogram import Histogram
from metrics.spool import Aside, aside_line, read_spool, spool_header
from metrics.stage import Phase, PhaseMark
from tests.support.spools import IDENTITY, STAGE, WORKER, record


def test_O03_marks_and_rows_are_in_the_spool_before_anything_else_happens(tmp_path):
    """A mark at once, rows with the next flush, gaps with the report: no close is needed."""
    path = tmp_path / "w1.jsonl"
    recorder = Recorder(path, spool_header(WORKER, IDENTITY))
    mark = PhaseMark("w1", STAGE, Phase.HOLD, 0.5, 2)

    def now():
        return read_spool(path.read_bytes().splitlines(keepends=True), "w1")

    recorder.mark(mark)
    assert [mark] == now().marks
    recorder.add(record(0), [0.1, 0.2])
    recorder.flush()
    assert [record(0)] == now().records
    assert {} == now().asides
    assert 1 == recorder.take()["report"]
    assert 2 == now().asides[1].by_stage[0]["chunk_gap_s"].n
    assert not now().ended
    recorder.close()
    assert now().ended


def test_a_report_without_gaps_or_health_is_no_line_of_its_own(tmp_path):
    """An idle worker's spool does not grow."""
    path = tmp_path / "w1.jsonl"
    recorder = Recorder(path, spool_header(WORKER, IDENTITY))
    before = path.stat().st_size

    assert [None, None, None] == [recorder.take()["report"] for _ in range(3)]
    assert before == path.stat().st_size


def test_O11_a_report_takes_no_more_room_for_more_gaps():
    """A hundred times the gaps of the same spread: no more than a few digits more."""

    def line(n):
        histogram = Histogram()
        histogram.add_many([0.01 * 1.01**k for k in range(200)] * n)
        return len(aside_line(Aside({0: {"chunk_gap_s": histogram}}), 1))

    assert line(100) < 1.5 * line(1)
    assert line(100) < 3_000


def test_a_spool_that_cannot_be_written_loses_no_report(tmp_path, monkeypatch, caplog):
    """A full disk: it is told once, and the master gets every row all the same."""
    recorder = Recorder(tmp_path / "w1.jsonl", spool_header(WORKER, IDENTITY))

    class Full:
        def write(self, _):
            raise OSError(28, "No space left on device")

        def close(self):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder, "_spool", Full())
    with caplog.at_level(logging.ERROR):
        for sequence in range(3):
            recorder.add(record(sequence), [0.1])
            recorder.flush()
        report = recorder.take()
        recorder.close()

    assert 3 == len(report["rows"])
    assert 1 == len([line for line in caplog.messages if "No space left" in line])
