"""An open loop paced by tokens: one schedule for the fleet, by what its requests ask for."""

import json

import pandas
import pytest

from tests.support.processes import simulator
from tests.support.runs import run_headless, server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]


@pytest.mark.parametrize("workers", [0, 3], ids=["one process", "three workers"])
def test_tokens_per_minute_are_those_of_the_whole_fleet(tmp_path, workers):
    """30,000 tokens/min of unequal requests: each is due when the nominal tokens of all before it
    have lasted, whichever worker sends it, and the server gets every one of them."""
    log = tmp_path / "server.jsonl"
    with simulator("--profile", "soft", log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "open-loop", "--rate", "30k tokens/min", "--hold", "6s"),
            *("--arrivals", "constant", "--settle", "0s", "--prefixes", "2"),
            *("--prefix-tokens", "10", "--prompt-tokens", "20", "--output-tokens", "uniform:4-60"),
            workers=workers,
        )

    assert run.folder is not None, run.output[-3000:]
    records = pandas.read_parquet(run.folder / "requests.parquet").sort_values("user")
    assert list(range(len(records))) == list(records.user)
    assert {entry["request_id"] for entry in server_log(log)} == set(records.request_id)
    assert max(1, workers) == records.worker.nunique()
    tokens = 10 + 20 + records.asked_max_tokens.to_numpy()
    assert len(set(tokens)) > 10
    marks = json.loads((run.folder / "stages.json").read_text(encoding="utf-8"))["marks"]
    began_s = {mark["worker"]: mark["at_s"] for mark in marks if mark["phase"] == "hold"}
    due_s = (records.started_s - records.worker.map(began_s)).to_numpy()
    expected_s = (tokens.cumsum() - tokens) / 500
    assert abs(due_s - expected_s).max() < 0.001
    assert tokens.sum() / 500 == pytest.approx(due_s[-1], abs=1.0)
    assert "30,000 tokens/min, measuring" in run.output
    (stage,) = [stage for stage in run.run["stage_plan"] if stage["kind"] == "rate"]
    assert 500.0 == stage["rate_tokens_per_s"]
    assert stage["rate_rps"] == pytest.approx(500 / (10 + 20 + 32))
