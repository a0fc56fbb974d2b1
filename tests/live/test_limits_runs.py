"""``--shape limits`` against limiters whose rate is known, and what its saved run tells."""

import json

import pytest

from metrics.rate_bracket import limit_step, rate_bracket
from reports.attempts import attempt_rows, for_search
from reports.load import load_run
from tests.support.processes import simulator
from tests.support.runs import run_headless, server_log, whole_records

pytestmark = [pytest.mark.live, pytest.mark.patient]

SHORT = ("--prefixes", "0", "--prompt-tokens", "20", "--output-tokens", "8", "--hold", "8s")
SOFT = ("--profile", "soft", "--jitter", "0")


def search(tmp_path, server, *options, workers=0):
    """A search to its end: the run and the server's account of it."""
    log = tmp_path / "server.jsonl"
    with simulator(*server, log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "limits", *SHORT, *options),
            workers=workers,
            limit_s=300,
        )
    assert run.folder is not None, run.output[-3000:]
    return run, server_log(log)


def saved_bracket(run):
    """The bracket by the folder alone, in the unit in which the rates were given."""
    rows = attempt_rows(load_run(run.folder).records)
    steps = []
    for stage in run.run["stage_plan"]:
        if stage["kind"] == "rate":
            rate = stage["rate_tokens_per_s"] or stage["rate_rps"]
            of_stage = for_search(rows[rows["stage"] == stage["stage"]])
            steps.append(limit_step(rate, stage["rate_rps"], of_stage))
    return rate_bracket(steps), steps


def test_a_limit_of_requests_is_bracketed_with_few_of_them(tmp_path):
    """600 a minute with a burst of 10: 10/s lies within a quarter, and the log has the words."""
    run, served = search(
        tmp_path, ("--profile", "provider-rpm", "--jitter", "0"), "--rate", "4", workers=3
    )

    bracket, steps = saved_bracket(run)
    assert bracket.narrow
    assert bracket.low <= 10.0 <= bracket.high
    assert "the search is over: the limit lies between" in run.output
    assert [4.0, 8.0, 16.0] == [step.rate for step in steps[:3]]
    assert len(served) == run.summary["totals"]["attempts"] <= 600
    assert sum(entry["status"] == 429 for entry in served) <= 150
    assert run.run["complete"]
    assert "search_ended" not in run.run


@pytest.mark.long
def test_a_limit_of_tokens_is_bracketed_in_tokens(tmp_path):
    """24,000 tokens a minute by the server's count; asked for in nominal ones."""
    run, served = search(
        tmp_path,
        (*SOFT, "--tpm", "24000", "--limit-span-s", "1"),
        *("--rate", "6000 tokens/min", "--output-tokens", "uniform:4-12"),
    )

    bracket, _ = saved_bracket(run)
    counted = [entry["prompt_tokens"] + entry["max_tokens"] for entry in served]
    nominal = [20 + entry["max_tokens"] for entry in served]
    truth = 24_000 / 60 * sum(nominal) / sum(counted)
    assert bracket.narrow
    assert bracket.low <= truth <= bracket.high
    assert "tokens/min" in run.output
    assert len(served) <= 600


def test_a_cap_on_requests_at_once_is_bracketed(tmp_path):
    """4 at once pass as many a second as they are served in: by the server's own times."""
    run, served = search(
        tmp_path,
        (*SOFT, "--max-in-flight", "4"),
        *("--rate", "3", "--output-tokens", "32", "--ignore-eos"),
    )

    bracket, steps = saved_bracket(run)
    records = whole_records(run.folder)
    limited = [stage for stage, step in enumerate(steps) if step.limited]
    there = set(records[records["stage"].isin(limited)]["request_id"])
    served_s = [e["end_s"] for e in served if e["status"] == 200 and e["request_id"] in there]
    truth = 4 / (sum(served_s) / len(served_s))
    assert bracket.narrow
    assert bracket.low <= truth * 1.05
    assert bracket.high >= truth * 0.95
    assert len(served) <= 700


def test_without_a_limit_the_search_ends_with_its_budget(tmp_path):
    """Nothing is refused: it says up to where, and sends no more than it may."""
    run, served = search(tmp_path, SOFT, "--rate", "5", "--search-requests", "200")

    assert len(served) <= 200
    assert "no limit found up to 10 requests/s" in run.run["search_ended"]
    assert "the budget of 200 requests" in run.run["search_ended"]
    assert 0 == sum(entry["status"] == 429 for entry in served)


def test_retries_are_refused(tmp_path):
    """They would be load that no rate names."""
    with simulator() as url:
        run = run_headless(
            tmp_path / "runs", "--host", url, "--shape", "limits", "--retries", "2", limit_s=60
        )

    assert run.folder is None
    assert 2 == run.exit_code
    assert "--retries 2: leave it out with --shape limits" in run.output


def test_what_is_ignored_is_said(tmp_path):
    """Users and arrivals are not looked at: it says so, and offers evenly all the same."""
    run, served = search(
        tmp_path, SOFT, *("--rate", "5", "--arrivals", "gamma:3", "--search-requests", "60")
    )

    assert "--arrivals has no effect with --shape limits" in run.output
    arrived_s = sorted(entry["received_monotonic_s"] for entry in served)
    assert len(served) > 20
    assert (arrived_s[-1] - arrived_s[0]) / (len(served) - 1) == pytest.approx(0.2, rel=0.1)
    assert json.loads((run.folder / "run.json").read_text())["shape"] == "limits"
