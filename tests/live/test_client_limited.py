"""An overloaded load generator is named as such, and never taken for a slow endpoint."""

import pytest

from tests.support.processes import ROOT, simulator
from tests.support.runs import run_headless

pytestmark = [pytest.mark.live, pytest.mark.alone]

BURNER = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
import gevent
from locust import events
from locustfile import *

@events.init.add_listener
def _burn(**_):
    def burn():
        while True:
            gevent.sleep(0.15)
            until = time.perf_counter() + 0.15
            while time.perf_counter() < until:
                pass
    gevent.spawn(burn)
"""


def ladder(tmp_path, *options):
    """Two short levels against the simulator."""
    with simulator("--jitter", "0") as url:
        return run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "ladder", "--stages", "2,4", "--hold", "3s", *options),
            *("--settle", "0s"),
        )


def test_M15_a_burnt_event_loop_makes_stages_client_limited(tmp_path):
    """150 ms of CPU burnt every 300 ms: the stages are flagged, void for the knee, run invalid."""
    burner = tmp_path / "burner.py"
    burner.write_text(BURNER, encoding="utf-8")
    run = ladder(tmp_path, "-f", str(burner))

    assert 4 == run.exit_code, run.output[-2000:]
    assert all(row["limited"] for row in run.summary["client"])
    assert any("client-limited" in verdict["text"] for verdict in run.summary["verdicts"])
    assert run.summary["knee"]["users"] is None
    assert all("client-limited" in level["note"] for level in run.summary["knee"]["evidence"])


def test_M15_without_it_nothing_is_flagged(tmp_path):
    """The same load from an unburdened client: valid, with the client's own figures stated."""
    run = ladder(tmp_path)

    assert 0 == run.exit_code, run.output[-2000:]
    for row in run.summary["client"]:
        assert row["limited"] is None
        assert 0 <= row["client_delay_p99_s"] < 0.05
        assert row["loop_lag_p99_s"] < 0.05
