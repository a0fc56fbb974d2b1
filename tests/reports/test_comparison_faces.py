"""The files of a comparison: page, JSON and Markdown, whatever the runs are called."""

import html
import html.parser
import json
import re

import pytest

from reports.__main__ import main
from reports.comparison.plots import few_ticks
from reports.wording import markdown_text
from tests.support.compared_runs import saved
from tests.support.rendered_run import strict

NASTY = (
    "<script>alert(1)</script> | `x` *y* \"q\" 'r' \u202e\x07 \ud800 [l](http://e.example) #1 @me"
)


class Page(html.parser.HTMLParser):
    """The elements of a page, and whatever fetches something."""

    def __init__(self):
        super().__init__()
        self.tags, self.fetched = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.fetched.append(value)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two runs of two loads under a nasty name and model, compared by the command line."""
    folder = tmp_path_factory.mktemp("compared")
    levels = {"levels": (2, 4), "model": NASTY, "name": NASTY}
    a = saved(folder / "a <b> & 'c'", 1, **levels)
    b = saved(folder / "b", 2, tpot_s=0.024, **levels)
    return main(["compare", str(a), str(b), "--margin", "1%"]), b / "compare"


def test_a_comparison_leaves_its_files_and_exit_code_0(compared):
    """Whatever the result: the comparison was made."""
    code, folder = compared

    assert 0 == code
    assert {"compare.html", "compare.json", "compare.md"} < {p.name for p in folder.iterdir()}
    assert {"loads.png", "distributions.png", "changes-B.png"} < {p.name for p in folder.iterdir()}


def test_O06_nothing_of_a_name_becomes_markup_or_is_fetched(compared):
    """No script, no address outside the page, also with a model of markup."""
    page = Page()
    page.feed((compared[1] / "compare.html").read_text(encoding="utf-8"))

    assert "script" not in page.tags
    assert [] == page.fetched
    assert 3 == page.tags.count("figure")


def test_the_page_says_first_which_runs_are_a_and_b(compared):
    """By the names of their folders, before the answer."""
    text = html.unescape((compared[1] / "compare.html").read_text(encoding="utf-8"))

    assert "A is a <b> & 'c', B is b. Margin: 1.0 %" in text[: text.index('id="answer"')]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.04, 2.4, [0.05, 0.2, 2.0]), (0.012, 0.065, [0.02, 0.05]), (0.2, 3.0, [0.2, 1.0, 2.0])],
)
def test_a_narrow_axis_has_three_ticks_at_most(low, high, ticks):
    """More would touch."""
    assert ticks == pytest.approx(few_ticks(low, high))


def test_the_json_is_strict_and_says_what_the_page_says(compared):
    """Schema, margin, the sentences and every row with its bounds."""
    values = strict(compared[1] / "compare.json")
    (pair,) = values["pairs"]
    tpot = [r for r in pair["rows"] if r["metric"] == "tpot_p50_s"]

    assert "swarmgauge.compare/1" == values["schema"]
    assert 0.01 == values["margin"]
    assert {"2 users", "4 users", "all loads"} == {r["load"] for r in tpot}
    assert all(r["low"] < 0.2 < r["high"] and "worse" == r["verdict"] for r in tpot)
    page = (compared[1] / "compare.html").read_text(encoding="utf-8")
    assert pair["sentences"][0].partition(":")[0] in page


def test_the_markdown_has_a_whole_table_and_live_markup_nowhere(compared):
    """Every line of a table has as many cells, and nobody is mentioned by a model's name."""
    text = (compared[1] / "compare.md").read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("|")]

    assert {10} == {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert len(table) > 10
    assert not re.search(r"(?<!\\)[<`@]", text)
    assert text.startswith("### B against A\n\n**B is slower")


def test_line_ends_in_a_name_stay_in_their_cell():
    """A model name of two lines is one cell."""
    assert r"a b \| c" == markdown_text("a\r\nb | c")


REFUSED = {
    "no run": (["compare", "A", "nowhere"], 2),
    "one run": (["compare", "A"], 2),
    "a margin of 2": (["compare", "A", "B", "--margin", "2"], 2),
    "itself": (["compare", "A", "A"], 4),
}


@pytest.mark.parametrize(("words", "code"), REFUSED.values(), ids=REFUSED)
def test_exit_codes_of_what_is_not_compared(tmp_path, capsys, words, code):
    """2 for wrong usage, 4 for what may not be compared; the reason is printed."""
    names = {name: str(saved(tmp_path / name, records=[])) for name in "AB"}
    try:
        found = main([names.get(word, word) for word in words])
    except SystemExit as usage:
        found = usage.code
    told = capsys.readouterr()

    assert code == found
    assert told.out + told.err


def test_a_refused_comparison_still_leaves_its_reasons_in_every_file(tmp_path):
    """CI reads the JSON, people the page."""
    a = saved(tmp_path / "a", records=[])
    b = saved(tmp_path / "b", records=[], settings={"think_time": "9"})

    assert 4 == main(["compare", str(a), str(b), "--out", str(tmp_path / "out")])
    values = json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert values["refused"]
    for name in ("compare.html", "compare.md"):
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "think-time" in text.replace("\\", "")
