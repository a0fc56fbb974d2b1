"""A disk that is full: a message, what exists is kept, and the exit code tells."""

import os
import resource
import subprocess

import pandas
import pytest

from reports.__main__ import main
from tests.support.fleets import Fleet, ids
from tests.support.processes import simulator
from tests.support.runs import server_log, spooled

pytestmark = [pytest.mark.live, pytest.mark.long]

LOAD = ("-u", "6", "-r", "6", "--settle", "0s", "--output-tokens", "4", "-t", "60s")
ROOM_BYTES = 150_000


def let_no_file_grow(process, size_bytes=ROOM_BYTES):
    """From now on no file of this process, nor of those it starts, gets longer than this."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size_bytes, size_bytes))


def test_a_full_disk_at_the_master_ends_the_run_and_loses_nothing(tmp_path, stack):
    """Its rows cannot be written any more: it says so, ends the run early and not with 0; the
    workers' spools have all, and a merge on a disk with room has every request of the server's
    log once."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator("--max-num-seqs", "8", log=log))
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *LOAD)
    fleet.wait_for("measuring")
    let_no_file_grow(fleet.master)
    run = fleet.finish()

    words = "the run ends early: records can be kept no longer"
    assert words in run.output
    assert "requests.jsonl: File too large" in run.output
    assert "Traceback" not in run.output, run.output[-3000:]
    assert run.exit_code in (1, 4)
    assert [0, 0] == [worker.wait(30) for worker in fleet.workers]
    asked = ids(server_log(log))
    assert main(["merge", str(run.folder)]) == 4
    merged = pandas.read_parquet(run.folder / "requests.parquet")
    assert asked == sorted(merged.request_id)
    assert "disk_full" in {finding["rule"] for finding in run.summary["validity"]}
    assert len(asked) == run.summary["totals"]["planned"]


def test_a_full_disk_at_a_worker_is_told_and_costs_no_record(tmp_path, stack):
    """Its spool ends there, the master says so and has all: the report is the server's log."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator("--max-num-seqs", "8", log=log))
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *LOAD, "--max-requests", "300")
    fleet.wait_for("measuring")
    let_no_file_grow(fleet.workers[0], 30_000)
    run = fleet.finish()

    (notice,) = (one for one in run.run["notices"] if "cannot write its spool" in one)
    assert notice in run.output
    assert "the spool ends here, for it cannot be written" in fleet.told(0)
    records = pandas.read_parquet(run.folder / "requests.parquet")
    asked = ids(server_log(log))
    assert 300 == len(asked)
    assert asked == sorted(records.request_id)
    assert len(spooled(run.folder)) < 300
    assert main(["merge", str(run.folder)]) == run.exit_code
    again = pandas.read_parquet(run.folder / "requests.parquet")
    assert asked == sorted(again.request_id)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with next to no room."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ("-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place))
    if os.geteuid() != 0:
        pytest.skip("a file system of its own needs root")
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system of its own here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_under_everybody_keeps_what_is_there(tmp_path, stack, small_disk):
    """Master and workers share a disk of 300 kB: it is told, the run ends early and not with 0,
    nobody hangs, and what was written can be read."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator("--max-num-seqs", "8", log=log))
    more = ("--runs-dir", small_disk / "runs")
    fleet = Fleet(stack, tmp_path / "logs", "--host", url, *LOAD, *more)
    code = fleet.master.wait(90)

    told = fleet.log.read_text()
    assert "records can be kept no longer" in told
    assert "No space left on device" in told
    assert "Traceback" not in told, told[-3000:]
    assert code in (1, 4)
    assert [0, 0] == [worker.wait(30) for worker in fleet.workers]
    (folder,) = (small_disk / "runs").iterdir()
    kept = {record.request_id for record in spooled(folder)}
    assert len(kept) > 20
    assert kept <= set(ids(server_log(log)))
    assert main([str(folder)]) in (1, 4)
