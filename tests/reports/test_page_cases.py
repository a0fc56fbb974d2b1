"""The cases of reports, as a reader meets them on the page."""

import html
import re

import pytest

from reports.__main__ import main
from reports.wording import moment
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import good
from tests.support.report_runs import AWKWARD, eventful_run
from tests.support.run_builder import build_run, numbered


def page_of(folder):
    """The page's source."""
    main([str(folder), "--quiet"])
    return (folder / "report.html").read_text(encoding="utf-8")


def answer_of(text):
    """The words of the first screen, without markup."""
    part = text[text.index('id="answer"') : text.index('id="plots"')]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", part)).split())


@pytest.fixture(scope="module")
def eventful(tmp_path_factory):
    """A run with a stage in every state and awkward names."""
    return eventful_run(tmp_path_factory.mktemp("run") / "r")


def test_O02_one_step_of_one_request_is_a_whole_page(tmp_path):
    """A row in the table of stages, facts of the only level, and no knee claimed."""
    text = page_of(build_run(tmp_path / "r", numbered([make_record()])))

    assert 'First token at 1 user</dt><dd class="value">100 ms (p50)' in text
    assert "knee at about" not in text
    stages = text[text.index('id="stages"') : text.index('id="latency"')]
    assert 2 == stages.count("<tr")


def test_O03_a_killed_run_says_so_before_anything_else(tmp_path):
    """INVALID, partial, and the requests that were saved are counted all the same."""
    killed = {"stages": False, "complete": False, "ended_at": None}
    text = page_of(build_run(tmp_path / "r", numbered(good(5)), **killed))

    said = answer_of(text)
    assert said.index("INVALID") < said.index("partial") < said.index("5 requests")
    assert "killed before its stages were written" in said


def test_O04_failures_are_on_the_first_screen(tmp_path):
    """60.0 % ok and 40 failed, and FAILED above them."""
    records = [*good(60), *(failed_record() for _ in range(40))]
    said = answer_of(page_of(build_run(tmp_path / "r", numbered(records))))

    assert "60 ok (60.0 %), 40 failed" in said
    assert "FAILED" in said


def test_O12_two_failures_in_many_are_seen(tmp_path):
    """2 of 2,002: > 99.9 % is no 100 %, and the count stands beside it."""
    records = [*good(2000, started_s=1.0), failed_record(), failed_record()]
    said = answer_of(page_of(build_run(tmp_path / "r", numbered(records))))

    assert "2,000 ok (> 99.9 %), 2 failed" in said
    assert "100 %" not in said


def test_a_stage_shows_its_state_in_a_word_a_mark_and_a_class(eventful):
    """Usable, rate-limited, client-limited, not reached: never by colour alone."""
    text = page_of(eventful)

    stages = text[text.index('id="stages"') : text.index('id="latency"')]
    rows = re.findall(
        r"<tr([^>]*)>\n<th scope=\"row\">.*?<td class=\"short\">(.*?)</td>", stages, re.S
    )
    assert [
        ("", "● usable"),
        (' class="limited"', "◆ rate-limited"),
        (' class="void"', "▼ client-limited"),
        (' class="void"', "✕ not reached"),
    ] == rows


def test_awkward_names_are_shown_and_do_nothing(eventful):
    """Markup is text, templates stay unread, and no control is left; no script could run anyway."""
    text = page_of(eventful)

    assert "49" not in answer_of(text).split()
    assert "{{7*7}}" in text
    assert "<b onload" not in text
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in text
    assert html.escape(AWKWARD[:30], quote=False) in text.replace("&#34;", '"').replace(
        "&#39;", "'"
    )
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe]", text)


def test_every_table_has_a_caption_and_heads(eventful):
    """A reader of the screen hears what a table is, and which row and column a cell is in."""
    text = page_of(eventful)

    tables = re.findall(r"<table>(.*?)</table>", text, re.S)
    assert 13 == len(tables)
    for table in tables:
        assert table.lstrip().startswith("<caption>")
        assert not re.search(r"<th(?! scope=)", table.replace("<thead", ""))
        assert len(re.findall(r"<tr", table.partition("<tbody>")[2])) <= table.count('scope="row"')


def test_a_stage_has_its_number_and_its_queue_share_before_its_latency(eventful):
    """Findings name stages by number; each row has a cell under every head."""
    text = page_of(eventful)
    table = text[text.index('id="stages"') : text.index('id="latency"')]
    heads = re.findall(r"<th scope=\"col\"[^>]*>([^<]*)", table)
    rows = table.partition("<tbody>")[2].split("<tr")[1:]

    assert ["users", "stage", "state", "held s", "queue share", "TTFT p50"] == heads[:6]
    assert {len(heads)} == {len(re.findall(r"<t[hd][ >]", row)) for row in rows}


def test_notices_are_counted_on_the_first_screen(tmp_path):
    """A valid run of few samples has some, and a link to them."""
    text = page_of(build_run(tmp_path / "r", numbered(good(40))))

    assert "Nothing speaks against these figures; 2 notices under Validity." in answer_of(text)
    assert '; <a href="#validity">2 notices</a>' in text


def test_one_kind_of_answer_has_no_second_set_of_rows(tmp_path):
    """Its percentiles are those of all."""
    text = page_of(build_run(tmp_path / "r", numbered(good(5))))

    assert ">all</td>" in text
    assert ", streamed</td>" not in text


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("2026-11-30T16:18:18.669+00:00", "2026-11-30 16:18:18 UTC"),
        ("2026-11-30T16:18:18+02:00", "2026-11-30T16:18:18+02:00"),
        ("yesterday", "yesterday"),
        (None, "–"),
    ],
)
def test_moments_are_shown_to_the_second(stored, shown):
    """Only those of UTC; anything else stays as it was stored."""
    assert shown == moment(stored)


def test_percentiles_stand_with_n_interval_and_star(tmp_path):
    """96 requests of one stage: n, a p50 with its interval below it, and a p99 with a star."""
    records = [make_record(started_s=n / 10, ttft_s=0.1 + 0.01 * (n * 37 % 10)) for n in range(96)]
    text = page_of(build_run(tmp_path / "r", numbered(records)))

    latency = text[text.index('id="latency"') : text.index('id="failures"')]
    first = latency[latency.index('<td class="short">TTFT</td>') :]
    row = first[: first.index("</tr>")]
    assert "<td>96</td>" in row
    assert re.search(r"<td>1\d0 ms<br><span class=\"soft\">1\d\d ms–1\d\d ms</span>", row)
    assert re.search(r"<td>\d+ ms\*", row)


def test_what_is_needed_to_repeat_it_is_on_the_page(eventful):
    """The command line, the model, the seed and salt, the shape and the versions."""
    text = page_of(eventful)

    repeat = text[text.index('id="repeat"') :]
    assert "<pre>.venv/bin/locust --headless --host http://127.0.0.1:8000/v1/chat" in repeat
    for words in ("seed · salt", "prefix hashes", "workers", "python", "model", "--price-out 1.1"):
        assert words in repeat
