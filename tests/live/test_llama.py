"""The same suite against a real engine: llama.cpp with a tiny made-up model."""

import pandas
import pytest

from tests.support.llama_server import llama_server
from tests.support.runs import run_headless

pytestmark = [pytest.mark.live, pytest.mark.alone]

# Short prompts and longer answers, so that slots are what is scarce and not prompt processing.
PROMPTS = ("--prefixes", "0", "--prompt-tokens", "4", "--temperature", "0")


@pytest.mark.timeout(580)
@pytest.mark.long
@pytest.mark.parametrize("slots", [4, 8])
def test_the_search_finds_the_slots(tmp_path, slots):
    """4 slots and 8: a knee within one of them, and no request failed."""
    with llama_server(slots) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, *PROMPTS, "--output-tokens", "128"),
            *("--shape", "knee", "-u", "32"),
            limit_s=550,
        )

    knee = run.summary["knee"]
    assert knee["status"] in ("knee", "gradual_knee"), run.output[-3000:]
    assert slots == pytest.approx(knee["users"], abs=1)
    assert 0 == run.summary["totals"]["failed"], run.summary["totals"]


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
