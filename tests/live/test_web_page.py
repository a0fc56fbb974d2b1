"""The web page as a person uses it: start, wait, start again, stop. In headless Chromium."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.support.processes import ROOT, end, free_port, simulator, wait_until
from tests.support.runs import server_log, start_locust

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


def _drive(url, stages):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.web_page", url, CHROMIUM, stages],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_two_runs_in_one_page(tmp_path):
    """A ramp from the page ends by itself with its report; a second one is stopped with its own."""
    port, log, runs = free_port(), tmp_path / "server.jsonl", tmp_path / "runs"
    with simulator(log=log) as url:
        locust = start_locust(
            *("--host", url, "--web-port", port, "--runs-dir", runs, "--shape", "ladder"),
            *("--stages", "1,2", "--hold", "2s", "--settle", "0s"),
            log=tmp_path / "locust.log",
            env={"SWARMGAUGE_API_KEY": "sk-page-AAAA1111"},
        )
        try:
            wait_until(lambda: "Starting web" in (tmp_path / "locust.log").read_text(), 15, "page")
            seen = _drive(f"http://127.0.0.1:{port}", stages="3")
            folders = wait_until(
                lambda: len(found := sorted(runs.glob("*/summary.json"))) == 2 and found,
                30,
                "two reports",
            )
            wait_until(lambda: len(list(runs.glob("*/report.html"))) == 2, 30, "two pages")
        finally:
            end(locust)

    assert seen["errors"] == []
    assert {"stages", "hold", "promptTokens", "traffic"} <= set(seen["fields"])
    assert "AAAA1111" not in seen["source"]
    assert "STOPPED" in seen["first"].upper()
    first, second = (json.loads(path.read_text(encoding="utf-8")) for path in folders)
    assert first["complete"]
    assert [stage["target_users"] for stage in first["stages"]] == [1, 2]
    assert [stage["target_users"] for stage in second["stages"]] == [3]
    assert not second["complete"]
    assert second["totals"]["ok"] > 0
    served = server_log(log)
    assert len(served) == first["totals"]["offered"] + second["totals"]["offered"]
    tokens = [run["totals"]["completion_tokens"] for run in (first, second)]
    ok = [entry for entry in served if entry["outcome"] == "ok"]
    assert sum(entry["completion_tokens"] for entry in ok) == sum(tokens)
