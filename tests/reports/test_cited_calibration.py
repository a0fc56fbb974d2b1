"""The host's calibration in a report: cited when it is of the run's client, never an error."""

import json

import pytest

from metrics.calibration import CALIBRATION_SCHEMA, host_id
from reports.analyse import analyse
from reports.load import load_run
from tests.support.client_state import watched
from tests.support.rendered_run import good, rendered
from tests.support.run_builder import build_run, numbered

NO_CALIBRATION = "no calibration: run make calibrate"
VERSIONS = {"python": "3.11.7", "gevent": "26.9.0"}
HOST = {"id": host_id("h"), "machine": "x86_64", "cores": 2}


def calibration(**changes):
    """A calibration of the host that built runs say they were made on."""

    def paced(streams, core_used, error_ms):
        return {
            "streams": streams,
            "events_per_s_per_stream": 50.0,
            "core_used": {"min": 0.1, "median": core_used, "max": 0.9},
            "ttft_error_ms": {"p50": 0.001, "p99": error_ms, "count": 900},
            "disturbed": False,
        }

    values = {
        "schema": CALIBRATION_SCHEMA,
        "host": HOST,
        "run_host": HOST,
        "versions": VERSIONS,
        "paced": {"300": paced(300, 0.35, 0.02), "100": paced(100, 0.16, 0.5)},
        "rss_per_stream_kb": 18.1,
    }
    return {**values, **changes}


def said_of(folder, contents, **meta):
    """The sentence about the calibration in a run whose busiest second took 0.2 of a core."""
    build_run(folder, numbered(good(3)), **{"versions": VERSIONS, **meta})
    watched(folder, loop_lag_s=[0.001], cpu_ratio=[0.1, 0.2])
    if contents is not None:
        (folder / "calibration.json").write_bytes(contents)
    return analyse(load_run(folder)).client_sentences[-1]


def as_bytes(values):
    """A calibration as it lies in a folder."""
    return json.dumps(values).encode()


def test_the_calibration_is_cited_as_headroom(tmp_path):
    """The greatest number of streams, its median core and p99 error, beside the run's own CPU."""
    said = said_of(tmp_path / "r", as_bytes(calibration()))

    assert said == (
        "this host as a client, without Locust: 300 streams at 50 events/s each used 0.35 of a "
        "core with a TTFT stamp error of 0.02 ms (p99) and 18 kB for each stream; this run used "
        "at most 0.20 of a core per worker"
    )


def test_a_disturbed_calibration_says_so(tmp_path):
    """Other work held the calibrated client up: its figures are no ceiling."""
    values = calibration()
    values["paced"]["300"]["disturbed"] = True

    assert "while other work held it up" in said_of(tmp_path / "r", as_bytes(values))


@pytest.mark.parametrize(
    "contents",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"schema": 2}',
        as_bytes(calibration(paced={})),
        as_bytes(calibration(paced={"300": {}})),
        as_bytes(calibration(host=None)),
    ],
    ids=[
        "none",
        "empty",
        "torn",
        "a list",
        "null",
        "no text",
        "nothing in it",
        "no streams",
        "no figures",
        "no host",
    ],
)
def test_a_calibration_that_cannot_be_read_is_no_error(tmp_path, contents):
    """Whatever is wrong with the file: the report says what to do and exits as it would."""
    folder = tmp_path / "r"

    assert NO_CALIBRATION == said_of(folder, contents)
    assert 0 == rendered(folder)[0]


def test_an_older_calibration_is_told(tmp_path):
    """One without the host in it cannot be held against this run."""
    said = said_of(tmp_path / "r", as_bytes(calibration(schema=1)))

    assert "no calibration of this version (schema 1): run make calibrate" == said


@pytest.mark.parametrize(
    ("changes", "meta", "named"),
    [
        ({"host": {**HOST, "id": host_id("x")}}, {}, "another host than the workers'"),
        ({"host": {**HOST, "machine": "aarch64"}}, {}, "another host than the workers'"),
        ({"host": {**HOST, "cores": 8}}, {}, "8 cores (the run had 2)"),
        ({}, {"versions": {**VERSIONS, "gevent": "9"}}, "gevent 26.9.0 (the run had 9)"),
        ({}, {"versions": {**VERSIONS, "python": "3.12.1"}}, "python 3.11.7 (the run had 3.12.1)"),
        (
            {},
            {"workers": [{"id": n, "host": n, "lost": False} for n in ("h", "other")]},
            "another host than the workers'",
        ),
    ],
    ids=["host", "machine", "cores", "gevent", "python", "one of two workers"],
)
def test_a_calibration_of_another_client_is_not_cited(tmp_path, changes, meta, named):
    """It is named in what it differs, and none of its figures is."""
    said = said_of(tmp_path / "r", as_bytes(calibration(**changes)), **meta)

    assert f"the calibration is of {named}: run make calibrate" == said
