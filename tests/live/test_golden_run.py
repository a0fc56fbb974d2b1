"""Whole runs against the simulator, held against its own log: counts exactly, times closely."""

import csv
import json
from collections import Counter

import pandas
import pytest

from tests.support.processes import simulator
from tests.support.runs import run_headless, server_log, spooled
from tests.support.schemas import misfits

pytestmark = pytest.mark.live

LADDER = ("--shape", "ladder", "--hold", "4s", "--settle", "1s")


def _strict(text):
    def refuse(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])
def test_counts_and_times_are_the_servers(tmp_path, workers):
    """Requests, tokens and 429s equal the simulator's log exactly; TTFT agrees with its stamps."""
    log = tmp_path / "server.jsonl"
    with simulator("--profile", "small", "--max-num-seqs", "4", log=log) as url:
        traffic = "stream:2,sdk:1,block:1"
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, *LADDER, "--stages", "4,8", "--traffic", traffic),
            workers=workers,
        )

    served = server_log(log)
    totals = run.summary["totals"]
    assert served
    assert run.sound, run.output[-3000:]
    assert len(served) == totals["offered"] == totals["ok"]
    assert sum(entry["completion_tokens"] for entry in served) == totals["completion_tokens"]
    assert sum(entry["prompt_tokens"] for entry in served) == totals["prompt_tokens"]
    assert sum(entry["cached_tokens"] for entry in served) == totals["cached_tokens"]
    assert totals["rate_limited_attempts"] == 0
    assert {"server": len(served)} == totals["token_sources"]
    assert run.run["complete"]
    assert workers or len(run.run["workers"]) == 1

    records = pandas.read_parquet(run.folder / "requests.parquet")
    by_id = {entry["request_id"]: entry for entry in served}
    assert len(by_id) == len(served), "each request has an id of its own"
    late_s = [
        record.ttft_s - by_id[record.request_id]["first_sent_s"]
        for record in records.itertuples()
        if record.user_class == "StreamingChatUser"
    ]
    # The server notes a chunk after writing it, on a busy machine some milliseconds after it.
    assert min(late_s) > -0.02, "nothing is seen before it was sent"
    assert pandas.Series(late_s).median() < 0.02
    assert {"StreamingChatUser", "BlockingChatUser", "SdkChatUser"} == set(records.user_class)
    if workers:
        assert workers == len(run.run["workers"])
        spools = Counter((r.worker, r.sequence) for r in spooled(run.folder))
        assert set(spools) == set(zip(records.worker, records.sequence, strict=True))
        assert max(spools.values()) == 1


def test_every_file_of_a_run_is_there_and_parses(tmp_path):
    """Page without outside requests, strict JSON, CSV of equal rows, plots, one row a request."""
    with simulator() as url:
        run = run_headless(tmp_path / "runs", "--host", url, *LADDER, "--stages", "1,2")

    files = {path.relative_to(run.folder).as_posix() for path in run.folder.rglob("*")}
    assert {
        "run.json",
        "stages.json",
        "requests.parquet",
        "summary.json",
        "summary.csv",
        "summary.md",
        "junit.xml",
        "metrics.prom",
        "report.html",
    } <= files
    assert len([name for name in files if name.startswith("plots/")]) >= 4
    summary = _strict((run.folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["schema"] == "swarmgauge.summary/1"
    for name in ("summary", "run", "stages"):
        values = _strict((run.folder / f"{name}.json").read_text(encoding="utf-8"))
        assert [] == misfits(name, values), name
    with (run.folder / "summary.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    assert len({len(row) for row in rows}) == 1
    assert len(rows) >= 3
    rows_kept = len(pandas.read_parquet(run.folder / "requests.parquet"))
    assert rows_kept == summary["totals"]["offered"]
    assert str(run.folder / "report.html") in run.output
    assert "at least 2" in run.output


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])
def test_429s_are_the_servers_and_no_knee_is_claimed(tmp_path, workers):
    """Against a limiter: 429s equal the log, the verdict says rate limit, the exit code says it."""
    log = tmp_path / "server.jsonl"
    with simulator("--profile", "provider-rpm", "--rpm", "120", log=log) as url:
        run = run_headless(
            tmp_path / "runs", "--host", url, *LADDER, "--stages", "2,8", workers=workers
        )

    served = server_log(log)
    refused = [entry for entry in served if entry["status"] == 429]
    totals = run.summary["totals"]
    assert refused
    assert len(refused) == totals["rate_limited_attempts"] == totals["by_outcome"]["rate_limited"]
    assert len(served) == totals["offered"]
    assert len(served) - len(refused) == totals["ok"]
    assert run.summary["knee"]["status"] == "rate_limited"
    assert run.summary["knee"]["users"] is None
    assert run.exit_code == 1


@pytest.mark.alone
def test_the_knee_is_the_slot_count(tmp_path):
    """8 slots, levels 1, 4, 8 and 16: the knee is within one step of 8."""
    with simulator("--max-num-seqs", "8", "--jitter", "0") as url:
        run = run_headless(
            tmp_path / "runs", "--host", url, *LADDER, "--stages", "1,4,8,16", "--hold", "5s"
        )

    knee = run.summary["knee"]
    assert knee["status"] == "knee", run.output[-3000:]
    assert 4 < knee["users"] < 12
    assert "Knee at about" in run.output


@pytest.mark.alone
def test_sdk_and_streaming_users_agree(tmp_path):
    """Side by side in one run: the same tokens per request, and TTFT within noise."""
    with simulator("--jitter", "0") as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--traffic", "stream:1,sdk:1", "-u", "4", "-r", "4", "-t", "8s"),
            *("--ignore-eos", "--output-tokens", "24", "--settle", "2s"),
        )

    records = pandas.read_parquet(run.folder / "requests.parquet")
    records = records[records.outcome == "ok"]
    by_class = records.groupby("user_class")
    assert {"SdkChatUser", "StreamingChatUser"} == set(by_class.groups)
    assert [list(tokens) for tokens in by_class.completion_tokens.unique()] == [[24], [24]]
    medians = by_class.ttft_s.median()
    ratio = medians["SdkChatUser"] / medians["StreamingChatUser"]
    assert 0.6 < ratio < 1.67
