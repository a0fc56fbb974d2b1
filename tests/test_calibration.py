"""What ``make calibrate`` promises: events/s, streams, TTFT error, memory, and which host."""

import json
import shutil
import subprocess
import sys

import pytest

from bench.calibrate import _pacing, _rss_per_stream_kb
from bench.harness import Load
from hooks.this_host import this_host
from metrics.calibration import CALIBRATION_SCHEMA, host_id
from tests.support.processes import ROOT


def measured(**changes):
    """One repeat: 2 s of 300 streams, 30,000 events in 0.7 s of CPU."""
    values = {
        "wall_s": 2.0,
        "cpu_s": 0.7,
        "events": 30_000,
        "stamp_errors_ms": [0.01] * 98 + [0.03, 0.09],
        "delays_ms": [0.05] * 100,
        "merged_reads": 4,
        "merged_firsts": 1,
        "peak_rss_mb": 38.0,
        "host_busy_cores": 1.0,
    }
    return {**values, **changes}


def test_a_pace_is_kept_with_its_streams_and_events():
    """300 streams at 50 events/s each; 15,000 events/s took 0.35 of a core."""
    found = _pacing([measured()], Load("stamped", 300))

    assert (300, 50.0) == (found["streams"], found["events_per_s_per_stream"])
    assert 15_000.0 == found["events_per_s"]["median"]
    assert 0.35 == found["core_used"]["median"]


def test_the_ttft_error_is_a_percentile_of_all_repeats_together():
    """Two repeats of a hundred: the p99 of the two hundred, and how many there were."""
    found = _pacing([measured(), measured(stamp_errors_ms=[0.01] * 100)], Load("stamped", 300))

    assert {"p50": 0.01, "p99": 0.03, "count": 200} == found["ttft_error_ms"]


@pytest.mark.parametrize(("merged", "disturbed"), [(1, False), (2, True)], ids=["1 %", "2 %"])
def test_merged_first_tokens_over_one_percent_are_a_disturbance(merged, disturbed):
    """Other work held the client up: the figures are marked."""
    assert disturbed == _pacing([measured(merged_firsts=merged)], Load("s", 300))["disturbed"]


def test_memory_of_a_stream_leaves_the_process_itself_out():
    """35 MB with 100 streams and 39 MB with 300: 4 MB for 200."""
    paced = {100: [measured(peak_rss_mb=35.0)], 300: [measured(peak_rss_mb=39.0)]}

    assert 20.5 == _rss_per_stream_kb(paced)


def test_a_host_is_told_apart_without_being_named():
    """The same name gives the same digest, another name another one, and neither is readable."""
    assert host_id("alpha") == host_id("alpha") != host_id("beta")
    assert "alpha" not in host_id("alpha")
    assert {"id", "machine", "cores"} == set(this_host())
    assert this_host()["cores"] >= 1


@pytest.mark.live
@pytest.mark.alone
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the paced server needs gcc")
def test_calibrate_writes_what_reports_cite(tmp_path):
    """One repeat of the real thing: every promised figure is there and possible."""
    out = tmp_path / "made" / "calibration.json"
    command = [sys.executable, "-m", "bench.calibrate", "--repeats", "1", "--out", str(out)]

    run = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False
    )

    assert 0 == run.returncode, run.stderr[-2000:]
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (CALIBRATION_SCHEMA, this_host()) == (found["schema"], found["host"])
    assert {"python", "gevent"} <= set(found["versions"])
    for streams, paced in found["paced"].items():
        assert int(streams) == paced["streams"]
        assert 0 < paced["core_used"]["median"] <= 1.1
        assert 0 < paced["events_per_s"]["median"] < 1.2 * 50 * paced["streams"]
        assert 0 <= paced["ttft_error_ms"]["p50"] <= paced["ttft_error_ms"]["p99"] < 1000
        assert paced["ttft_error_ms"]["count"] > paced["streams"] / 2
    assert 0 < found["rss_per_stream_kb"] < 1000
