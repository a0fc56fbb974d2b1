"""Every face of the report, however little or however much there is to say."""

import html
import html.parser
import re

import numpy as np
import pandas as pd
import pytest

from metrics.outcome import Outcome
from metrics.stage import Phase
from reports.load import load_run
from reports.model import ExitCode
from reports.wording import share, time_ms
from tests.support.records import failed_record, make_record
from tests.support.rendered_run import csv_rows, good, rendered
from tests.support.run_builder import build_run, numbered

FACES = {"report.html", "summary.json", "summary.csv", "requests.parquet", "plots"}


class Page(html.parser.HTMLParser):
    """What a page fetches, and the ids in it."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.ids, self.scripts = [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.fetched.append((tag, value))


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    "records",
    [
        [],
        [make_record()],
        [make_record(), make_record(started_s=2.0)],
        good(5, started_s=1.0),
        [make_record(ttft_s=0.5, last_token_s=0.5)],
        [failed_record() for _ in range(5)],
        [make_record(phase=Phase.SETTLE)],
        [make_record(stage=None, phase=None)],
    ],
    ids=[
        "no request",
        "one",
        "two",
        "all equal",
        "one stamp",
        "only failures",
        "nothing held",
        "before any stage",
    ],
)
def test_M05_O01_O02_every_face_is_written_and_parses(tmp_path, records):
    """However little there is: every file, every section, no nan, inf or -1 in any cell."""
    folder = build_run(tmp_path / "r", numbered(records))

    rendered(folder)

    assert {path.name for path in folder.iterdir()} >= FACES
    assert 4 <= len(list((folder / "plots").glob("*.png")))
    for row in csv_rows(folder):
        assert not {"nan", "inf", "-inf", "-1", "None"} & {cell.lower() for cell in row.values()}
    page = (folder / "report.html").read_text(encoding="utf-8")
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert {
        "Validity",
        "Plots",
        "Stages",
        "Latency of successes",
        "Failures",
        "Ledger: requests, attempts and retries",
        "Totals",
        "The client itself",
        "To repeat it",
        "What the words mean",
    } == set(titles)
    assert 10 == len(titles)
    assert not re.search(r">\s*(nan|inf|-1)\s*<", page, re.IGNORECASE)


def test_O01_nothing_succeeded_is_an_error(tmp_path):
    """Exit code 1, and the reason first."""
    folder = build_run(tmp_path / "r", numbered([failed_record() for _ in range(5)]))

    code, summary, text = rendered(folder)

    assert ExitCode.ERROR == code
    assert "error" == summary["verdicts"][0]["kind"]
    assert "none of 5 requests succeeded" in text


@pytest.mark.parametrize(("failed", "code"), [(40, 1), (9, 0)], ids=["over limit", "under limit"])
def test_O04_failures_are_in_the_headline(tmp_path, failed, code):
    """40 of 100 failed: "60.0 %", 40 failed, kinds that add up, exit 1 with the limit of 10 %."""
    kinds = [Outcome.STREAM_ERROR, Outcome.INTERRUPTED, Outcome.SERVER_ERROR]
    bad = [failed_record(outcome=kinds[n % 3], status=200) for n in range(failed)]
    folder = build_run(tmp_path / "r", numbered(good(100 - failed) + bad))

    found, summary, text = rendered(folder)

    assert code == found
    assert f"{100 - failed:.1f} %" in summary["headline"][0]
    assert f"{failed} failed" in summary["headline"][0]
    assert failed == sum(row["count"] for row in summary["failures"])
    assert summary["headline"][0] in text


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (99_998, 100_000, "> 99.99 %"),
        (9_995, 10_000, "> 99.9 %"),
        (2, 100_000, "< 0.1 %"),
        (0, 5, "0 %"),
        (5, 5, "100 %"),
        (60, 100, "60.0 %"),
        (0, 0, "n/a"),
    ],
    ids=["nearly all", "most", "hardly any", "none", "all", "some", "of nothing"],
)
def test_O12_a_share_is_never_rounded_to_all_or_nothing(part, whole, expected):
    """100 % and 0 % are said only when they are exact."""
    assert expected == share(part, whole)


def test_O13_the_accounts_agree_everywhere(tmp_path):
    """planned = ok + failed + cancelled + not sent, per stage and in total, in JSON and CSV."""
    records = [*good(5), failed_record(), failed_record(Outcome.CANCELLED, None)]
    folder = build_run(tmp_path / "r", numbered(records))

    _, summary, _ = rendered(folder)

    totals, stage = summary["totals"], summary["stages"][0]
    assert (7, 5, 1, 1, 0) == tuple(
        totals[k] for k in ("planned", "ok", "failed", "cancelled", "not_sent")
    )
    names = ("offered", "completed", "failed", "cancelled", "not_sent")
    assert (7, 5, 1, 1, 0) == tuple(stage[name] for name in names)
    first, total = csv_rows(folder)
    assert ["7", "5", "1", "1", "0"] == [first[name] for name in names]
    assert ["7", "5", "1", "1", "0"] == [total[name] for name in names]


def test_O08_awkward_texts_do_not_break_the_table(tmp_path):
    """Commas, quotes, line ends and formulas: the same columns in all rows, cells inert."""
    folder = build_run(tmp_path / "r", numbered(good(2)), model='=1+1,"a"\nb')

    rendered(folder)

    assert {'\'=1+1,"a"\nb'} == {row["model"] for row in csv_rows(folder)}


def test_O06_the_real_names_are_inside_the_files(tmp_path):
    """Whatever a model is called, the page and the figures say it."""
    name = "../../etc/名前 v1:free"
    folder = build_run(tmp_path / "r", numbered(good(2)), model=name)

    _, summary, _ = rendered(folder)

    assert name == summary["model"]
    assert name in (folder / "report.html").read_text(encoding="utf-8")
    assert [folder.name] == [path.name for path in tmp_path.iterdir()]


def test_O14_times_have_a_zone(tmp_path):
    """Start and end carry their offset in the figures and their zone on the page."""
    folder = build_run(tmp_path / "r", numbered(good(2)))

    _, summary, _ = rendered(folder)

    assert pd.Timestamp(summary["started_at"]).tzinfo is not None
    assert "2026-01-02T03:06:05.000+00:00" == summary["ended_at"]
    assert "2026-01-02 03:06:05 UTC" in (folder / "report.html").read_text(encoding="utf-8")
    assert load_run(folder).records.started_at.str.endswith("+00:00").all()


@pytest.mark.usefixtures("drawn")
def test_server_text_is_inert_and_nothing_is_fetched(tmp_path):
    """A script in an error message is text; the page asks for no other resource; ids are unique."""
    bad = failed_record(error_sample="<script>alert(1)</script>", error_code="<b>")
    folder = build_run(tmp_path / "r", numbered([*good(20), bad]), levels=(1, 2))

    rendered(folder)

    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert 0 == page.scripts
    assert [] == page.fetched
    assert len(page.ids) == len(set(page.ids))
    assert "&lt;script&gt;" in text
    assert not re.search(r"@import|url\((?!#)", text)


@pytest.mark.usefixtures("drawn")
def test_O10_the_page_does_not_grow_with_the_run(tmp_path):
    """20,000 requests: under 3 MB, and the heat map says that it shows all of them."""
    rng = np.random.default_rng(3)
    records = [
        make_record(sequence=n, started_s=float(s), ttft_s=float(t))
        for n, (s, t) in enumerate(
            zip(rng.uniform(0, 10, 20_000), rng.gamma(2, 0.1, 20_000), strict=True)
        )
    ]
    folder = build_run(tmp_path / "r", records)

    rendered(folder)

    assert (folder / "report.html").stat().st_size < 3e6
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "20,000 requests that succeeded, all of them drawn" in page


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "n/a"), (0.0005, "0.50 ms"), (0.1234, "123 ms"), (1.5, "1,500 ms"), (12.34, "12.3 s")],
    ids=["missing", "small", "ordinary", "over a second", "long"],
)
def test_times_are_written_with_their_unit(seconds, text):
    """Milliseconds up to ten seconds, seconds from there on."""
    assert text == time_ms(seconds)
