"""The report on a terminal: the answer first, colours and columns as there is room for."""

import io
import re

import pytest

from tests.support.records import make_record
from tests.support.rendered_run import good, printed, report_of
from tests.support.report_runs import AWKWARD, eventful_run
from tests.support.run_builder import build_run, numbered
from tests.support.terminals import Terminal


@pytest.fixture
def width(monkeypatch):
    """Sets the terminal's width, without colours unless a test asks for them."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return lambda columns: monkeypatch.setenv("COLUMNS", str(columns))


def test_the_answer_is_before_the_tables_and_the_reasons_at_the_end(tmp_path):
    """Verdict in the second line, then the sentences, the table, and every reason in full."""
    report = report_of(eventful_run(tmp_path / "r"))

    lines = printed(report, io.StringIO()).splitlines()

    verdict = next(n for n, line in enumerate(lines) if line.startswith("INVALID: "))
    sentence = next(n for n, line in enumerate(lines) if line.startswith(report.headline[0][:40]))
    table = next(n for n, line in enumerate(lines) if line.split()[:2] == ["users", "held"])
    assert verdict < sentence < table
    assert f"{len(report.verdicts)} reasons, told below" in lines[verdict]
    after = " ".join(" ".join(lines[table:]).split())
    for reason in report.verdicts:
        assert " ".join(reason.text.split())[:60] in after


def test_O06_a_log_has_no_escapes(tmp_path):
    """In a log there is not one control character but line ends, whatever names hold."""
    text = printed(report_of(eventful_run(tmp_path / "r")), io.StringIO())

    assert "\x1b" in AWKWARD
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_only_where_they_are_wanted(tmp_path, width, monkeypatch, no_color):
    """A terminal has a coloured verdict; with NO_COLOR it has none, and the same words."""
    width(200)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    report = report_of(build_run(tmp_path / "r", numbered(good(20))))

    text = printed(report, Terminal())

    assert no_color != bool(re.search(r"\x1b\[[0-9;]*3[0-9]m", text))
    assert "VALID: nothing speaks against these figures" in re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 150, 200])
def test_a_narrow_terminal_has_fewer_columns_and_no_broken_figure(tmp_path, width, columns):
    """No line of the table is wider; what is left out is named; each stage keeps its one line."""
    width(columns)
    records = [
        make_record(stage=n, started_s=n * 10 + k * 0.1, ttft_s=1.2345, last_token_s=2.0)
        for n in range(2)
        for k in range(80)
    ]
    report = report_of(build_run(tmp_path / "r", numbered(records), levels=(16, 128)))

    text = re.sub(r"\x1b\[[0-9;]*m", "", printed(report, Terminal()))

    lines = text.splitlines()
    head = next(n for n, line in enumerate(lines) if line.split()[:1] == ["users"])
    table = lines[head : head + 3]
    assert max(map(len, table)) <= columns
    assert ["16", "128"] == [line.split()[0] for line in table[1:]]
    assert all("1,234 ms" in line or "1,235 ms" in line for line in table[1:])
    assert ("left out for this width" in text) == (columns < 150)
