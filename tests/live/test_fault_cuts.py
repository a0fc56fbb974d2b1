"""A worker that is cut off from its master: by a line that passes nothing, or by a network that
drops every packet."""

import time

import pandas
import pytest

from reports.__main__ import main
from tests.support.fleets import Fleet, ids
from tests.support.namespaces import ENDPOINT, INSIDE, MASTER, Wire, why_not
from tests.support.processes import simulator
from tests.support.runs import server_log, spooled

pytestmark = [pytest.mark.live, pytest.mark.long]

STOPS_WITHIN_S = 12
"""5 s of silence while it is awake, and as much again for a busy machine."""
CABLE, NETWORK = "a cut cable", "another network"


def spool_ids(folder):
    """The ids in all spools."""
    return sorted(record.request_id for record in spooled(folder))


def fleet_of_two(stack, tmp_path, how, seconds):
    """Two workers of a run under load; with it the way to the second, and the server's log."""
    log = tmp_path / "server.jsonl"
    if how == NETWORK and (why := why_not()):
        pytest.skip(why)
    wire = stack.enter_context(Wire()) if how == NETWORK else None
    listening = ("--host", ENDPOINT) if wire else ()
    url = stack.enter_context(simulator(*listening, log=log))
    load = ("-u", "6", "-r", "6", "--settle", "0s", "--output-tokens", "16", "-t", f"{seconds}s")
    bound = ("--master-bind-host", "0.0.0.0") if wire else ()
    fleet = Fleet(stack, tmp_path / "runs", "--host", url, *load, *bound, workers=1, joining=1)
    if wire is None:
        line = fleet.add_worker_on_a_cable()
    else:
        fleet.add_worker("--master-host", MASTER, inside=INSIDE)
        line = wire
    fleet.wait_for("measuring")
    time.sleep(2)
    return fleet, line, log


@pytest.mark.parametrize("how", [CABLE, NETWORK])
def test_a_worker_cut_off_for_good_drains_and_leaves(stack, tmp_path, how):
    """Seconds later it sends nothing more, ends with 1 and says where its requests are; the master
    goes on with the other to the plan's end, the stage is void, and a merge has every request of
    the server's log once."""
    fleet, line, log = fleet_of_two(stack, tmp_path, how, 14)
    line.cut()
    cut_s = time.monotonic()
    code = fleet.workers[1].wait(60)
    run = fleet.finish()

    told = fleet.told(1)
    assert 1 == code, told
    assert "the master was silent for 5 s" in told
    asked = server_log(log)
    assert ids(asked) == spool_ids(run.folder)
    stem = told.partition("/spool/")[2].partition(".jsonl")[0]
    own = [entry for entry in asked if f"-{stem}-" in entry["request_id"]]
    assert 0 < len(own) < len(asked)
    assert max(entry["received_monotonic_s"] for entry in own) < cut_s + STOPS_WITHIN_S
    found = [finding for finding in run.summary["validity"] if finding["rule"] == "worker_lost"]
    assert 0 in [finding.get("stage") for finding in found], run.output[-3000:]
    assert (True, 4) == (run.run["complete"], run.exit_code)
    assert 4 == main(["merge", str(run.folder)])
    merged = pandas.read_parquet(run.folder / "requests.parquet")
    assert ids(asked) == sorted(merged.request_id)


@pytest.mark.parametrize("how", [CABLE, NETWORK])
def test_a_worker_cut_off_for_three_seconds_comes_back(stack, tmp_path, how):
    """It goes on as if nothing had been: nobody takes anyone for lost, and every request of the
    server's log is in one spool and once in the report."""
    fleet, line, log = fleet_of_two(stack, tmp_path, how, 16)
    line.cut()
    time.sleep(3)
    line.mend()
    run = fleet.finish()

    assert "taken for lost" not in fleet.told(0) + fleet.told(1)
    assert [0, 0] == [worker.wait(30) for worker in fleet.workers]
    asked = ids(server_log(log))
    assert asked == spool_ids(run.folder)
    assert len(asked) == run.summary["totals"]["planned"]
    assert run.run["complete"]
