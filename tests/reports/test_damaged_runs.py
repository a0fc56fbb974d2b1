"""Killed, damaged and half-written runs, and faults while a report is made."""

from dataclasses import replace

import pytest

from metrics.run_files import RunFileError
from reports.__main__ import main
from reports.load import load_run
from reports.model import ExitCode
from reports.plots import PLOTS
from tests.support.records import failed_record
from tests.support.rendered_run import good, rendered
from tests.support.run_builder import build_run, numbered


def test_O03_a_killed_run_reads(tmp_path):
    """A torn last line and no stages.json: the whole rows, windows from them, exit 4."""
    folder = build_run(
        tmp_path / "r", numbered(good(5)), stages=False, complete=False, ended_at=None
    )
    with (folder / "requests.jsonl").open("ab") as lines:
        lines.write(b'["torn')

    code, summary, text = rendered(folder)

    assert ExitCode.INVALID == code
    assert 5 == summary["totals"]["ok"]
    assert summary["stages"][0]["output_tokens_per_s"] > 0
    assert "partial" in text
    assert (folder / "requests.jsonl").exists(), "a run that may still go on keeps its lines"


def test_spools_stand_in_for_lost_rows_and_count_nothing_twice(tmp_path):
    """Rows that are in the file and in a spool are one; rows only in a spool are found."""
    folder = build_run(tmp_path / "r", numbered(good(3)), stages=False)
    spool = folder / "spool" / "local.jsonl"
    spool.parent.mkdir()
    more = build_run(tmp_path / "more", numbered(good(5)), stages=False)
    spool.write_bytes((more / "requests.jsonl").read_bytes())

    assert [0, 1, 2, 3, 4] == sorted(load_run(folder).records.sequence)


def test_parquet_holds_what_the_lines_held(tmp_path):
    """Rendered again from Parquet alone, every figure is the same."""
    records = [*good(20), failed_record(error_sample='a "b",\nc')]
    folder = build_run(tmp_path / "r", numbered(records))
    _, first, _ = rendered(folder)

    _, second, _ = rendered(folder)

    assert not (folder / "requests.jsonl").exists()
    assert first == second


@pytest.mark.usefixtures("drawn")
def test_a_plot_that_fails_keeps_the_rest(tmp_path, monkeypatch, capsys):
    """The figures and the page are there, and the fault is told."""

    def broken(*_):
        raise RuntimeError("no ink")

    folder = build_run(tmp_path / "r", numbered(good(5)))
    monkeypatch.setitem(PLOTS, "over-time", replace(PLOTS["over-time"], draw=broken))

    code, summary, _ = rendered(folder)

    assert ExitCode.ERROR == code
    assert 5 == summary["totals"]["ok"]
    assert 5 == (folder / "report.html").read_text(encoding="utf-8").count("<figure>")
    assert 5 == len(list((folder / "plots").glob("*.png")))
    assert "no ink" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "run.json").unlink(), "not a run"),
        (lambda folder: (folder / "run.json").write_text("{", "utf-8"), "cannot be read"),
        (
            lambda folder: (folder / "run.json").write_text(
                '{"schema": "swarmgauge.run/9"}', "utf-8"
            ),
            "newer",
        ),
        (lambda folder: (folder / "requests.jsonl").write_bytes(b"x\n"), "line 1"),
    ],
    ids=["no run.json", "half a run.json", "newer schema", "garbled rows"],
)
def test_a_folder_that_cannot_be_read_is_told(tmp_path, damage, says, capsys):
    """One line, exit code 2."""
    folder = build_run(tmp_path / "r", numbered(good(2)))
    damage(folder)

    assert ExitCode.USAGE == main([str(folder)])
    err = capsys.readouterr().err
    assert says in err
    assert 1 == len(err.strip().splitlines())


def test_a_missing_folder_and_a_wrong_objective_are_usage_errors(tmp_path, capsys):
    """Exit code 2 with the reason."""
    folder = build_run(tmp_path / "r", numbered(good(2)))

    assert ExitCode.USAGE == main([str(tmp_path / "none")])
    assert ExitCode.USAGE == main([str(folder), "--slo", "ttft<1"])
    assert "--slo" in capsys.readouterr().err
    with pytest.raises(RunFileError, match="no such folder"):
        load_run(tmp_path / "none")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gat", "RUN"], "gat: neither a folder nor one of knee, merge, compare, gate"),
        (["RUN/run.json"], "run.json: a file; give the run's folder"),
        (["RUN"], "run.json: no schema, so it is not a swarmgauge.run file"),
    ],
    ids=["a command misspelt", "a file of a run", "no schema"],
)
def test_what_is_no_run_is_told_with_what_to_give(tmp_path, capsys, words, said):
    """What was given and what would do; exit code 2."""
    folder = build_run(tmp_path / "r", numbered(good(2)))
    (folder / "run.json").write_text("{}", "utf-8")

    code = main([word.replace("RUN", str(folder)) for word in words])

    assert 2 == code
    assert said in capsys.readouterr().err


def test_a_damaged_table_is_told_with_the_way_back(tmp_path, capsys):
    """Its spools still have the rows: the command that reads them is there."""
    folder = build_run(tmp_path / "r", numbered(good(2)))
    (folder / "requests.parquet").write_bytes(b"")

    assert 2 == main([str(folder)])
    assert f"python -m reports merge NEW_FOLDER {folder / 'spool'}" in capsys.readouterr().err
