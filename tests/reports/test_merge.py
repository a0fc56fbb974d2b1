"""``python -m reports merge``: what only the workers' spools still hold is added, once."""

import dataclasses
import json

import pandas as pd
import pytest

from hooks.run_folder import RunFolder
from metrics.record import FIELD_NAMES
from metrics.run_files import RunFileError
from metrics.spool import spool_header
from metrics.tally import TallyBook
from reports.__main__ import main
from reports.load import load_run
from reports.merge import merge
from reports.model import ExitCode
from tests.support.rendered_run import rendered, strict
from tests.support.run_builder import build_run
from tests.support.spools import IDENTITY, RUN_ID, WORKER, record, write_spool


def sequences(folder):
    """The (worker, sequence) of a run's rows, in order."""
    records = load_run(folder).records
    return sorted(zip(records.worker, records.sequence, strict=True))


def listing(folder):
    """Every file below a folder and its content."""
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def inodes(folder):
    """Every file below a folder, told from one of the same name that was written in its place."""
    return {(path, path.stat().st_ino) for path in folder.rglob("*")}


# --- any way of cutting and ordering them --------------------------------------------------------


# --- a run's folder ------------------------------------------------------------------------------


def test_L03_what_is_only_in_a_spool_is_added_and_told(tmp_path, capsys):
    """Two of five requests were with the master: three are new, and the old rows are kept."""
    folder = build_run(tmp_path / "r", [record(0), record(1)])
    rendered(folder)
    old = (folder / "requests.parquet").read_bytes()
    spool = write_spool(tmp_path / "far" / "w1.jsonl", 5)

    main(["merge", str(folder), str(spool)])

    assert "worker w1: 5 requests, 3 of them new\n" in capsys.readouterr().out
    assert [("w1", n) for n in range(5)] == sequences(folder)
    assert old == (folder / "requests.before-merge.parquet").read_bytes()
    assert 5 == strict(folder / "summary.json")["totals"]["offered"]
    assert any("3 requests were added" in n for n in strict(folder / "summary.json")["notices"])


def test_a_second_merge_changes_nothing(tmp_path):
    """The same spool again, and the folder's own: no file of the run is written anew."""
    folder = build_run(tmp_path / "r", [record(0)])
    rendered(folder)
    spool = write_spool(tmp_path / "w1.jsonl", 5)
    merge(folder, [spool])
    before, files = listing(folder), inodes(folder)

    again, own = merge(folder, [spool]), merge(folder, [])

    assert ["worker w1: 5 requests, none new"] == again.lines() == own.lines()
    assert before == listing(folder)
    assert files == inodes(folder)


def test_M12_gaps_and_windows_come_back_from_spools_alone(tmp_path):
    """Rows, marks and chunk gaps of two workers; identity from the header; partial, exit 4."""
    folder = tmp_path / "r"
    spools = [write_spool(tmp_path / f"{w}.jsonl", n, w) for w, n in (("w1", 7), ("w2", 4))]

    result = merge(folder, spools)
    code, summary, text = rendered(folder)

    assert any("run.json was missing" in line for line in result.lines())
    assert 11 == summary["totals"]["ok"]
    assert 4 * 11 == load_run(folder).book.stage(0).latency["chunk_gap_s"].n
    run = strict(folder / "run.json")
    assert RUN_ID == run["run_id"]
    assert (False, None) == (run["complete"], run["ended_at"])
    assert "2026-01-02T03:04:05.000+00:00" == run["started_at"]
    assert ["h1", "h1"] == [worker["host"] for worker in run["workers"]]
    assert {"partial"} == {f["rule"] for f in summary["validity"] if f["severity"] == "invalid"}
    assert ExitCode.INVALID == code
    assert "http://127.0.0.1:8000" in text


def test_L05_a_merged_run_is_the_run_that_lost_nothing(tmp_path):
    """Every figure of the summary is the same, whether the master had all or only half."""
    summaries = []
    for name, known in (("all", 8), ("half", 4)):
        folder = build_run(tmp_path / name, [record(n) for n in range(known)], levels=(2,))
        stages = strict(folder / "stages.json")
        if name == "half":
            # The reports of the first four were the only ones to come.
            stages["reports"] = {"w1": {"last": 1, "missed": []}}
            book = TallyBook()
            for n in range(3):
                book.add(record(n), [0.1] * 4)
            stages["tallies"] = book.to_wire()
            (folder / "stages.json").write_text(json.dumps(stages))
            merge(folder, [write_spool(tmp_path / "w1.jsonl", 8)])
        rendered(folder)
        # Sums of floats come out alike but for their last digits.
        text = (folder / "summary.json").read_text()
        summary = json.loads(text, parse_float=lambda digits: round(float(digits), 9))
        summaries.append({k: v for k, v in summary.items() if k != "notices"})

    assert summaries[0] == summaries[1]


def test_O13_a_merged_run_accounts_for_every_request(tmp_path):
    """Tallies that were saved before the last rows came: after a merge both agree."""
    folder = build_run(tmp_path / "r", [record(n) for n in range(4)])
    fewer = build_run(tmp_path / "fewer", [record(0)])
    (folder / "stages.json").write_bytes((fewer / "stages.json").read_bytes())
    _, before, _ = rendered(folder)

    merge(folder, [write_spool(tmp_path / "w1.jsonl", 6)])
    _, after, _ = rendered(folder)

    assert any("tallies disagree" in f["evidence"] for f in before["validity"])
    assert not any("tallies disagree" in f["evidence"] for f in after["validity"])
    assert 6 == after["totals"]["offered"]


def test_a_lost_worker_is_resolved_but_its_stage_stays_void(tmp_path):
    """What it measured is all there now; the level it was lost in still had too few users."""
    workers = [{"id": "w1", "index": 1, "host": "h", "lost": True, "wall_offset_s": None}]
    folder = build_run(tmp_path / "r", [record(0)], workers=workers)
    stages = strict(folder / "stages.json")
    stages["marks"] = [m for m in stages["marks"] if m["phase"] == "hold"]
    (folder / "stages.json").write_text(json.dumps(stages))
    _, before, _ = rendered(folder)

    merge(folder, [write_spool(tmp_path / "w1.jsonl", 3, end=False)])
    _, after, _ = rendered(folder)

    def lost(summary):
        return [f["evidence"] for f in summary["validity"] if f["rule"] == "worker_lost"]

    assert any("only in the spool" in text for text in lost(before))
    assert not any("only in the spool" in text for text in lost(after))
    assert any("w1 lost while it ran" in text for text in lost(after))


@pytest.mark.parametrize("end", [True, False])
def test_a_worker_of_a_killed_master_was_lost_unless_it_closed_its_spool(tmp_path, end):
    """Nobody was left to note it."""
    folder = build_run(tmp_path / "r", [], ended_at=None, complete=False, workers=[])

    merge(folder, [write_spool(tmp_path / "w1.jsonl", 3, end=end)])

    assert [not end] == [worker["lost"] for worker in strict(folder / "run.json")["workers"]]


def test_a_spool_of_an_older_version_is_merged(tmp_path):
    """Rows alone, under the first schema; what it cannot tell is left as it was."""
    folder = build_run(tmp_path / "r", [record(0)])
    spool = build_run(tmp_path / "old", [record(n) for n in range(3)]) / "requests.jsonl"

    merge(folder, [spool])

    assert 3 == len(load_run(folder).records)
    assert 4 == load_run(folder).book.stage(0).latency["chunk_gap_s"].n


def test_a_spool_of_an_older_version_alone_is_a_run(tmp_path):
    """It tells whose run it is and no more: all faces of a report can still be written."""
    spool = build_run(tmp_path / "old", [record(n) for n in range(3)]) / "requests.jsonl"

    merge(tmp_path / "r", [spool])
    code, summary, _ = rendered(tmp_path / "r")

    assert ExitCode.INVALID == code
    assert (RUN_ID, 3) == (summary["run_id"], summary["totals"]["ok"])


def test_Parquet_of_an_older_version_is_the_same_request(tmp_path):
    """A column that it lacks, or has no values in, is no difference."""
    folder = build_run(tmp_path / "r", [record(0)])
    rendered(folder)
    table = pd.read_parquet(folder / "requests.parquet").drop(columns=["read_mode"])
    table["noticed_late_s"] = float("nan")
    table.to_parquet(folder / "requests.parquet", index=False)

    result = merge(folder, [write_spool(tmp_path / "w1.jsonl", 2)])

    assert ["worker w1: 2 requests, 1 of them new"] == result.lines()


# --- refused -------------------------------------------------------------------------------------


def test_a_spool_of_another_run_is_refused(tmp_path, capsys):
    """Exit 2 with both runs' ids; nothing is written."""
    folder = build_run(tmp_path / "r", [record(0)])
    spool = write_spool(tmp_path / "w1.jsonl", 3, first=10, run_id="20200101T000000Z-other")
    before = listing(folder)

    assert ExitCode.USAGE == main(["merge", str(folder), str(spool)])
    told = capsys.readouterr().err
    assert "20200101T000000Z-other" in told
    assert RUN_ID in told
    assert str(spool) in told
    assert before == listing(folder)


def test_two_tellings_of_one_request_are_refused_with_both(tmp_path, capsys):
    """The field, both values and both files are named; nothing is written."""
    folder = build_run(tmp_path / "r", [record(1, completion_tokens=6)])
    spool = write_spool(tmp_path / "w1.jsonl", 3)
    before = listing(folder)

    assert ExitCode.USAGE == main(["merge", str(folder), str(spool)])
    told = capsys.readouterr().err
    for word in ("request 1 of worker w1", "completion_tokens is 6 there and 5 here"):
        assert word in told
    assert str(folder / "requests.jsonl") in told
    assert str(spool) in told
    assert before == listing(folder)


def test_a_run_that_still_goes_on_is_refused(tmp_path):
    """The master's lock ends with its file of rows."""
    folder = build_run(tmp_path / "r", [])
    (folder / "requests.jsonl").unlink()
    running = RunFolder(folder)
    spool = write_spool(tmp_path / "w1.jsonl", 3)

    with pytest.raises(RunFileError, match="still goes on"):
        merge(folder, [spool])
    running.close()
    assert 3 == merge(folder, [spool]).added["w1"].new_requests


@pytest.mark.parametrize(
    ("spool", "says"),
    [
        (None, "no spool was given"),
        ("none.jsonl", "cannot be read"),
        ("empty", "no spool in this folder"),
        ("garbled.jsonl", "line 2"),
        ("torn.jsonl", "no spool tells which run"),
    ],
)
def test_a_spool_that_cannot_be_used_is_told(tmp_path, capsys, spool, says):
    """One line, exit code 2, and no folder is made."""
    (tmp_path / "empty").mkdir()
    header = spool_header(WORKER, IDENTITY)
    (tmp_path / "garbled.jsonl").write_bytes(header + b'{"mark": 3}\n')
    (tmp_path / "torn.jsonl").write_bytes(header[:40])
    given_spools = [] if spool is None else [str(tmp_path / spool)]

    assert ExitCode.USAGE == main(["merge", str(tmp_path / "r"), *given_spools])
    told = capsys.readouterr().err
    assert says in told
    assert 1 == len(told.strip().splitlines())
    assert not (tmp_path / "r").exists()


def test_O06_a_worker_with_an_awkward_name_stays_inside_the_folder(tmp_path):
    """Its spool is copied under a safe name, and once only."""
    folder = build_run(tmp_path / "r", [], workers=[])
    spool = write_spool(tmp_path / "far" / "s.jsonl", 2, worker="../../etc/x")

    merge(folder, [spool])
    merge(folder, [spool])

    assert [".-.-etc-x.jsonl"] == [
        path.name.replace("..", ".") for path in (folder / "spool").iterdir()
    ]
    assert 2 == len(load_run(folder).records)


def test_every_field_of_a_record_goes_through_parquet_unchanged(tmp_path):
    """So that a row in the folder and the same row in a spool are one."""
    full = dataclasses.replace(
        record(0),
        **{"lost_sent_s": (0.1, 0.2), "lost_end_s": (0.15, 0.25), "lost_status": (429, 0)},
        **{"error_sample": "a\ttab", "session": "s", "turn": 3, "cached_tokens": 4},
    )
    folder = build_run(tmp_path / "r", [full])
    rendered(folder)
    spool = build_run(tmp_path / "s", [full]) / "requests.jsonl"

    assert ["worker w1: 1 request, none new"] == merge(folder, [spool]).lines()
    assert set(FIELD_NAMES) <= set(pd.read_parquet(folder / "requests.parquet").columns)
