"""A worker that may not take part and comes in the middle of a closed loop: the load stays what
the plan says."""

import shutil
import signal
from datetime import UTC, datetime

import pytest

from tests.support.fleets import Fleet, ids
from tests.support.processes import ROOT, simulator, wait_until
from tests.support.runs import server_log, spooled

pytestmark = pytest.mark.live

USERS = 4
LOAD = ("-u", USERS, "-r", USERS, "-t", "60s", "--settle", "0s", "--output-tokens", "4")


def last_starts(folder):
    """When each user sent its last request, by worker and user."""
    told = sorted((one.started_at, one.worker, one.user) for one in spooled(folder))
    return {(worker, user): datetime.fromisoformat(at) for at, worker, user in told}


def test_a_refused_worker_takes_no_user_from_the_others(tmp_path, stack):
    """Its code differs: each of the four users goes on where it began, and nobody else asks."""
    skip = shutil.ignore_patterns("__pycache__", ".*", "runs", "tests", "bench", "docs")
    other = shutil.copytree(ROOT, tmp_path / "other", ignore=skip)
    with (other / "workloads" / "prompts.py").open("a") as code:
        code.write("# another version\n")
    log = tmp_path / "server.jsonl"
    url = stack.enter_context(simulator(log=log))
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *LOAD, workers=1)
    fleet.wait_for("measuring")
    fleet.add_worker("-f", other / "locustfile.py")
    fleet.wait_for("cannot take part: its code is ")
    refused_at = datetime.now(UTC)

    def rounds_go_on():
        starts = last_starts(fleet.folder()).values()
        return USERS == len(starts) and all(at > refused_at for at in starts)

    wait_until(rounds_go_on, 10, f"a later request of each of the {USERS} users")
    fleet.master.send_signal(signal.SIGINT)
    run = fleet.finish()

    kept = spooled(run.folder)
    assert ids(server_log(log)) == sorted(one.request_id for one in kept), run.output[-3000:]
    assert USERS == len({(one.worker, one.user) for one in kept})
    assert 1 == len(run.run["workers"])
