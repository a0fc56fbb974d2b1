"""The report of saved runs, from their files to every face of it."""

import csv
import html
import html.parser
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from metrics.outcome import Outcome
from metrics.run_files import RunFileError
from metrics.stage import Phase
from reports.__main__ import main
from reports.load import load_run
from reports.model import ExitCode
from reports.render import render_run
from reports.wording import share, time_ms
from tests.support.records import failed_record, make_record
from tests.support.run_builder import build_run, numbered

NEWER = '{"schema": "swarmgauge.run/9"}'
FACES = {"report.html", "summary.json", "summary.csv", "requests.parquet", "plots"}


def strict(path):
    """JSON as a parser reads it that knows no NaN."""

    def refuse(name):
        raise ValueError(name)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def rendered(folder, slo=None):
    """Exit code, summary and terminal text of a run."""
    out = io.StringIO()
    code = render_run(folder, out, slo)
    return code, strict(folder / "summary.json"), out.getvalue()


def csv_rows(folder):
    """The rows of summary.csv as dicts, after checking that all have the same width."""
    with (folder / "summary.csv").open(encoding="utf-8", newline="") as lines:
        table = list(csv.reader(lines))
    assert {len(table[0])} == {len(row) for row in table}
    return [dict(zip(table[0], row, strict=True)) for row in table[1:]]


def good(n, **changes):
    """``n`` successes a tenth of a second apart in the window."""
    return [make_record(**{"started_s": 1 + n * 0.1, **changes}) for n in range(n)]


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


def test_M06_failures_have_a_table_of_their_own(tmp_path):
    """66 ok at 700 ms, 34 failed at 2 ms: success p50 700 ms n 66, failure p50 2 ms n 34."""
    ok = good(66, user_latency_s=0.7)
    folder = build_run(tmp_path / "r", numbered(ok + [failed_record() for _ in range(34)]))

    _, summary, _ = rendered(folder)

    latency, failures = summary["latency"]["user_latency_s"], summary["failures"]
    assert (66, 0.7) == (latency["n"], latency["p50"])
    assert 0.7 == pytest.approx(latency["mean"])
    assert (1, 34) == (len(failures), failures[0]["count"])
    assert (34, 0.002) == (failures[0]["latency"]["n"], failures[0]["latency"]["p50"])


def test_M11_streamed_and_plain_answers_have_their_own_rows(tmp_path):
    """8 streamed with TTFT 50 ms and 2 plain of 2.5 s: TTFT n 8, and none in the plain row."""
    plain = [
        make_record(
            user_class="BlockingChatUser",
            streamed=False,
            stream_asked=False,
            ttft_s=None,
            ttfa_s=None,
            last_token_s=None,
            user_ttft_s=None,
            end_s=2.5,
            user_latency_s=2.5,
        )
        for _ in range(2)
    ]
    folder = build_run(tmp_path / "r", numbered(good(8, ttft_s=0.05) + plain))

    _, summary, _ = rendered(folder)

    assert (8, 0.05) == (summary["latency"]["ttft_s"]["n"], summary["latency"]["ttft_s"]["mean"])
    modes = {row["mode"]: row["latency"] for row in summary["modes"]}
    assert {"streamed", "plain"} == set(modes)
    assert 0 == modes["plain"]["ttft_s"]["n"]
    assert 2.5 == modes["plain"]["e2e_latency_s"]["p50"]


def test_M03_one_token_answers_have_no_tpot(tmp_path):
    """20 answers of one token: TTFT n 20, TPOT n 0 and n/a, report written."""
    folder = build_run(tmp_path / "r", numbered(good(20, completion_tokens=1, chunks=1)))

    code, summary, text = rendered(folder)

    assert 0 == code
    assert 20 == summary["latency"]["ttft_s"]["n"]
    assert 0 == summary["latency"]["tpot_s"]["n"]
    assert summary["latency"]["tpot_s"]["p50"] is None
    assert "n/a" in text


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
    assert [
        "Plots",
        "Stages",
        "Latency of successes, all held windows together",
        "Failures",
        "Totals",
        "The client itself",
        "To repeat it",
        "What the words mean",
    ] == titles
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
        (99_998, 100_000, "> 99.9 %"),
        (2, 100_000, "< 0.1 %"),
        (0, 5, "0 %"),
        (5, 5, "100 %"),
        (60, 100, "60.0 %"),
        (0, 0, "n/a"),
    ],
    ids=["nearly all", "hardly any", "none", "all", "some", "of nothing"],
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


def test_records_that_the_tallies_do_not_know_make_the_run_invalid(tmp_path):
    """A row too many in the file: exit 4 and the two counts."""
    folder = build_run(tmp_path / "r", numbered(good(5)))
    rows = build_run(tmp_path / "other", numbered(good(6)), stages=False) / "requests.jsonl"
    (folder / "requests.jsonl").write_bytes(rows.read_bytes())

    code, summary, _ = rendered(folder)

    assert ExitCode.INVALID == code
    assert any("6 requests are kept, 5 were counted" in v["text"] for v in summary["verdicts"])


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
    """Start and end in the figures and on the page carry their offset."""
    folder = build_run(tmp_path / "r", numbered(good(2)))

    _, summary, _ = rendered(folder)

    assert pd.Timestamp(summary["started_at"]).tzinfo is not None
    assert summary["ended_at"] in (folder / "report.html").read_text(encoding="utf-8")
    assert load_run(folder).records.started_at.str.endswith("+00:00").all()


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


def test_O10_the_page_does_not_grow_with_the_run(tmp_path):
    """20,000 requests: under 3 MB, with a word that not all are drawn."""
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
    assert "of 20,000 requests drawn" in (folder / "report.html").read_text(encoding="utf-8")


def test_L01_a_level_that_was_not_reached_has_no_figures(tmp_path):
    """Its row says so, the run is invalid, and no percentile stands for it."""
    folder = build_run(tmp_path / "r", numbered(good(5)), levels=(1, 40), not_reached=(1,))

    code, summary, text = rendered(folder)

    missed = summary["stages"][1]
    assert ExitCode.INVALID == code
    assert not missed["reached"]
    assert (0, None, None) == (missed["offered"], missed["ttft"]["p50"], missed["window_s"])
    assert "40 users were wanted and never all ran" in text


@pytest.mark.parametrize(("waits", "status"), [(True, "knee"), (False, "not_reached")])
def test_L09_L10_the_knee_is_in_every_face(tmp_path, waits, status):
    """Two slots and levels 1, 2, 4, 8: knee near 2; without a queue: at least 8."""
    records = []
    for stage, users in enumerate((1, 2, 4, 8)):
        wait_s = max(0.0, users / 2 - 1) if waits else 0.0
        records += [
            make_record(
                stage=stage,
                started_s=stage * 10 + 0.1 * n,
                ttft_s=0.05 + wait_s,
                last_token_s=1.0 + wait_s,
                end_s=1.0 + wait_s,
            )
            for n in range(40)
        ]
    folder = build_run(tmp_path / "r", numbered(records), levels=(1, 2, 4, 8))

    code, summary, text = rendered(folder)

    assert 0 == code
    assert status == summary["knee"]["status"]
    if waits:
        assert 2 == pytest.approx(summary["knee"]["users"], abs=0.3)
    else:
        assert "at least 8" in text
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    assert summary["knee"]["sentence"][5:] in page


def test_M12_requests_outside_the_windows_are_counted_as_left_out(tmp_path):
    """10 begun while settling and slow, 30 held and quick: n 30, p99 200 ms, 10 left out."""
    slow = [make_record(phase=Phase.SETTLE, end_s=5.0, last_token_s=5.0) for _ in range(10)]
    quick = good(30, last_token_s=0.2, end_s=0.2)
    folder = build_run(tmp_path / "r", numbered(slow + quick))

    _, summary, _ = rendered(folder)

    latency = summary["latency"]["e2e_latency_s"]
    assert (30, 0.2) == (latency["n"], latency["p99"])
    assert {"settle": 10} == summary["left_out_by_phase"]
    assert 10 == summary["stages"][0]["left_out"]


def test_an_objective_decides_the_exit_code(tmp_path):
    """Missed: 3; met: 0; one given on the command line replaces the stored one."""
    folder = build_run(tmp_path / "r", numbered(good(10)), slo="ttft_p95<50ms")

    stored, summary, _ = rendered(folder)
    given, _, _ = rendered(folder, slo="ttft_p95<500ms,ok>99%,good>90%")

    assert ExitCode.SLO_MISSED == stored
    assert [False] == [verdict["met"] for verdict in summary["slo"]]
    assert ExitCode.OK == given


def test_O03_a_killed_run_reads(tmp_path):
    """A torn last line and no stages.json: the whole rows, windows from them, exit 4."""
    folder = build_run(
        tmp_path / "r", numbered(good(5)), stages=False, complete=False, ended_at=None
    )
    with (folder / "requests.jsonl").open("ab") as lines:
        lines.write(b'["torn')

    code, summary, text = rendered(folder)

    assert ExitCode.INVALID == code
    assert 5 == summary["totals"]["ok"]
    assert summary["stages"][0]["output_tokens_per_s"] > 0
    assert "partial" in text
    assert (folder / "requests.jsonl").exists(), "a run that may still go on keeps its lines"


def test_spools_stand_in_for_lost_rows_and_count_nothing_twice(tmp_path):
    """Rows that are in the file and in a spool are one; rows only in a spool are found."""
    folder = build_run(tmp_path / "r", numbered(good(3)), stages=False)
    spool = folder / "spool" / "local.jsonl"
    spool.parent.mkdir()
    more = build_run(tmp_path / "more", numbered(good(5)), stages=False)
    spool.write_bytes((more / "requests.jsonl").read_bytes())

    assert [0, 1, 2, 3, 4] == sorted(load_run(folder).records.sequence)


def test_parquet_holds_what_the_lines_held(tmp_path):
    """Rendered again from Parquet alone, every figure is the same."""
    records = [*good(20), failed_record(error_sample='a "b",\nc')]
    folder = build_run(tmp_path / "r", numbered(records))
    _, first, _ = rendered(folder)

    _, second, _ = rendered(folder)

    assert not (folder / "requests.jsonl").exists()
    assert first == second


def test_a_plot_that_fails_keeps_the_rest(tmp_path, monkeypatch, capsys):
    """The figures and the page are there, and the fault is told."""

    def broken(*_):
        raise RuntimeError("no ink")

    folder = build_run(tmp_path / "r", numbered(good(5)))
    monkeypatch.setattr("reports.render.draw_all", broken)

    code, summary, _ = rendered(folder)

    assert ExitCode.ERROR == code
    assert 5 == summary["totals"]["ok"]
    assert (folder / "report.html").exists()
    assert "no ink" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "run.json").unlink(), "not a run"),
        (lambda folder: (folder / "run.json").write_text("{", "utf-8"), "cannot be read"),
        (
            lambda folder: (folder / "run.json").write_text(
                '{"schema": "swarmgauge.run/9"}', "utf-8"
            ),
            "newer",
        ),
        (lambda folder: (folder / "requests.jsonl").write_bytes(b"x\n"), "line 1"),
    ],
    ids=["no run.json", "half a run.json", "newer schema", "garbled rows"],
)
def test_a_folder_that_cannot_be_read_is_told(tmp_path, damage, says, capsys):
    """One line, exit code 2."""
    folder = build_run(tmp_path / "r", numbered(good(2)))
    damage(folder)

    assert ExitCode.USAGE == main([str(folder)])
    err = capsys.readouterr().err
    assert says in err
    assert 1 == len(err.strip().splitlines())


def test_a_missing_folder_and_a_wrong_objective_are_usage_errors(tmp_path, capsys):
    """Exit code 2 with the reason."""
    folder = build_run(tmp_path / "r", numbered(good(2)))

    assert ExitCode.USAGE == main([str(tmp_path / "none")])
    assert ExitCode.USAGE == main([str(folder), "--slo", "ttft<1"])
    assert "--slo" in capsys.readouterr().err
    with pytest.raises(RunFileError, match="no such folder"):
        load_run(tmp_path / "none")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "n/a"), (0.0005, "0.50 ms"), (0.1234, "123 ms"), (1.5, "1,500 ms"), (12.34, "12.3 s")],
    ids=["missing", "small", "ordinary", "over a second", "long"],
)
def test_times_are_written_with_their_unit(seconds, text):
    """Milliseconds up to ten seconds, seconds from there on."""
    assert text == time_ms(seconds)
