"""A master that is killed and started anew on its port, while workers are started anew when they
end."""

import threading
import time

import pandas
import pytest

from reports.__main__ import main
from tests.support.fleets import Fleet, ids
from tests.support.processes import simulator
from tests.support.runs import server_log

pytestmark = [pytest.mark.live, pytest.mark.long]

LOAD = ("-u", "6", "-r", "6", "--settle", "0s", "--output-tokens", "16")


def supervise(fleet, ended):
    """Start a worker whenever one has ended, as Compose does; notes the exit codes."""
    replaced = set()

    def watch():
        while not ended.wait(0.2):
            for worker in list(fleet.workers):
                if worker.poll() is not None and worker not in replaced and not ended.is_set():
                    replaced.add(worker)
                    fleet.add_worker()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    return watching


def test_O03_a_new_master_on_the_same_port_has_a_run_of_its_own(tmp_path, stack):
    """Killed with -9 in mid-run and started at once: the old workers leave with 1, new ones do the
    new run as planned, which has its own requests alone; the old run has all of its own after a
    merge. Together that is the server's log."""
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    fleet = Fleet(stack, tmp_path / "old", "--host", url, *LOAD, "-t", "60s")
    fleet.wait_for("measuring")
    ended = threading.Event()
    stack.callback(ended.set)
    first = list(fleet.workers)
    watching = supervise(fleet, ended)
    time.sleep(3)
    fleet.master.kill()
    fleet.master.wait()
    new = Fleet(
        *(stack, tmp_path / "new", "--host", url, *LOAD, "-t", "8s"),
        **{"workers": 0, "joining": 2, "port": fleet.port},
    )
    run = new.finish(120)
    ended.set()
    watching.join()

    assert [1, 1] == [worker.wait(30) for worker in first]
    asked = ids(server_log(log))
    own = [one for one in asked if one.startswith(run.run["run_id"])]
    assert (True, []) == (run.run["complete"], [w for w in run.run["workers"] if w["lost"]])
    records = pandas.read_parquet(run.folder / "requests.parquet")
    assert own == sorted(records.request_id)
    old = fleet.folder()
    assert 4 == main(["merge", str(old)])
    merged = pandas.read_parquet(old / "requests.parquet")
    assert len(merged) > 0
    assert asked == sorted([*own, *merged.request_id])
