"""Real runs against the simulator over HTTP, set against each other."""

import json

import pytest

from reports.__main__ import main
from tests.support.processes import simulator
from tests.support.runs import run_headless

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.timeout(900)]

LOAD = ("--shape", "ladder", "--stages", "2,6", "--hold", "30s", "--settle", "2s")
BASE_S, SEQUENCE_S = 0.020, 0.0005


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of two equal runs and of one whose decode steps take 10 % longer."""
    found = {}
    for name, times in (("first", 1.0), ("second", 1.0), ("slower", 1.1)):
        steps = ("--decode-base-s", BASE_S * times, "--decode-per-seq-s", SEQUENCE_S * times)
        with simulator("--profile", "slots-8", *map(str, steps)) as url:
            found[name] = valid_run(tmp_path_factory, url)
    return found


def valid_run(tmp_path_factory, url):
    """The folder of a valid run; on a machine that others used meanwhile it is repeated."""
    for _ in range(3):
        run = run_headless(tmp_path_factory.mktemp("runs"), "--host", url, *LOAD, limit_s=300)
        if run.exit_code == 0:
            return run.folder
    raise AssertionError(run.output)


def compared(a, b, *words):
    """Exit code and values of a comparison; a busy machine's remarks do not refuse it."""
    code = main(["compare", str(a), str(b), "--force", *words])
    return code, json.loads((b / "compare" / "compare.json").read_text(encoding="utf-8"))


def test_two_equal_live_runs_are_the_same_within_5_percent_of_tpot(runs):
    """Over real sockets too: TPOT is the same within 5 %, and nowhere worse beyond it."""
    code, values = compared(runs["first"], runs["second"], "--margin", "5%")
    rows = [row for pair in values["pairs"] for row in pair["rows"]]
    tpot = [r for r in rows if r["metric"] == "tpot_p50_s"]

    assert 0 == code
    assert {"same"} == {r["verdict"] for r in tpot}


def test_a_decode_that_is_10_percent_slower_is_found_live(runs):
    """TPOT is worse by about 10 % of the steps' share, at every load."""
    code, values = compared(runs["first"], runs["slower"])
    rows = [row for pair in values["pairs"] for row in pair["rows"]]
    tpot = [r for r in rows if r["metric"] == "tpot_p50_s"]

    assert 0 == code
    assert {"worse"} == {r["verdict"] for r in tpot}
    assert all(0.06 < r["change"] < 0.14 for r in tpot)


def test_the_gate_fails_the_slower_live_run(runs):
    """Beyond 2 % its TPOT is a regression: exit code 3."""
    words = [str(runs["slower"]), "--baseline", str(runs["first"]), "--margin", "2%", "--force"]
    assert 3 == main(["gate", *words])
