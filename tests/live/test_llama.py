"""The same suite against a real engine: llama.cpp with a tiny made-up model."""

import pandas
import pytest

from tests.support.llama_server import llama_server
from tests.support.runs import run_headless

pytestmark = [pytest.mark.live, pytest.mark.alone]

# Short prompts and longer answers, so that slots are what is scarce and not prompt processing.
PROMPTS = ("--prefixes", "0", "--prompt-tokens", "4", "--temperature", "0")


def ladder(tmp_path, slots, stages):
    """A ladder of streams against that many slots."""
    with llama_server(slots) as url:
        return run_headless(
            tmp_path / f"slots-{slots}",
            *("--host", url, *PROMPTS, "--output-tokens", "128"),
            *("--shape", "ladder", "--stages", stages, "--hold", "4s", "--settle", "1s"),
            limit_s=150,
        )


def test_the_knee_moves_with_the_slots(tmp_path):
    """4 slots and 8 slots: two knees, each near its slots, from the same ladder."""
    four = ladder(tmp_path, 4, "1,4,8,16")
    eight = ladder(tmp_path, 8, "1,4,8,16")

    knees = [run.summary["knee"] for run in (four, eight)]
    assert [knee["status"] for knee in knees] == ["knee", "knee"], eight.output[-2000:]
    assert 2 < knees[0]["users"] < 8
    assert 4 < knees[1]["users"] < 16
    assert 1.4 * knees[0]["users"] < knees[1]["users"]
    for run in (four, eight):
        assert run.summary["totals"]["failed"] == 0, run.summary["totals"]


@pytest.mark.parametrize("traffic", ["stream", "block", "sdk"])
def test_tokens_are_counted_exactly(tmp_path, traffic):
    """At temperature 0 the model never ends: every answer has the length that was asked for."""
    with llama_server(4) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, *PROMPTS, "--output-tokens", "16", "--traffic", traffic),
            *("-u", "3", "-r", "3", "-t", "4s", "--settle", "1s"),
        )

    records = pandas.read_parquet(run.folder / "requests.parquet")
    assert {"ok"} == set(records.outcome), records.outcome.value_counts()
    assert {16} == set(records.completion_tokens)
    assert {"length"} == set(records.finish_reason)
    assert 16 * len(records) == run.summary["totals"]["completion_tokens"]
    assert (records.ttft_s.notna() == (traffic != "block")).all()
