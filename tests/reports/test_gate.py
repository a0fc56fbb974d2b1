"""The gate: its exit codes, its one screen, and its JUnit file as a parser reads it."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.__main__ import main
from reports.analyse import analyse
from reports.comparison.gate import MOST_REASONS, gate, gate_lines
from reports.comparison.sides import read_side
from reports.faces.junit import objective_cases
from reports.junit_xml import Case, CaseStatus, junit_xml
from reports.load import load_run
from reports.model import ExitCode
from tests.support.compared_runs import retold, saved
from tests.support.records import make_record
from tests.support.run_builder import build_run, numbered


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders: the base, an equal run, a slower one, and others that something is wrong with."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "base": saved(folder / "base", 1),
        "equal": saved(folder / "equal", 2),
        "slower": saved(folder / "slower", 3, ttft_s=0.15),
        "interrupted": saved(folder / "interrupted", 4, complete=False, end_reason="interrupted"),
        "failing": saved(folder / "failing", 5, fails=200),
        "other": saved(folder / "other", 6, settings={"prompt_tokens": "999"}),
    }


CODES = {
    "valid": (["equal"], 0, "GATE PASSED"),
    "objective met": (["equal", "--slo", "ttft_p95<500ms"], 0, "GATE PASSED"),
    "objective missed": (["equal", "--slo", "ttft_p95<1ms"], 3, "ttft_p95<1ms: missed, it was"),
    "no worse": (["equal", "--baseline", "base", "--margin", "50%"], 0, "GATE PASSED"),
    "slower": (["slower", "--baseline", "base"], 3, "TTFT p50 at 4 users: worse than the baseline"),
    "slower, within": (["slower", "--baseline", "base", "--margin", "90%"], 0, "GATE PASSED"),
    "faster": (["base", "--baseline", "slower"], 0, "GATE PASSED"),
    "no objective": (["equal"], 0, "not checked: objectives: no objective was given (--slo)"),
    "invalid": (["interrupted"], 4, "GATE INVALID"),
    "other traffic": (
        ["other", "--baseline", "base"],
        4,
        "--prompt-tokens is 200 in A and 999 in B",
    ),
    "other traffic, forced": (["other", "--baseline", "base", "--force"], 0, "forced: "),
    "invalid baseline": (["equal", "--baseline", "interrupted"], 4, "validity is"),
    "failures": (["failing"], 1, "GATE ERROR"),
    "no such run": (["nowhere"], 2, ""),
    "bad objective": (["equal", "--slo", "speed>1"], 2, ""),
    "bad margin": (["equal", "--margin", "150%"], 2, ""),
    "strict without a margin": (["equal", "--strict", "--margin", "0"], 2, ""),
}


@pytest.mark.parametrize(("words", "code", "told"), CODES.values(), ids=CODES)
def test_exit_codes_of_the_gate(runs, tmp_path, capsys, words, code, told):
    """0 passed, 1 failures, 2 usage, 3 missed or worse, 4 invalid or not comparable."""
    arguments = [str(runs.get(word, word)) for word in words]
    arguments += ["--junit", str(tmp_path / "gate.xml")]
    try:
        found = main(["gate", *arguments])
    except SystemExit as usage:
        found = usage.code

    assert code == found
    assert told in capsys.readouterr().out


def test_the_junit_file_has_a_case_for_each_objective_and_figure(runs, tmp_path):
    """As many failures as the root says, none of TPOT or failures; the objective passed."""
    path = tmp_path / "gate.xml"
    words = [runs["slower"], "--baseline", runs["base"], "--slo", "ttft_p95<500ms"]
    main(["gate", *map(str, words), "--junit", str(path)])
    suite = ET.parse(path).getroot().find("testsuite")
    failed = [case for case in suite if case.find("failure") is not None]
    names = {case.get("name") for case in suite}

    assert int(suite.get("failures")) == len(failed) > 0
    assert int(suite.get("tests")) == len(suite)
    assert {"TTFT", "latency", "tokens/s", "requests/s"} == {
        case.get("name").split()[0] for case in failed
    }
    assert {"validity", "ttft_p95<500ms", "comparable", "tokens/s at 4 users"} <= names


def test_what_may_be_worse_passes_with_a_warning_and_fails_when_strict(runs):
    """With a margin of half a percent these runs can neither show nor rule out a slowdown."""
    base, run = read_side("A", runs["base"]), read_side("B", runs["equal"])
    lax, strict = (gate(run, base, 0.005, strict=strict) for strict in (False, True))

    assert ExitCode.OK is lax.code
    assert any("is not ruled out" in text for text in lax.warnings)
    assert ExitCode.SLO_MISSED is strict.code


def test_a_baseline_with_nothing_to_judge_does_not_pass(runs):
    """A comparison without a single interval is invalid: silence is no proof."""
    base = read_side("A", runs["base"])
    short = replace(base.report, stages=())
    nothing = replace(retold(base), loads={}, report=short)

    assert ExitCode.INVALID is gate(nothing, base, 0.05, force=True).code


def test_records_that_are_still_on_the_workers_do_not_pass(runs):
    """A part of the requests proves nothing of the others: invalid, with what to do."""
    run = read_side("A", runs["base"])
    (worker,) = run.run.meta["workers"]
    told = retold(run, workers=[{**worker, "requests": 10**6, "spool": "s.jsonl"}])
    found = gate(told, None, 0.05)

    assert ExitCode.INVALID is found.code
    assert "python -m reports merge" in found.reasons[0]


def test_the_answer_fits_a_screen(runs):
    """However many figures are worse, a dozen are told and the rest counted."""
    base, run = read_side("A", runs["base"]), read_side("B", runs["slower"])
    found = gate(run, base, 0.0)
    many = replace(
        found, cases=tuple(Case("g", str(n), CaseStatus.FAILURE, "worse") for n in range(99))
    )

    assert MOST_REASONS + 2 == len(gate_lines(many))
    assert f"and {99 - MOST_REASONS} more" in gate_lines(many)[-1]


@given(name=st.text(max_size=40), text=st.text(max_size=40))
def test_any_name_makes_wellformed_xml(name, text):
    """Control characters, half surrogate pairs, markup: the parser gets a name or its stand-in."""
    cases = [Case(name, name, status, text) for status in CaseStatus]
    document = junit_xml(name, cases)
    root = ET.fromstring(document.encode("utf-8"))
    suite = root.find("testsuite")

    assert len(CaseStatus) == len(suite)
    assert ["1"] * 3 == [suite.get(kind) for kind in ("failures", "errors", "skipped")]


def test_plain_names_come_back_as_they_were():
    """Markup in a name is not markup of the file."""
    document = junit_xml("s", [Case("g", "a<b & 'c' \"d\" µ", CaseStatus.FAILURE, "]]> <x/>")])
    case = ET.fromstring(document.encode("utf-8")).find("testsuite/testcase")

    assert "a<b & 'c' \"d\" µ" == case.get("name")
    assert "]]> <x/>" == case.find("failure").get("message")


def test_an_objective_says_over_what_it_was_judged(tmp_path):
    """Two held stages: in words on the first screen, and with the gate's reason."""
    records = [make_record(stage=n, started_s=n * 10 + 1.0) for n in range(2)]
    folder = build_run(tmp_path / "r", numbered(records), levels=(1, 2))

    report = analyse(load_run(folder), "ttft_p95<1ms")
    (case,) = objective_cases(report)

    assert "Objectives are judged over 2 held stages together." in report.headline
    assert case.text.endswith("over 2 held stages together")
