"""The lines through what a master was measured to cost, and the reports it was measured with."""

import msgspec
import pytest
from locust.rpc.protocol import Message

from bench.fleet.cost import Cost, Line, sentences, table
from bench.fleet.made_up import FAILS_EACH, RUN_ID, make_worker
from bench.fleet.replay import Replayed
from hooks import messages
from metrics.record import FIELD_NAMES, RequestRecord
from metrics.run_files import rows_of
from metrics.tally import TallyBook

ALONE, WORKER, BUSY, RECORD = 0.01, 0.0005, 0.001, 2e-5


def measured(workers, records_per_s, cpu_cores, **changes):
    """A run in which nothing was lost."""
    n = 10 * records_per_s
    counts = {"sent": n, "kept": n, "distinct": n, "tallied": n, **changes}
    return Replayed(
        workers=workers,
        records_per_s=records_per_s,
        seconds=10,
        cpu_cores=cpu_cores,
        behind_s=0.2,
        before_mib=100.0,
        after_mib=101.0,
        end_s=5.0,
        report_mib=300.0,
        **counts,
    )


def made():
    """Runs of a master whose cost is known."""
    idle = [measured(w, 0, ALONE + w * WORKER) for w in (1, 16, 64)]
    rates = (640, 5_000, 10_000)
    return idle + [measured(64, r, ALONE + 64 * BUSY + r * RECORD) for r in rates]


def test_the_lines_find_what_workers_and_records_cost():
    """By number of workers without records, and by records with one number of workers."""
    cost = Cost.of(made())

    assert (ALONE, WORKER, BUSY, RECORD) == pytest.approx(
        (cost.alone, cost.worker, cost.busy_worker, cost.record)
    )
    assert ALONE + 100 * BUSY + 1e4 * RECORD == pytest.approx(cost.cores(100, 10_000))
    assert ALONE + 100 * WORKER == pytest.approx(cost.cores(100, 0))


@pytest.mark.parametrize(("record", "met"), [(4.9e-5, True), (5.1e-5, False)])
def test_the_bar_is_five_percent_of_a_core_for_1000_records(record, met):
    """Whatever the workers cost."""
    assert met == Cost(alone=0.3, worker=0.1, busy_worker=0.1, record=record).meets_bar


def test_no_line_is_drawn_through_one_point():
    """Nor through the same point measured twice."""
    with pytest.raises(ValueError, match="two different points"):
        Line.through([64, 64], [0.1, 0.2])


def test_records_of_different_fleets_are_not_one_line():
    """What their workers cost would be taken for their records'."""
    with pytest.raises(ValueError, match="different numbers of workers"):
        Cost.of([*made(), measured(16, 2_000, 0.1)])


def test_the_table_has_each_run_and_the_sentences_say_what_is_computed():
    """With its share of a core; fleets that were not measured are in a table of their own."""
    lines, said = table(made()).splitlines(), " ".join(sentences(Cost.of(made())).split())

    assert 2 + 6 == len(lines)
    assert "| 64 | 10,000 | 27.4 | 0.2 | 100 + 1.0 | 5.0 | 300 | 100,000 / 100,000 / 100,000 |" in (
        lines
    )
    assert "1,000 records cost 20.0 ms" in said
    assert "1,000 records/s are 2.00 % of a core" in said
    assert "| 1,000 | 100,000 | 301 |" in said


@pytest.mark.parametrize("lost", ["kept", "distinct", "tallied"])
def test_a_run_that_lacks_a_record_is_not_whole(lost):
    """In the file, as its own, or in the counts."""
    assert measured(64, 1_000, 0.1).whole
    assert not measured(64, 1_000, 0.1, **{lost: 9_999}).whole


def test_made_up_reports_are_what_a_worker_sends():
    """Every request once, in rows, in our tallies and in Locust's statistics alike."""
    worker = make_worker(3, 30.5, 4)
    told = [Message.unserialize(packed).data for packed in worker.stats]
    reports = [one[messages.REPORT_KEY] for one in told]
    rows = [row for report in reports for row in rows_of(report["rows"])]
    book = TallyBook()
    for report in reports:
        book.merge(TallyBook.from_wire(report["tallies"]))
    records = [RequestRecord.from_row(row) for row in rows]

    assert 122 == worker.records == len(rows) == book.total().offered
    assert list(range(122)) == [record.sequence for record in records]
    assert {(worker.name, RUN_ID)} == {(record.worker, record.run_id) for record in records}
    assert 122 // FAILS_EACH == book.total().failed
    assert 122 == sum(entry["num_requests"] for one in told for entry in one["stats"])
    assert [1, 2, 3, 4] == [report["report"] for report in reports]
    assert ["ramp", "hold"] == [mark["phase"] for mark in reports[0]["marks"]]
    assert 50 * 4 == book.by_stage[0].health["loop_lag_s"].n
    assert worker.client_id[-8:] == worker.name[-8:]


def test_the_runs_id_is_put_in_without_unpacking():
    """The stand-in is as long as an id, so lengths in the packed message stay right."""
    worker, run_id = make_worker(0, 5, 1), "20260102T030405Z-abcdef"
    packed = worker.stats[0].replace(RUN_ID.encode(), run_id.encode())
    report = Message.unserialize(packed).data[messages.REPORT_KEY]

    assert run_id == report["run_id"]
    assert {run_id} == {row[FIELD_NAMES.index("run_id")] for row in rows_of(report["rows"])}


def test_rows_that_are_torn_are_refused():
    """Half a line is no row."""
    with pytest.raises(msgspec.DecodeError):
        rows_of([b'["a",1]\n', b'["b",'])
