"""Runs whose records are still on their workers."""

import io

import pytest

from metrics.tally import TallyBook
from reports.__main__ import main
from reports.elsewhere import elsewhere_lines, kept_elsewhere
from reports.load import load_run
from reports.render import render_run
from tests.support.records import make_record
from tests.support.run_builder import build_run, numbered
from tests.support.spools import write_spool


def told(worker, requests):
    """A worker as ``run.json`` has it with ``--records workers``."""
    spool = f"20260102T030405Z-ladder/spool/{worker}.jsonl"
    about = {"id": worker, "index": 0, "host": f"host-of-{worker}", "lost": False}
    return {**about, "requests": requests, "spool": spool, "wall_offset_s": None}


def records(worker, n):
    """So many successes of a worker."""
    return numbered([make_record(worker=worker, started_s=1 + k * 0.5) for k in range(n)])


@pytest.fixture
def run(tmp_path):
    """Two workers told of 3 and 4 requests; the folder has 1 and 4 of them."""
    here = [*records("w1", 1), *records("w2", 4)]
    return build_run(tmp_path / "run", here, workers=[told("w1", 3), told("w2", 4)])


def test_only_workers_that_told_of_more_are_waited_for(run):
    """By worker, so that a merge of some spools does not pass for all."""
    (kept,) = kept_elsewhere(load_run(run))

    assert ("w1", "host-of-w1", 3, 1) == (kept.worker, kept.host, kept.told, kept.here)
    assert kept.spool.endswith("/spool/w1.jsonl")


def test_nothing_is_claimed_without_the_records(run):
    """Exit code 4, what is missing, where it is and what to do; no file of figures is written."""
    out = io.StringIO()

    assert 4 == render_run(run, out)
    said = out.getvalue()
    assert "INCOMPLETE: 2 records of 1 worker are not in this folder" in said
    assert "worker w1: 3 requests, 1 of them in this folder" in said
    assert f"python -m reports merge {run} SPOOL..." in said
    assert "knee at" not in said.lower()
    assert {"run.json", "stages.json", "requests.jsonl"} == {path.name for path in run.iterdir()}


def test_tallies_are_told_as_what_they_are(run):
    """Counts are exact, percentiles come from the histograms of the held windows."""
    loaded = load_run(run)
    book = TallyBook()
    for record in records("w1", 5):
        book.add(record, ())
    object.__setattr__(loaded, "book", book)
    said = "\n".join(elsewhere_lines(loaded, kept_elsewhere(loaded)))

    assert "5 requests, 5 ok, 0 failed, 0 cancelled, 25 tokens" in said
    assert "stage 1, 1 user: 5 requests, 5 ok, 0 failed; TTFT p50 100 ms" in said


def test_runs_that_keep_rows_with_the_master_are_as_ever(tmp_path):
    """They do not say how many requests each worker told of."""
    folder = build_run(tmp_path / "run", records("local", 3))

    assert () == kept_elsewhere(load_run(folder))


def test_no_knee_is_explained_without_the_records(run, capsys):
    """The same words, the same exit code."""
    assert 4 == main(["knee", str(run)])
    assert "INCOMPLETE" in capsys.readouterr().err


def test_spools_that_lie_in_the_folder_are_records_too(tmp_path):
    """One machine, or a shared volume: there is nothing to fetch."""
    folder = build_run(tmp_path / "run", [], workers=[told("w1", 3), told("w2", 1)])
    (folder / "spool").mkdir()
    write_spool(folder / "spool" / "w1.jsonl", 3)

    assert ["w2"] == [one.worker for one in kept_elsewhere(load_run(folder))]
