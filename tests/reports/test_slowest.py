"""``python -m reports slowest``: the requests to look for in other logs, under the names there."""

import csv
import io
import json

import pytest

from metrics.trace_context import trace_id
from reports.__main__ import main
from tests.support.records import failed_record, make_record
from tests.support.run_builder import META, build_run

SETTINGS = {**META["settings"], "traceparent": "sampled"}


def records():
    """Ten successes, each slower to its first token than the one before; two without any."""
    made = [
        make_record(
            sequence=n,
            request_id=f"run-local-{n}",
            started_s=n,
            ttft_s=0.1 + n / 100,
            max_gap_s=0.5 - n / 100,
            served_by="=1+1" if n == 9 else f"replica-{n % 2}",
        )
        for n in range(10)
    ]
    never = {"attempts": 0, "request_id": None, "ttft_s": 9.0}
    return [*made, failed_record(sequence=10), make_record(sequence=11, started_s=11.0, **never)]


def told(capsys, *words):
    """What is printed, by row."""
    assert 0 == main(["slowest", *map(str, words)])
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


@pytest.fixture
def run(tmp_path):
    """A finished run."""
    return build_run(tmp_path / "run", records(), settings=SETTINGS)


def test_the_slowest_come_first_with_their_names(run, capsys):
    """The id that was sent, and the trace that follows from it; never what was not sent."""
    rows = told(capsys, run, "--most", "3")

    assert ["run-local-9", "run-local-8", "run-local-7"] == [row["request_id"] for row in rows]
    assert [trace_id(row["request_id"]) for row in rows] == [row["trace_id"] for row in rows]
    assert ["0.19", "0.18", "0.17"] == [row["ttft_s"] for row in rows]
    assert ["replica-0", "replica-1"] == [row["served_by"] for row in rows[1:]]


def test_what_slow_means_can_be_chosen(run, capsys):
    """The longest gap is the first request's here."""
    rows = told(capsys, run, "--most", "2", "--by", "max_gap_s")

    assert [("run-local-0", "0.5"), ("run-local-1", "0.49")] == [
        (row["request_id"], row["max_gap_s"]) for row in rows
    ]


def test_all_that_have_the_figure_are_told_at_most(run, capsys):
    """A failure without a first token has none."""
    assert 10 == len(told(capsys, run, "--most", "1000"))


def test_a_servers_text_is_no_formula(run, capsys):
    """A spreadsheet would calculate it."""
    assert "'=1+1" == told(capsys, run, "--most", "1")[0]["served_by"]


@pytest.mark.parametrize(
    "settings",
    [
        META["settings"],
        {**SETTINGS, "traceparent": "off"},
        {**SETTINGS, "header": ["X-Team", "Traceparent"]},
    ],
    ids=["older", "off", "given"],
)
def test_no_trace_is_made_up(tmp_path, capsys, settings):
    """Older runs sent none, others sent none of ours; the request's id stands."""
    (row,) = told(capsys, build_run(tmp_path / "run", records(), settings=settings), "--most", "1")

    assert ("run-local-9", "") == (row["request_id"], row["trace_id"])


def test_the_parquet_of_a_rendered_run_says_the_same(run, capsys):
    """Rendering moves the rows into another file."""
    before = told(capsys, run)
    assert main([str(run), "--quiet"]) in (0, 4)
    capsys.readouterr()

    assert (run / "requests.parquet").exists()
    assert not (run / "requests.jsonl").exists()
    assert before == told(capsys, run)


@pytest.mark.parametrize("most", ["0", "-3", "many"])
def test_a_wrong_number_is_told(run, capsys, most):
    """With the value, and what to write."""
    with pytest.raises(SystemExit) as ended:
        main(["slowest", str(run), "--most", most])

    assert 2 == ended.value.code
    assert f"'{most}': write a whole number from 1 on" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_told(tmp_path, capsys):
    """As by the other commands."""
    assert 2 == main(["slowest", str(tmp_path)])
    assert "not a run" in capsys.readouterr().err


@pytest.mark.parametrize("kept", ["first-layout", "before-attempts", "present"])
def test_runs_of_earlier_versions_are_read(kept, capsys):
    """Their records lack columns; what they have is told, and a trace only where one was sent."""
    folder = f"tests/fixtures/saved_runs/{kept}"
    rows = told(capsys, folder, "--most", "2")
    with open(f"{folder}/run.json", encoding="utf-8") as file:
        settings = json.load(file).get("settings") or {}

    assert rows
    assert ("traceparent" in settings) == any(row["trace_id"] for row in rows)
