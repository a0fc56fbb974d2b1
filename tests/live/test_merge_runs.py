"""Nothing measured is lost: a master or a worker that is killed, each with a disk of its own."""

import contextlib
import io
import json
import signal
import subprocess
import sys
import time
from collections import Counter

import pandas
import pytest

from metrics.run_files import read_rows
from reports.__main__ import main
from reports.render import render_run
from tests.support.processes import ROOT, end, free_port, simulator, wait_until
from tests.support.runs import server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]

LOSES_AT_MOST_S = 2.0
KEY = "sk-test-AAAA1111"
QUERY_KEY = "CCCC3333"


@contextlib.contextmanager
def distributed(tmp_path, url, *arguments):
    """A master and two workers, each in a folder of its own as on machines of their own."""
    port = str(free_port())
    common = ("--stop-timeout", "10")
    master = (*common, "--master", "--master-bind-host", "127.0.0.1", "--master-bind-port", port)
    worker = (*common, "--worker", "--master-port", port)
    run = ("--headless", "--expect-workers", "2", "--runs-dir", "runs", "--host", url, *arguments)
    with contextlib.ExitStack() as stack:
        started = {}
        for name, words in {"master": (*master, *run), "w0": worker, "w1": worker}.items():
            home = tmp_path / name
            home.mkdir()
            process = subprocess.Popen(
                [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfile.py"), *words],
                cwd=home,
                stdout=stack.enter_context((home / "log").open("wb")),
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", "SWARMGAUGE_API_KEY": KEY},
            )
            stack.callback(end, process)
            started[name] = process
        yield started


def folder_of(tmp_path, name="master"):
    """The run's folder on one of the machines."""
    found = wait_until(lambda: list((tmp_path / name / "runs").glob("*/")), 30, f"run of {name}")
    return found[0]


def spool_of(tmp_path, name):
    """A worker's spool on its own machine."""
    (found,) = folder_of(tmp_path, name).glob("spool/*.jsonl")
    return found


def answered(log, before_s):
    """Ids of the requests that the server had answered by a moment of the monotonic clock."""
    return {
        entry["request_id"]
        for entry in server_log(log)
        if entry["received_monotonic_s"] + entry["end_s"] < before_s
    }


def kept(folder):
    """How often each request is in the run's rows."""
    return Counter(pandas.read_parquet(folder / "requests.parquet").request_id)


def rows_of(path):
    """The records of a file of rows."""
    with path.open("rb") as lines:
        return list(read_rows(lines, str(path)))


def lines_in(path):
    """How many whole lines a file has, that may be in the middle of one."""
    return path.read_bytes().count(b"\n")


def not_handed_on(spool, folder):
    """Whether a worker has written rows that the master does not have."""
    known = {record.request_id for record in rows_of(folder / "requests.jsonl")}
    return {record.request_id for record in rows_of(spool)} - known


def test_O03_a_run_killed_with_its_master_and_workers_is_whole_after_a_merge(tmp_path, capsys):
    """All are killed with -9: the master's folder reads, and with the spools nothing is missing."""
    log = tmp_path / "server.jsonl"
    with simulator("--max-num-seqs", "8", log=log) as url:
        asked = (f"{url}/v1?key={QUERY_KEY}", "-u", "8", "-r", "8", "-t", "60s", "--settle", "0s")
        with distributed(tmp_path, *asked, "--output-tokens", "8") as run:
            folder = folder_of(tmp_path)
            wait_until(lambda: lines_in(log) > 60, 40, "60 requests")
            run["master"].kill()
            run["master"].wait()
            # Workers may not have noticed yet, and measure on.
            time.sleep(2.5)
            killed_s = time.monotonic()
            for name in ("w0", "w1"):
                run[name].kill()
                run[name].wait()
    before = rows_of(folder / "requests.jsonl")

    assert 4 == render_run(folder, io.StringIO()), "it reads as it is, and is partial"
    spools = [spool_of(tmp_path, name) for name in ("w0", "w1")]
    code = main(["merge", str(folder), *map(str, spools)])

    wanted, found = answered(log, killed_s - LOSES_AT_MOST_S), kept(folder)
    assert len(wanted) > 30
    assert set() == wanted - set(found)
    assert {1} == set(found.values())
    assert set(found) <= {entry["request_id"] for entry in server_log(log)}
    told = capsys.readouterr().out
    new = len(found) - len(before)
    assert new > 0
    assert f"{new:,} requests were added from the workers' spools" in told
    assert 4 == code
    meta = json.loads((folder / "run.json").read_text())
    assert not meta["complete"]
    assert [True, True] == [worker["lost"] for worker in meta["workers"]]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["latency"]["chunk_gap_s"]["n"] > len(before)
    for path in (*spools, *folder.glob("*.json*"), folder / "report.html"):
        assert KEY not in path.read_text(encoding="utf-8")
        assert QUERY_KEY not in path.read_text(encoding="utf-8")


def test_O03_the_workers_disks_alone_give_back_the_run(tmp_path):
    """The master's folder is gone: rows, windows, gaps and the endpoint are not."""
    log = tmp_path / "server.jsonl"
    asked = ("-u", "4", "-r", "4", "-t", "60s", "--settle", "0s")
    with (
        simulator("--max-num-seqs", "8", log=log) as url,
        distributed(tmp_path, url, *asked) as run,
    ):
        wait_until(lambda: lines_in(log) > 40, 40, "40 requests")
        killed_s = time.monotonic()
        for process in run.values():
            process.kill()
            process.wait()

    spools = [str(spool_of(tmp_path, name)) for name in ("w0", "w1")]
    code = main(["merge", str(tmp_path / "again"), *spools])

    found = kept(tmp_path / "again")
    assert set() == answered(log, killed_s - LOSES_AT_MOST_S) - set(found)
    assert {1} == set(found.values())
    summary = json.loads((tmp_path / "again" / "summary.json").read_text())
    assert 4 == code
    assert summary["url"].startswith(url)
    assert summary["stages"][0]["completed"] > 0
    assert summary["latency"]["chunk_gap_s"]["n"] > 0


def stopped_with_more(worker, spool, folder):
    """Whether the worker, stopped where it is, has rows that the master lacks; else it goes on."""
    worker.send_signal(signal.SIGSTOP)
    time.sleep(0.3)  # for what is on its way to the master
    if not_handed_on(spool, folder):
        return True
    worker.send_signal(signal.SIGCONT)
    return False


def test_a_killed_workers_last_second_comes_back_with_its_spool(tmp_path, capsys):
    """One of two workers dies with -9, the run goes on to its end: the merge has every request."""
    log = tmp_path / "server.jsonl"
    shape = ("--shape", "ladder", "--stages", "4,8", "--hold", "4s", "--settle", "0s")
    with (
        simulator("--max-num-seqs", "8", log=log) as url,
        distributed(tmp_path, url, *shape, "--output-tokens", "8") as run,
    ):
        folder = folder_of(tmp_path)
        wait_until(lambda: lines_in(log) > 20, 40, "20 requests")
        dying = spool_of(tmp_path, "w1")
        wait_until(lambda: stopped_with_more(run["w1"], dying, folder), 20, "a row only spooled")
        killed_s = time.monotonic()
        run["w1"].kill()
        run["w1"].wait()
        run["master"].wait(90)
        run["w0"].wait(30)
    dead = spool_of(tmp_path, "w1")
    before = kept(folder)
    others = {record.request_id for record in rows_of(spool_of(tmp_path, "w0"))}
    spooled = {record.request_id for record in rows_of(dead)}
    assert others <= set(before), "those of the other worker came in by themselves"

    main(["merge", str(folder), str(dead)])

    found = kept(folder)
    assert set() == answered(log, killed_s - LOSES_AT_MOST_S) - set(found)
    assert others | spooled == set(found)
    assert {1} == set(found.values())
    new = len(spooled - set(before))
    assert new > 0
    told = f"worker {dead.stem}: {len(spooled)} requests, {new} of them new"
    assert told in capsys.readouterr().out
    summary = json.loads((folder / "summary.json").read_text())
    lost = [f for f in summary["validity"] if f["rule"] == "worker_lost"]
    assert lost, "its stage stays void"
    assert all(finding["stage"] is not None for finding in lost)
