"""The page: well formed, on its own, and in the right order."""

import html.parser

import pytest

from metrics.outcome import Outcome
from reports.__main__ import main
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered

VOID = {"meta", "br"}
NAMED = ("id", "src", "href", "xlink:href", "action", "data", "srcset", "poster")


class Nesting(html.parser.HTMLParser):
    """Open and closed tags, ids, references, and the texts of table cells."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.values, self.cells = [], [], [], []
        self.feed(text)
        self.close()
        self.faults += self.open

    def handle_starttag(self, tag, attrs):
        if tag in ("td", "th"):
            self.cells.append("")
        if tag not in VOID:
            self.open.append(tag)
        self.values += [(name, value) for name, value in attrs if name in NAMED]

    def handle_startendtag(self, tag, attrs):
        self.values += [(name, value) for name, value in attrs if name in NAMED]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"/{tag}")

    def handle_data(self, data):
        if self.cells and self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data

    def of(self, *names):
        """The values of these attributes."""
        return [value for name, value in self.values if name in names]


def page_of(folder):
    """The page of a run, and its text."""
    main([str(folder), "--quiet"])
    text = (folder / "report.html").read_text(encoding="utf-8")
    return Nesting(text), text


def mixed_run(folder):
    """Two levels with successes, two kinds of failures, a 429, a cancelled request."""
    good = [make_record(stage=n % 2, started_s=(n % 2) * 10 + n * 0.1) for n in range(40)]
    bad = [
        failed_record(error_sample="<script>alert(1)</script>", error_code='"><img src=x>'),
        failed_record(Outcome.RATE_LIMITED, 429, rate_limited_attempts=1),
        failed_record(Outcome.CANCELLED, None),
    ]
    return build_run(folder, numbered(good + bad), levels=(1, 2))


@pytest.mark.usefixtures("drawn")
def test_every_tag_is_closed_in_its_place(tmp_path):
    """Plots inside the page included: six, and two of what was refused."""
    page, text = page_of(mixed_run(tmp_path / "r"))

    assert [] == page.faults
    assert 8 == text.count("<svg")
    assert text.count("<svg") == text.count("</svg>")


@pytest.mark.usefixtures("drawn")
def test_every_reference_is_to_an_id_of_the_page(tmp_path):
    """Ids are unique although several plots share the page; nothing points outside."""
    page, _ = page_of(mixed_run(tmp_path / "r"))

    ids, asked = page.of("id"), page.of("href", "xlink:href")
    assert len(ids) == len(set(ids))
    assert [] == page.of("src", "action", "data", "srcset", "poster")
    assert asked
    assert {value.removeprefix("#") for value in asked} <= set(ids)


@pytest.mark.usefixtures("drawn")
def test_server_text_stays_text(tmp_path):
    """Neither an element nor an attribute can be smuggled in by an error message."""
    page, text = page_of(mixed_run(tmp_path / "r"))

    assert "<script>alert(1)</script>" in page.cells
    assert '"><img src=x>' in page.cells
    assert "<script" not in text
    assert "<img" not in text


def test_O01_the_failures_come_first_when_nothing_succeeded(tmp_path):
    """Before the plots, and once."""
    folder = build_run(tmp_path / "r", numbered([failed_record() for _ in range(3)]))

    _, text = page_of(folder)

    assert text.index("<h2>Failures</h2>") < text.index("<h2>Plots</h2>")
    assert 1 == text.count("<h2>Failures</h2>")


def test_O13_the_accounts_are_on_the_page(tmp_path):
    """43 = 40 ok + 2 failed + 1 cancelled + 0 not sent in total, and so in a stage's row."""
    page, _ = page_of(mixed_run(tmp_path / "r"))

    assert "43 = 40 + 2 + 1 + 0" in [" ".join(cell.split()) for cell in page.cells]
    start = page.cells.index("users")
    width = page.cells.index("remarks") - start + 1
    names, first = page.cells[start : start + width], page.cells[start + width : start + 2 * width]
    row = dict(zip(names, first, strict=True))
    names = ("offered", "completed", "failed", "cancelled", "not sent", "429s")
    assert ["23", "20", "2", "1", "0", "1"] == [row[name] for name in names]


@pytest.mark.parametrize(
    "model",
    ["org/kelp-7b:free", "../../etc/x", "名前 v1", "m" * 300, "half a pair \ud800"],
    ids=["slash", "upward", "kanji", "long", "surrogate"],
)
def test_O06_a_model_may_be_called_anything(tmp_path, model):
    """The name is in the page, the files stay in the folder."""
    folder = build_run(tmp_path / "r", numbered([make_record()]), model=model)

    _, text = page_of(folder)

    assert model.encode("utf-8", "replace").decode() in text
    assert [folder] == list(tmp_path.iterdir())
    assert {"run.json", "stages.json", "requests.parquet", "report.html"} | {
        "summary.json",
        "summary.csv",
        "summary.md",
        "junit.xml",
        "metrics.prom",
    } == {path.name for path in folder.iterdir()}


def test_small_samples_have_their_star_and_no_remark(tmp_path):
    """The remarks are for what is wrong with a stage."""
    page, _ = page_of(build_run(tmp_path / "r", numbered([make_record()])))

    assert "100 ms*" in page.cells
    assert not [cell for cell in page.cells if "too few" in cell]
