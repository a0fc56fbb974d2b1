"""The worker watches its garbage collector and keeps start-up objects out of its way."""

import gc
import json

import pytest

from hooks.client_health import GcPauses, set_start_up_objects_aside
from hooks.run_folder import keep_calibration
from hooks.this_host import this_host
from tests.support.processes import ROOT, simulator
from tests.support.runs import run_headless


@pytest.fixture
def pauses():
    """Pauses that are listened to until the test ends, while no collection comes by itself."""
    gc.disable()
    found = GcPauses()
    found.start()
    yield found
    found.stop()
    gc.enable()


def test_each_collection_is_one_pause(pauses):
    """Three collections, three positive times; taken once."""
    for generation in (0, 1, 2):
        gc.collect(generation)

    taken = pauses.take()

    assert 3 == len(taken)
    assert all(0 < pause_s < 10 for pause_s in taken)
    assert [] == pauses.take()


def test_a_pause_is_as_long_as_its_collection(pauses):
    """Half a million objects take far longer to walk than the ten thousandth part of them."""
    gc.collect()
    pauses.take()
    many = [[] for _ in range(500_000)]
    gc.collect()
    (long_s,) = pauses.take()
    del many
    few = [[] for _ in range(50)]
    gc.collect(0)
    (short_s,) = pauses.take()

    assert 50 == len(few)
    assert long_s > 5 * short_s


def test_started_twice_counts_once_and_stopped_counts_nothing(pauses):
    """A second run in one process does not double the pauses of the first."""
    pauses.start()
    gc.collect()
    assert 1 == len(pauses.take())

    pauses.stop()
    gc.collect()

    assert [] == pauses.take()


def test_what_lives_at_the_start_is_set_aside_and_the_collector_stays_on():
    """A second time, what has died meanwhile is not kept: nothing is set aside for good."""

    class Cycle:
        died = 0

        def __init__(self):
            self.me = self

        def __del__(self):
            Cycle.died += 1

    cycle = Cycle()
    try:
        set_start_up_objects_aside()
        assert gc.get_freeze_count() > 1000
        assert gc.isenabled()
        del cycle
        gc.collect()
        assert 0 == Cycle.died, "frozen objects are not looked at"

        set_start_up_objects_aside()

        assert 1 == Cycle.died
    finally:
        gc.unfreeze()


def test_the_calibration_comes_into_the_folder_with_the_runs_host(tmp_path):
    """What was measured, unchanged, and where the run is made."""
    source, folder = tmp_path / "source.json", tmp_path / "run"
    folder.mkdir()
    source.write_text('{"schema": 2, "paced": {"300": 1}}', encoding="utf-8")

    keep_calibration(folder, source)

    kept = json.loads((folder / "calibration.json").read_text(encoding="utf-8"))
    assert {"schema": 2, "paced": {"300": 1}, "run_host": this_host()} == kept


@pytest.mark.parametrize(
    "contents",
    [None, b"{", b"[1]", b"\xff", b"NaN", b'{"a": NaN}'],
    ids=["none", "torn", "a list", "no text", "no object", "not strict"],
)
def test_an_unreadable_calibration_stays_where_it_is(tmp_path, contents):
    """No error, and no file in the run's folder."""
    source, folder = tmp_path / "source.json", tmp_path / "run"
    folder.mkdir()
    if contents is not None:
        source.write_bytes(contents)

    keep_calibration(folder, source)

    assert [] == [path.name for path in folder.glob("*.json")]


WATCHER = """
import gc, json, os
from locust import events
from locustfile import *

@events.request.add_listener
def _note(**_):
    with open(os.environ["GC_NOTES"], "a") as notes:
        notes.write(json.dumps([gc.get_freeze_count(), gc.isenabled()]) + "\\n")
"""


@pytest.mark.live
def test_a_run_tells_its_own_pauses_and_connections(tmp_path):
    """Objects are set aside before the first request; pauses, connections and reads are told."""
    locustfile, notes = tmp_path / "watcher.py", tmp_path / "notes.jsonl"
    locustfile.write_text(WATCHER, encoding="utf-8")
    arguments = ("--shape", "ladder", "--stages", "4", "--hold", "3s", "--settle", "0s")
    with simulator("--jitter", "0") as url:
        run = run_headless(
            tmp_path / "runs",
            *("-f", locustfile, "--host", url, *arguments),
            env={"GC_NOTES": str(notes), "PYTHONPATH": str(ROOT)},
        )

    assert run.sound, run.output[-2000:]
    first = json.loads(notes.read_text(encoding="utf-8").splitlines()[0])
    assert first[0] > 10_000
    assert first[1]
    (row,) = run.summary["client"]
    assert row["gc_pauses"] > 0
    assert 0 < row["gc_pause_max_s"] < 1
    assert 0 < row["gc_share"] < 0.5
    assert row["connection_requests"] == run.summary["held"]["offered"]
    assert row["connections_opened"] + row["connections_reused"] == row["connection_requests"]
    assert row["streams"] == row["kernel_stamped"] == run.summary["held"]["ok"]
    assert not [text for text in run.summary["notices"] if "churned" in text]
