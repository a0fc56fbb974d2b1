"""The live tab in headless Chromium: over a ramp with two workers it says what the report says."""

import contextlib
import json
import subprocess
import sys

import pytest

from tests.live.test_web_page import CHROMIUM
from tests.support.processes import ROOT, end, free_port, simulator, wait_until
from tests.support.runs import start_locust

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

COUNTS = {
    "offered": "offered",
    "sent": "sent",
    "completed": "completed",
    "failed": "failed",
    "rate_limited": "rate_limited_attempts",
    "left_out": "left_out",
}
RATES = {
    "held_s": "window_s",
    "output_tokens_per_s": "output_tokens_per_s",
    "in_flight": "in_flight",
}
DIGITS = 6e-4
"""The page has four digits of a figure."""
HISTOGRAM = 0.01 + DIGITS


@contextlib.contextmanager
def fleet(tmp_path, *options):
    """A master with its page, two workers and a simulator; the page's address without a path."""
    port, web, log = free_port(), free_port(), tmp_path / "locust.log"
    with simulator() as host:
        master = start_locust(
            *("--master", "--master-bind-port", port, "--web-port", web, "--host", host),
            *("--runs-dir", tmp_path / "runs", "--shape", "ladder", *options),
            log=log,
            env={"SWARMGAUGE_API_KEY": "sk-live-AAAA1111"},
        )
        workers = [
            start_locust("--worker", "--master-port", port, log=tmp_path / f"worker-{number}.log")
            for number in (1, 2)
        ]
        try:
            wait_until(lambda: log.read_text().count("reported as ready") == 2, 60, "workers")
            yield f"http://127.0.0.1:{web}"
        finally:
            for process in (*workers, master):
                end(process, wait_s=40)


def watch(url, seconds, tmp_path):
    """What the tab showed of a run as the form has it."""
    output = tmp_path / "seen.json"
    with output.open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.live_tab", url, CHROMIUM, str(seconds)],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=seconds + 150,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:].decode()
    return json.loads(output.read_text(encoding="utf-8"))


def check(seen, runs):
    """The tab against the report: counts exactly, percentiles within the histogram's error."""
    (path,) = runs.glob("*/summary.json")
    summary = json.loads(path.read_text(encoding="utf-8"))
    assert len(summary["stages"]) == len(seen["rows"])
    health = {row["stage"]: row for row in summary["client"]}
    for row, stage in zip(seen["rows"], summary["stages"], strict=True):
        for live, final in COUNTS.items():
            assert stage[final] == int(row[live]), (stage["stage"], live)
        for live, final in RATES.items():
            assert float(row[live]) == pytest.approx(stage[final], rel=DIGITS), live
        for q in ("p50", "p95", "p99"):
            live = float(row[f"ttft_{q}_s"])
            assert live == pytest.approx(stage["ttft"][q], rel=HISTOGRAM), (stage["stage"], q)
        assert float(row["tpot_p50_s"]) == pytest.approx(stage["tpot"]["p50"], rel=HISTOGRAM)
        lag_s = health[stage["stage"]]["loop_lag_p99_s"]
        assert float(row["loop_lag_p99_s"]) == pytest.approx(lag_s, rel=DIGITS)
    totals = summary["totals"]
    tiles = {name: text.replace(",", "") for name, text in seen["tiles"].items()}
    assert str(totals["offered"]) == tiles["Requests"]
    assert str(totals["failed"]) == tiles["Failed"]
    assert str(totals["rate_limited_attempts"]) == tiles["429s"]
    assert summary["headline"][0] in seen["headline"]
    assert seen["report"].endswith(f"/runs/{path.parent.name}/report.html")
    assert "Swarmgauge report" in seen["report_title"]
    return summary


def check_page(seen):
    """No error, nothing from elsewhere, nothing that axe minds, little on the wire, and lines."""
    assert [] == seen["errors"]
    assert [] == seen["outside"]
    assert [] == seen["hard_to_use"]
    assert seen["hidden_beside_another_tab"]
    assert seen["drawn"] >= 10, "at least two lines of each pair of plots"
    each = seen["answer_bytes"]
    assert 30 * sum(each) / len(each) < 100_000, "bytes of 30 answers, which is a minute"
    helps = dict(seen["form"])
    assert "user counts of a ladder" == helps["stages"]
    groups = [text for name, text in seen["form"] if name == "group"]
    assert ["The endpoint", "The load", "The prompts"] == groups[:3]


def test_the_tab_says_what_the_report_says(tmp_path):
    """A short ramp with two workers, under a base path."""
    options = ("--stages", "2,6", "--hold", "6s", "--settle", "1s", "--web-base-path", "/load")
    with fleet(tmp_path, *options) as url:
        seen = watch(f"{url}/load/", 60, tmp_path)

    check_page(seen)
    summary = check(seen, tmp_path / "runs")
    assert summary["complete"]
    assert 2 == len({row["id"] for row in _workers(tmp_path)})
    assert "sk-live-AAAA1111" not in json.dumps(seen)


@pytest.mark.long
def test_the_tab_says_what_the_report_says_of_three_minutes(tmp_path):
    """Up to beyond the knee, where the queue makes first tokens late."""
    options = ("--stages", "2,4,8,12,16,24,32", "--hold", "20s", "--settle", "3s")
    with fleet(tmp_path, *options) as url:
        seen = watch(f"{url}/", 240, tmp_path)

    check_page(seen)
    summary = check(seen, tmp_path / "runs")
    assert summary["complete"]
    assert summary["knee"]["users"] is not None


def _workers(tmp_path):
    (run,) = (tmp_path / "runs").glob("*/run.json")
    return json.loads(run.read_text(encoding="utf-8"))["workers"]
