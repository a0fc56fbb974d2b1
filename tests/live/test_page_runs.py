"""Runs started at the page's address: with workers, one after the other, cut by SIGTERM."""

import json
import urllib.parse
import urllib.request

import pytest

from tests.support.processes import end, free_port, simulator, wait_until
from tests.support.runs import start_locust

pytestmark = pytest.mark.live

FORM = {"user_count": "2", "spawn_rate": "2", "shape": "ladder", "settle": "0s"}


def post(url, path, **form):
    """Press a button of the page."""
    data = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(f"{url}{path}", data, timeout=60) as answer:
        return json.loads(answer.read())


def state(url):
    """What the page shows as the state."""
    with urllib.request.urlopen(f"{url}/stats/requests", timeout=10) as answer:
        return json.loads(answer.read())["state"]


def page(tmp_path, host, *options):
    """Locust with its page; the process and the page's URL."""
    port, log = free_port(), tmp_path / "locust.log"
    arguments = ("--host", host, "--web-port", port, "--runs-dir", tmp_path / "runs")
    process = start_locust(*arguments, *options, log=log)
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: answers(url), 30, "page")
    return process, url


def answers(url):
    """Whether the page is up."""
    try:
        return bool(state(url))
    except OSError:
        return False


@pytest.mark.alone
def test_two_runs_with_a_worker_each_report_whole(tmp_path):
    """Two ladders on the same master and worker: two complete reports, no fault in the worker."""
    port = free_port()
    with simulator() as host:
        master, url = page(tmp_path, host, "--master", "--master-bind-port", port)
        worker = start_locust("--worker", "--master-port", port, log=tmp_path / "worker.log")
        try:
            log = tmp_path / "locust.log"
            wait_until(lambda: "reported as ready" in log.read_text(), 20, "worker")
            for number in (1, 2):
                assert post(url, "/swarm", **FORM, stages="1,2", hold="2s")["success"]
                wait_until(
                    lambda n=number: len(list((tmp_path / "runs").glob("*/summary.json"))) == n,
                    60,
                    f"report {number}",
                )
                wait_until(lambda: state(url) in ("stopped", "ready"), 30, "stop")
        finally:
            end(worker)
            end(master)

    summaries = sorted((tmp_path / "runs").glob("*/summary.json"))
    for summary in (json.loads(path.read_text(encoding="utf-8")) for path in summaries):
        assert summary["complete"]
        assert summary["valid"], summary["verdicts"]
        assert summary["totals"]["ok"] > 0
    assert "Traceback" not in (tmp_path / "worker.log").read_text()
    assert "Traceback" not in log.read_text()


def test_a_sigterm_in_mid_run_still_makes_the_report(tmp_path):
    """The process ends by itself, and the folder is complete but for the plan."""
    with simulator() as host:
        process, url = page(tmp_path, host)
        try:
            assert post(url, "/swarm", **FORM, stages="2", hold="60s")["success"]
            wait_until(
                lambda: "measuring" in (tmp_path / "locust.log").read_text(), 20, "held stage"
            )
        finally:
            end(process, wait_s=40)

    (summary,) = (tmp_path / "runs").glob("*/summary.json")
    assert not json.loads(summary.read_text(encoding="utf-8"))["complete"]
    assert (summary.parent / "report.html").exists()
