"""Files say their kind and version; older ones are read, newer ones are refused with advice."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from metrics.run_files import (
    REQUESTS_SCHEMA,
    RUN_SCHEMA,
    SPOOL_SCHEMA,
    STAGES_SCHEMA,
    SUMMARY_SCHEMA,
)
from reports.__main__ import main
from reports.analyse import analyse
from reports.load import load_run
from reports.model import ExitCode
from reports.render import render_run
from tests.support.rendered_run import good, rendered, strict
from tests.support.run_builder import build_run, numbered
from tests.support.spools import write_spool

RUNS = Path(__file__).resolve().parents[1] / "fixtures" / "saved_runs"


@pytest.mark.parametrize(
    ("layout", "ok", "tokens", "held", "ttft_p50_s"),
    [
        ("first-layout", 14, 509, [2, 6], [0.0568, 0.0791]),
        ("before-attempts", 15, 527, [2, 5], [0.0521, 0.0776]),
        ("present", 16, 520, [3, 8], [0.055, 0.0794]),
    ],
)
def test_runs_of_every_layout_are_read(tmp_path, layout, ok, tokens, held, ttft_p50_s):
    """Real runs of three layouts: the figures that the reports of their own time gave."""
    folder = Path(shutil.copytree(RUNS / layout, tmp_path / "r"))

    code, summary, _ = rendered(folder)

    assert ExitCode.OK == code
    assert (ok, ok, 0) == tuple(summary["totals"][name] for name in ("offered", "ok", "failed"))
    assert tokens == summary["totals"]["completion_tokens"]
    assert held == [row["offered"] for row in summary["stages"]]
    assert ttft_p50_s == [round(row["ttft"]["p50"], 4) for row in summary["stages"]]


def parquet_version(folder, version):
    path = folder / "requests.parquet"
    table = pq.read_table(path)
    metadata = {**(table.schema.metadata or {}), b"schema": version.encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def json_version(name):
    def change(folder, version):
        values = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps({**values, "schema": version}), encoding="utf-8")

    return change


def first_line_version(name):
    def change(folder, version):
        path = folder / name
        head, *rows = path.read_bytes().splitlines(keepends=True)
        header = json.dumps({**json.loads(head), "schema": version}).encode() + b"\n"
        path.write_bytes(b"".join([header, *rows]))

    return change


FILES = {
    "run.json": (json_version("run.json"), RUN_SCHEMA),
    "stages.json": (json_version("stages.json"), STAGES_SCHEMA),
    "requests.parquet": (parquet_version, REQUESTS_SCHEMA),
    "requests.jsonl": (first_line_version("requests.jsonl"), SPOOL_SCHEMA),
    "spool/w1.jsonl": (first_line_version("spool/w1.jsonl"), SPOOL_SCHEMA),
}


def whole_run(folder, with_file):
    """A run that has that file: rows as Parquet, as lines, or in a spool alone."""
    build_run(folder, numbered(good(4)))
    if with_file == "requests.parquet":
        rendered(folder)
    if with_file.startswith("spool"):
        (folder / "requests.jsonl").unlink()
        write_spool(folder / "spool" / "w1.jsonl", 4)
    return folder


@pytest.mark.parametrize("name", FILES)
def test_a_newer_file_is_refused_with_what_to_do(tmp_path, name, capsys):
    """Each file of a run: exit code 2; the message has file, version found, version known, advice.

    No file of the run is touched.
    """
    change, known = FILES[name]
    folder = whole_run(tmp_path / "r", name)
    newer = f"{known.partition('/')[0]}/{int(known.partition('/')[2]) + 1}"
    change(folder, newer)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    code = main([str(folder)])

    said = capsys.readouterr().err
    assert ExitCode.USAGE == code
    assert all(part in said for part in (name, newer, "newer", "update Swarmgauge"))
    assert known in said or known.replace("/2", "/1") in said
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", ["compare", "gate", "knee", "compat"])
def test_every_command_refuses_a_newer_run(tmp_path, command, capsys):
    """Not only the report: exit code 2 and the same message."""
    folder = build_run(tmp_path / "new", numbered(good(4)))
    other = build_run(tmp_path / "old", numbered(good(4)))
    json_version("run.json")(folder, "swarmgauge.run/7")
    words = {
        "compare": ["compare", str(other), str(folder)],
        "gate": ["gate", str(folder)],
        "knee": ["knee", str(folder)],
        "compat": ["compat", str(folder)],
    }[command]

    assert ExitCode.USAGE == main(words)
    assert "swarmgauge.run/7" in capsys.readouterr().err


def test_every_file_that_is_written_says_its_version(tmp_path):
    """The figures, the rows as Parquet, a spool."""
    folder = build_run(tmp_path / "r", numbered(good(4)))
    spool = write_spool(tmp_path / "w1.jsonl", 1)

    _, summary, _ = rendered(folder)

    assert SUMMARY_SCHEMA == summary["schema"]
    metadata = pq.read_schema(folder / "requests.parquet").metadata
    assert REQUESTS_SCHEMA == metadata[b"schema"].decode()
    assert SPOOL_SCHEMA == json.loads(spool.read_bytes().splitlines()[0])["schema"]


@pytest.mark.parametrize("content", ["[]", "1", "null", '"x"'])
def test_a_file_that_is_no_object_is_refused(tmp_path, content, capsys):
    """JSON that is whole and no object: named, exit code 2."""
    folder = build_run(tmp_path / "r", numbered(good(4)))
    (folder / "stages.json").write_text(content, encoding="utf-8")

    assert ExitCode.USAGE == main([str(folder)])
    assert "stages.json: cannot be read" in capsys.readouterr().err


def test_O03_what_was_left_half_written_is_not_read(tmp_path):
    """Killed while a file was being replaced: the whole one of before is read."""
    folder = build_run(tmp_path / "r", numbered(good(4)))
    before = analyse(load_run(folder)).totals
    for name in ("run.partial", "stages.partial", "requests.partial", "summary.json.partial"):
        (folder / name).write_bytes(b'{"schema": "swarmg')

    _, summary, _ = rendered(folder)

    assert before.ok == summary["totals"]["ok"] == 4


def test_O03_a_report_that_fails_half_way_leaves_whole_files(tmp_path, monkeypatch, capsys):
    """One face cannot be written: the others are whole, what was there of it stays, exit code 1."""
    folder = build_run(tmp_path / "r", numbered(good(4)))
    rendered(folder)
    old = (folder / "summary.csv").read_bytes()
    monkeypatch.setattr(Path, "write_bytes", _torn(Path.write_bytes, "summary.csv.partial"))

    with open(tmp_path / "out", "w", encoding="utf-8") as out:
        code = render_run(folder, out)

    assert ExitCode.ERROR == code
    assert old == (folder / "summary.csv").read_bytes()
    assert 4 == strict(folder / "summary.json")["totals"]["ok"]
    assert "summary.csv could not be written" in capsys.readouterr().err


def _torn(whole, name):
    def write(self, content):
        if self.name == name:
            whole(self, content[:10])
            raise OSError(28, "No space left on device")
        return whole(self, content)

    return write
