"""Descriptors that run out are the client's own limit: told before the load, never the server's."""

import subprocess
import sys

import pandas
import pytest

from tests.support.processes import ROOT, end, free_port, simulator
from tests.support.runs import run_headless, server_log

pytestmark = pytest.mark.live

USERS = 100
FEW = 64
LOAD = ("-u", USERS, "-r", USERS, "-t", "4s", "--settle", "0s", "--output-tokens", "8")


def limited(soft, hard, *arguments):
    """A Locust command line under limits of open files."""
    command = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
    return ["sh", "-c", command, "sh", sys.executable, "-m", "locust", *map(str, arguments)]


def run_limited(tmp_path, soft, hard, *arguments):
    """A headless run under limits, to its end: the exit code, the output, the run's folders."""
    runs = tmp_path / "runs"
    done = subprocess.run(
        limited(soft, hard, "--headless", "--runs-dir", runs, *arguments),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=90,
        check=False,
    )
    return done.returncode, done.stdout, sorted(path.parent for path in runs.glob("*/run.json"))


def test_E13_too_low_a_limit_is_told_before_the_load(tmp_path):
    """64 open files, soft and hard, and 100 users: refused with both numbers, nothing was sent."""
    log = tmp_path / "server.jsonl"
    log.touch()
    with simulator(log=log) as url:
        exit_code, output, folders = run_limited(tmp_path, FEW, FEW, "--host", url, *LOAD)

    assert 2 == exit_code, output[-2000:]
    assert "the run did not start" in output
    assert f"{USERS} users" in output
    assert f"the limit is {FEW}" in output
    assert "ulimit -n" in output
    assert [] == folders
    assert "" == log.read_text()


def test_E13_the_soft_limit_is_raised_as_far_as_allowed(tmp_path):
    """64 open files of 2,048 allowed, which is fewer than Locust asks for: 100 users all run."""
    with simulator("--max-num-seqs", str(USERS)) as url:
        exit_code, output, folders = run_limited(tmp_path, FEW, 2048, "--host", url, *LOAD)

    assert 1 == len(folders), output[-2000:]
    assert exit_code in (0, 4), output[-2000:]  # 4: the machine was busy with others
    records = pandas.read_parquet(folders[0] / "requests.parquet")
    assert {"ok"} == set(records.outcome), records.outcome.value_counts()
    assert USERS == records.user.nunique()


def test_E13_a_worker_without_descriptors_is_client_limited(tmp_path):
    """A worker elsewhere with 64: what it cannot send is its own, and its stage is marked."""
    log, port = tmp_path / "server.jsonl", free_port()
    worker_log = tmp_path / "worker.log"
    with simulator("--max-num-seqs", str(USERS), log=log) as url:
        with worker_log.open("wb") as out:
            worker = subprocess.Popen(
                limited(FEW, FEW, "--worker", "--master-port", port),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            run = run_headless(
                tmp_path / "runs",
                *("--master", "--master-bind-port", port, "--expect-workers", 1),
                *("--host", url, *LOAD),
            )
        finally:
            end(worker)

    totals = run.summary["totals"]
    assert {"ok", "client_resource"} == set(totals["by_outcome"]), worker_log.read_text()[-2000:]
    assert totals["failed"] == totals["by_outcome"]["client_resource"]
    assert totals["ok"] == len(server_log(log))
    texts = [verdict["text"] for verdict in run.summary["verdicts"]]
    assert any(text.startswith("stage 1 is client-limited") for text in texts), texts
    assert not run.summary["valid"]
    assert run.summary["knee"]["users"] is None
