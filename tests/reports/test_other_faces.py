"""The faces of a report for a terminal, a spreadsheet, CI, a pull request and a metrics store."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from metrics.outcome import Outcome
from metrics.run_files import read_rows
from metrics.stage import Phase
from metrics.tally import TallyBook
from metrics.validity_runs import rule_names
from reports.faces.compat import views_of, whole_run
from reports.faces.junit import junit
from reports.faces.markdown import summary_markdown
from reports.faces.open_metrics import open_metrics
from reports.faces.stage_csv import columns, summary_csv
from reports.load import load_run
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import good, printed, report_of
from tests.support.report_runs import AWKWARD, eventful_run
from tests.support.run_builder import build_run, numbered

DOCS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
LITTLE = {
    "no request": [],
    "one": [make_record()],
    "two": [make_record(), make_record(started_s=2.0)],
    "all equal": good(5, started_s=1.0),
    "only failures": [failed_record() for _ in range(5)],
}


def test_O08_each_stage_is_one_row_of_known_columns(tmp_path):
    """Header, a row for each stage and the total; awkward texts come back whole and inert."""
    names = ['=1+1,"a"\nb', "+1", "-1", "@x", " =1", "\t=1"]
    for number, name in enumerate(names):
        folder = build_run(tmp_path / str(number), numbered(good(4)), levels=(1, 2), model=name)
        text = summary_csv(report_of(folder))

        head, *rows = csv.reader(io.StringIO(text, newline=""))

        assert list(columns()) == head
        assert ["0", "1", "total"] == [row[head.index("stage")] for row in rows]
        assert {"'" + name} == {row[head.index("model")] for row in rows}
        assert {len(head)} == {len(row) for row in rows}


@pytest.mark.parametrize("records", LITTLE.values(), ids=LITTLE)
def test_M05_O01_O02_next_to_nothing_has_every_face(tmp_path, records):
    """The same columns and cases as any run; no cell nan, inf, -1 or None; everything parses."""
    report = report_of(build_run(tmp_path / "r", numbered(records)))

    table = list(csv.reader(io.StringIO(summary_csv(report))))
    assert list(columns()) == table[0]
    assert not {"nan", "inf", "-inf", "-1", "none"} & {c.lower() for row in table for c in row}
    families = list(text_string_to_metric_families(open_metrics(report)))
    assert all(s.value == s.value for f in families for s in f.samples)
    assert ET.fromstring(junit(report).encode()).tag == "testsuites"
    assert not re.search(r"\b(nan|inf|None)\b", summary_markdown(report))


def test_every_column_is_documented():
    """The table in the documentation names all columns and no other."""
    section = (DOCS / "README.md").read_text(encoding="utf-8").split("## summary.csv")[1]
    rows = [line.split("|")[1] for line in section.split("## ")[0].splitlines() if "| `" in line]

    assert set(columns()) == {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def cases_of(report):
    suite = ET.fromstring(junit(report).encode("utf-8", "replace")).find("testsuite")
    return suite.attrib, {
        (case.get("classname"), case.get("name")): [child.tag for child in case] for case in suite
    }


def test_junit_has_every_rule_and_every_objective(tmp_path):
    """A missed objective fails, one that holds passes, a notice passes with its text."""
    folder = build_run(tmp_path / "r", numbered(good(20)))

    counts, cases = cases_of(report_of(folder, "ttft_p95<50ms,ok>99%"))

    assert ["failure"] == cases["objective", "ttft_p95<50ms"]
    assert [] == cases["objective", "ok>99%"]
    assert ["system-out"] == cases["validity", "too_few_samples: stage 1"]
    assert {rule for rule in rule_names()} == {
        name.split(":")[0] for group, name in cases if group == "validity"
    }
    assert (str(len(cases)), "1", "0") == (counts["tests"], counts["failures"], counts["errors"])


def test_O04_junit_shows_failures_and_invalid_runs_as_errors(tmp_path):
    """Half of the requests failed and the run was cut short: two errors that say so."""
    records = [*good(10), *(failed_record() for _ in range(10))]
    folder = build_run(tmp_path / "r", numbered(records), complete=False, end_reason="SIGTERM")

    counts, cases = cases_of(report_of(folder))

    assert ["error"] == cases["validity", "failures_over_limit"] == cases["validity", "partial"]
    assert "2" == counts["errors"]
    assert "10 of 20 requests failed" in junit(report_of(folder))


def test_O06_names_of_any_kind_stay_names(tmp_path):
    """JUnit and OpenMetrics parse; Markdown has no live markup of theirs; nothing is lost."""
    report = report_of(eventful_run(tmp_path / "r"))

    cases_of(report)
    families = {f.name: f for f in text_string_to_metric_families(open_metrics(report))}
    text = summary_markdown(report)

    (info,) = families["swarmgauge_run"].samples
    assert AWKWARD.encode("utf-8", "replace").decode() == info.labels["model"]
    assert "<b" not in re.sub(r"\\<", "", text)
    assert "名前" in text


def test_markdown_is_short_and_begins_with_the_verdict(tmp_path):
    """40 stages and 30 reasons: verdict, knee, 12 stages, five reasons, a link."""
    levels = tuple(range(1, 41))
    folder = build_run(
        tmp_path / "r",
        numbered([make_record(stage=n, started_s=n * 10 + 1) for n in range(40)]),
        levels=levels,
        not_reached=tuple(range(10, 40)),
    )

    lines = summary_markdown(report_of(folder)).splitlines()

    assert "### Load test: INVALID" == lines[0]
    assert lines[2].startswith("- **Carries:** ")
    assert 12 == sum(bool(re.match(r"\| \d", line)) for line in lines)
    assert "28 further stages are in the report." in lines
    assert 5 == sum(line.startswith("> **INVALID:**") for line in lines)
    assert lines[-1].endswith("[report.html](report.html)")
    assert len(lines) < 50


def test_openmetrics_has_the_figures_of_the_report(tmp_path):
    """Value by value; what is missing has no sample."""
    records = [*good(20), failed_record(status=503, outcome=Outcome.OVERLOADED, started_s=4.0)]
    report = report_of(build_run(tmp_path / "r", numbered(records), levels=(3, 5)))

    samples = {
        (s.name.removeprefix("swarmgauge_run_"), *(s.labels.get(k) for k in KEYS)): s.value
        for family in text_string_to_metric_families(open_metrics(report))
        for s in family.samples
    }

    first = report.stages[0]
    assert first.ttft.p95 == samples["stage_ttft_seconds", "1", "0.95", None]
    assert first.output_tokens_per_s == samples["stage_output_tokens_per_second", "1", None, None]
    assert 20 == samples["stage_requests", "1", None, "ok"]
    assert 1 == samples["stage_requests", "1", None, "failed"]
    assert 0 == samples["stage_requests", "2", None, "ok"]
    assert ("stage_ttft_seconds", "2", "0.95", None) not in samples
    assert ("knee_users", None, None, None) not in samples
    assert int(report.exit_code) == samples["exit_code", None, None, None]


KEYS = ("stage", "quantile", "end")


def test_openmetrics_labels_are_bounded(tmp_path):
    """50 error codes of the server and 50 prompts add no series."""
    few, many = (
        build_run(
            tmp_path / name,
            numbered(
                [failed_record(error_code=f"e{k % n}", prompt_id=f"p{k % n}") for k in range(50)]
            ),
        )
        for name, n in (("few", 1), ("many", 50))
    )

    def series(folder):
        return {
            (s.name, *sorted(s.labels))
            for family in text_string_to_metric_families(open_metrics(report_of(folder)))
            for s in family.samples
        }, len(open_metrics(report_of(folder)).splitlines())

    assert series(few) == series(many)
    labels = {label for sample in series(many)[0] for label in sample[1:]}
    names = {"run_id", "name", "model", "shape", "started_at", "ended_at"}
    assert labels <= names | {"stage", "load", "quantile", "outcome", "end", "state"}


def with_gaps(folder, gaps_s):
    """The run's tallies made anew, with these gaps of each record."""
    book, path = TallyBook(), folder / "stages.json"
    with (folder / "requests.jsonl").open("rb") as lines:
        for record, own_s in zip(read_rows(lines), gaps_s, strict=True):
            book.add(record, own_s)
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, "tallies": book.to_wire()}), encoding="utf-8")
    return folder


def test_M19_a_stall_is_not_averaged_away(tmp_path):
    """20 streams of 50 chunks at 20 ms, one with a pause of 2 s: the longest gap says 2 s.

    The stream's own mean is 60 ms; pooled as other tools pool gaps, the mean is 22 ms.
    """
    calm_s = [0.02] * 49
    stalled_s = [*calm_s[:24], 2.0, *calm_s[25:]]
    gaps_s = [calm_s] * 19 + [stalled_s]
    records = [
        make_record(
            ttft_s=0.1,
            last_token_s=0.1 + sum(own_s),
            end_s=0.1 + sum(own_s),
            max_gap_s=max(own_s),
            completion_tokens=50,
            chunks=50,
        )
        for own_s in gaps_s
    ]
    folder = with_gaps(build_run(tmp_path / "r", numbered(records)), gaps_s)

    report = report_of(folder)

    gaps = report.latency["chunk_gap_s"]
    assert 980 == gaps.n
    assert 2.0 == pytest.approx(gaps.max, rel=0.01)
    assert sum(stalled_s) / 49 == pytest.approx(report.latency["tpot_s"].max) == 2.96 / 49
    vllm = views_of(whole_run(load_run(folder)))[0]
    (itl,) = (figure for figure in vllm.figures if figure.name == "ITL")
    assert 1000 * (979 * 0.02 + 2.0) / 980 == pytest.approx(itl.values["mean"], rel=0.01)


def test_M03_a_time_per_token_that_is_none_is_no_number(tmp_path):
    """20 answers of one token: TTFT of 20; TPOT an empty cell, n/a, and no sample."""
    report = report_of(build_run(tmp_path / "r", numbered(good(20, completion_tokens=1))))

    row, _ = csv.DictReader(io.StringIO(summary_csv(report)))
    assert ("20", "0", "") == (row["ttft_n"], row["tpot_n"], row["tpot_p50_s"])
    families = {f.name: f.samples for f in text_string_to_metric_families(open_metrics(report))}
    assert [] == families["swarmgauge_run_stage_tpot_seconds"]
    assert 4 == len(families["swarmgauge_run_stage_ttft_seconds"])
    assert "| n/a |" in summary_markdown(report)


def test_M07_the_failures_stand_beside_the_percentiles(tmp_path):
    """94 of 100 ok: each face that shows a percentile has the 6 failures in the same row."""
    records = [*good(94), *(failed_record(started_s=2.0) for _ in range(6))]
    report = report_of(build_run(tmp_path / "r", numbered(records)))

    row, _ = csv.DictReader(io.StringIO(summary_csv(report)))
    assert ("6", "94") == (row["failed"], row["ttft_n"])
    (line,) = (x for x in summary_markdown(report).splitlines() if x.startswith("| 1 |"))
    assert ["94", "6", "100 ms"] == [cell.strip() for cell in line.split("|")[2:5]]
    assert "6 (6.0 %)" in printed(report, io.StringIO())


def test_M09_no_percentile_is_above_what_was_seen(tmp_path):
    """596.4 ms once and 100 ms 49 times: p99 596.4 ms in the table and in the metrics."""
    records = [make_record(ttft_s=0.5964, last_token_s=0.7), *good(49)]
    report = report_of(build_run(tmp_path / "r", numbered(records)))

    row, _ = csv.DictReader(io.StringIO(summary_csv(report)))
    assert ("0.1", "0.5964") == (row["ttft_p50_s"], row["ttft_p99_s"])
    samples = [s for f in text_string_to_metric_families(open_metrics(report)) for s in f.samples]
    assert 0.5964 == max(s.value for s in samples if s.name.endswith("stage_ttft_seconds"))


def test_M06_failures_and_what_was_not_held_are_in_no_latency_cell(tmp_path):
    """Three held successes of 100 ms, a slow one in the ramp, a failure: p99 100 ms of 3."""
    records = [*good(3), make_record(phase=Phase.RAMP, ttft_s=9.0), failed_record(started_s=3.0)]
    report = report_of(build_run(tmp_path / "r", numbered(records)))

    first, total = csv.DictReader(io.StringIO(summary_csv(report)))

    assert ("4", "3", "1", "1") == tuple(
        first[n] for n in ("offered", "completed", "failed", "left_out")
    )
    assert ("3", "0.1") == (first["ttft_n"], first["ttft_p99_s"])
    assert ("5", "4", "") == tuple(total[n] for n in ("offered", "completed", "ttft_p50_s"))
