"""Whole runs with retries, held against the servers' own logs: attempts, 429s, tokens, waits."""

import csv
import html
import re
from collections import Counter, defaultdict
from statistics import median

import pandas
import pytest

from tests.support.processes import simulator
from tests.support.runs import run_headless, server_log
from tests.support.scripted_runs import (
    asked_wait_s,
    fate,
    logical_id,
    place,
    refusals_of,
    scripted_runs,
)

pytestmark = [pytest.mark.live, pytest.mark.patient]

WORKERS = pytest.mark.parametrize("workers", [0, 3], ids=["one process", "three workers"])
PARTS = ("ok", "failed", "cancelled", "not_sent")


def records_of(run):
    """The rows of ``requests.parquet``, and only after a run that wrote them."""
    assert run.folder is not None, run.output[-3000:]
    return pandas.read_parquet(run.folder / "requests.parquet")


def page_tables(run):
    """The tables of ``report.html``: rows of texts, the header first."""
    text = (run.folder / "report.html").read_text(encoding="utf-8")
    tables = []
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        tables.append([_texts(row) for row in rows])
    return tables


def _texts(row):
    cells = re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in cells]


def page_columns(run, first, *names):
    """The whole numbers in these columns of the table whose header begins with ``first``."""
    (table,) = (rows for rows in page_tables(run) if rows[0][: len(first)] == list(first))
    places = [table[0].index(name) for name in names]
    return [[int(row[place].replace(",", "")) for place in places] for row in table[1:]]


def parts_of(records):
    """Planned, ok, failed, cancelled and not sent, by the records alone."""
    ends = records.outcome.value_counts()
    ok, cancelled, not_sent = (int(ends.get(name, 0)) for name in ("ok", "cancelled", "not_sent"))
    planned = len(records)
    return [planned, ok, planned - ok - cancelled - not_sent, cancelled, not_sent]


def assert_books_balance(run, records):
    """Planned = ok + failed + cancelled + not sent, in each stage's window and in total, in JSON,
    CSV and page alike, and all three are what the records say."""
    summary = run.summary
    totals, stages = summary["totals"], summary["stages"]
    whole = parts_of(records)
    assert whole == [totals[name] for name in ("planned", *PARTS)]
    assert whole[0] == sum(whole[1:])
    assert totals["failed"] == sum(row["count"] for row in summary["failures"])
    for name in ("attempts", "rate_limited_attempts"):
        assert records[name].sum() == totals[name], name
    held = records[records.phase == "hold"]
    windows = [parts_of(held[held.stage == stage["stage"]]) for stage in stages]
    names = ("offered", "completed", "failed", "cancelled", "not_sent")
    assert windows == [[stage[name] for name in names] for stage in stages]

    with (run.folder / "summary.csv").open(newline="", encoding="utf-8") as lines:
        *rows, bottom = csv.DictReader(lines)
    assert windows == [[int(row[name]) for name in names] for row in rows]
    assert ("total", whole) == (bottom["stage"], [int(bottom[name]) for name in names])

    shown = [name.replace("_", " ") for name in names]
    load = "rate" if run.run["shape"] == "open-loop" else "users"
    assert windows == page_columns(run, (load, "stage"), *shown)
    sums = "planned = ok + failed + cancelled + not sent"
    (line,) = (row for rows in page_tables(run) for row in rows if row[0] == sums)
    assert whole == [int(number) for number in re.findall(r"\d+", line[1])]


@WORKERS
def test_R07_attempts_429s_and_tokens_are_the_servers(tmp_path, workers):
    """An open loop at twice what the limit lets pass, with retries: each logical request has as
    many attempts as the server's log, answered alike; 429s and tokens are equal in sum."""
    log = tmp_path / "server.jsonl"
    limit = ("--rpm", "360", "--limit-span-s", "1")
    with simulator("--profile", "slots-48", *limit, log=log) as url:
        run = run_headless(
            tmp_path / "runs",
            *("--host", url, "--shape", "open-loop", "--rates", "6,12", "--hold", "6s"),
            *("--settle", "0s", "--retries", "3", "--backoff", "full-jitter:200ms"),
            *("--output-tokens", "8", "--prompt-tokens", "20"),
            workers=workers,
        )

    served, records = server_log(log), records_of(run)
    assert max(1, workers) == records.worker.nunique()
    statuses = defaultdict(dict)
    for entry in served:
        logical, attempt = logical_id(entry["request_id"]), place(entry["request_id"])[1]
        assert attempt not in statuses[logical], "no attempt is sent twice"
        statuses[logical][attempt] = entry["status"]
    sent = records[records.attempts > 0].set_index("request_id")
    assert set(statuses) == set(sent.index)
    for logical, record in sent.iterrows():
        told = [*record.lost_status, record.status]
        assert [statuses[logical][n] for n in range(record.attempts)] == told
        assert record.attempts == len(statuses[logical])
        assert record.rate_limited_attempts == told.count(429)
    totals = run.summary["totals"]
    refused = sum(entry["status"] == 429 for entry in served)
    assert refused > 20, "there was something to retry"
    assert refused == totals["rate_limited_attempts"]
    assert len(served) == totals["attempts"]
    assert totals["ok_after_retry"] > 5
    passed = [entry for entry in served if entry["status"] == 200]
    assert len(passed) == totals["ok"] == (records.outcome == "ok").sum()
    for name in ("prompt_tokens", "completion_tokens"):
        assert sum(entry[name] for entry in passed) == totals[name], name
    assert_books_balance(run, records)


def test_R03_no_attempt_of_a_run_comes_before_its_wait(tmp_path):
    """Three workers, users refused up to three times with 0.3, 0.75 or 1.1 s: by the server's own
    clock no attempt comes sooner after a refusal than it was told to."""
    with scripted_runs(tmp_path) as server:
        run = run_headless(
            tmp_path / "runs",
            *("--host", server.host("waits"), "--model", "m", "-u", "9", "-r", "9"),
            *("-t", "8s", "--settle", "0s", "--retries", "3", "--backoff", "fixed:0.01s"),
            workers=3,
        )
        asked = server.asked()

    records = records_of(run)
    assert 3 == records.worker.nunique()
    arrived_s = {request_id: at_s for request_id, at_s in asked}
    assert len(arrived_s) == len(asked) == records.attempts.sum()
    late_s = []
    for request_id, at_s in asked:
        sequence, attempt = place(request_id)
        if attempt:
            earlier = logical_id(request_id) + (f".{attempt - 1}" if attempt > 1 else "")
            waited_s = at_s - arrived_s[earlier]
            late_s.append(waited_s - asked_wait_s(sequence, attempt - 1))
    assert len(late_s) > 30
    assert min(late_s) >= 0
    # The jitter is a tenth of the wait, or 50 ms; the rest is the machine's.
    assert median(late_s) < 0.3
    ended = records[records.outcome == "ok"]
    assert (ended.attempts == 1 + ended.sequence.map(refusals_of)).all()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A run of two workers with about 120 arrivals of known fate, and the server's attempts by
    logical request: errors inside streams, resets, refusals, and streams without end that take up
    the allowed requests in flight, so that others are never sent."""
    folder = tmp_path_factory.mktemp("mixed")
    with scripted_runs(folder) as server:
        run = run_headless(
            folder / "runs",
            *("--host", server.host("mix"), "--model", "m", "--shape", "open-loop"),
            *("--rates", "8,12", "--arrivals", "constant", "--hold", "6s", "--settle", "0s"),
            *("--retries", "3", "--max-in-flight", "6", "--stop-timeout", "2"),
            workers=2,
        )
        asked = server.asked()
    return run, Counter(logical_id(request_id) for request_id, _ in asked)


def test_O13_E01_E05_R07_L08_a_run_of_all_of_them_adds_up(mixed):
    """Each request ends as it was fated to, with as many attempts as the server saw, and the books
    balance everywhere."""
    run, attempts = mixed
    records = records_of(run)
    assert 118 <= len(records) <= 126
    assert 2 == records.worker.nunique()
    sent = records[records.attempts > 0].set_index("request_id")
    assert dict(attempts) == sent.attempts.to_dict()
    assert attempts.total() == run.summary["totals"]["attempts"]
    for record in sent[sent.outcome != "cancelled"].itertuples():
        _, tries, outcome = fate(record.sequence)
        assert (tries, outcome.value) == (record.attempts, record.outcome), record.sequence
    endless = [fate(sequence)[0] == "endless" for sequence in sent.sequence]
    assert {"cancelled"} == set(sent[endless].outcome)
    assert 5 <= sum(endless)
    ends = {"ok", "stream_error", "interrupted", "rate_limited", "cancelled", "not_sent"}
    assert ends == set(records.outcome)
    assert_books_balance(run, records)


def test_O13_the_ledger_is_the_same_in_json_and_page(mixed):
    """A row for each stage and the total: each balances, the sums are the total's, both the
    records'."""
    run, _ = mixed
    records = records_of(run)
    assert "ledger" in run.summary, "the ledger is part of the summary"
    ledger = run.summary["ledger"]
    assert ledger["balanced"]
    names = ("planned", *PARTS, "attempts", "rate_limited_attempts")
    *rows, total = ([row[name] for name in names] for row in (*ledger["stages"], ledger["total"]))
    of_stages = [records[records.stage == row["stage"]] for row in ledger["stages"]]
    for row, own in zip((*rows, total), (*of_stages, records), strict=True):
        assert parts_of(own) == row[:5]
        assert [own.attempts.sum(), own.rate_limited_attempts.sum()] == row[5:]
    assert total == [sum(column) for column in zip(*rows, strict=True)]
    shown = ("planned", "ok", "failed", "cancelled", "not sent", "attempts", "429s")
    assert [*rows, total] == page_columns(run, ("load", "planned"), *shown)


def test_M07_refusals_of_a_run_do_not_make_it_look_fast(mixed):
    """A sixth of the held answers failed: the share stands beside each percentile, and with
    failures as unbounded waits the p90 has no bound, in JSON and page."""
    run, _ = mixed
    held = run.summary["held"]
    assert held["failed"] > 0.1 * (held["failed"] + held["ok"])
    for name in ("ttft_s", "e2e_latency_s", "user_latency_s"):
        latency = run.summary["latency"][name]
        assert (held["ok"], held["failed"]) == (latency["n"], latency["failed"]), name
        assert latency["failure_adjusted"]["p90"] is None
        assert latency["p50"] <= latency["failure_adjusted"]["p50"]
    (table,) = (rows for rows in page_tables(run) if rows[0][:3] == ["metric", "answers", "n"])
    (row,) = (row for row in table[1:] if row[:2] == ["ttft_s", "all"])
    at = dict(zip(table[0], row, strict=True))
    assert str(held["ok"]) == at["n"]
    share = held["failed"] / (held["ok"] + held["failed"])
    assert f"{share * 100:.1f} %" == at["failed"]
    assert "with failures > max" in at["p90"]


def test_E10_prompts_over_the_limit_are_sent_once_and_are_one_row(tmp_path, case_server):
    """Each third answer is a 400 with a text of its own, retries are on: the server saw each
    request once, and they are one row."""
    run = run_headless(
        tmp_path / "runs",
        *("--host", case_server.host("E10"), "--model", "m", "--no-preflight"),
        *("-u", "3", "-r", "3", "-t", "4s", "--settle", "0s", "--retries", "3"),
    )

    asked, totals = case_server.asked("E10"), run.summary["totals"]
    refused = sum(ask["nth"] % 3 == 2 for ask in asked)
    assert 10 <= refused
    assert len(asked) == totals["attempts"] == totals["planned"]
    (row,) = run.summary["failures"]
    assert ("context_length", 400, refused) == (row["outcome"], row["status"], row["count"])
    locusts = run.output.split("Error report")[-1].split("requests:")[0]
    assert 1 == locusts.count("ChatFailure(")


def test_E11_connections_closed_while_users_think_are_no_failures(tmp_path, case_server):
    """The server closes after 1 s of idling, users think a little longer: nothing fails, and the
    connections told are those that the server saw."""
    run = run_headless(
        tmp_path / "runs",
        *("--host", case_server.host("E11"), "--model", "m", "--no-preflight"),
        *("-u", "5", "-r", "5", "-t", "9s", "--settle", "0s", "--think-time", "uniform:0.9-1.2"),
    )

    asked, totals = case_server.asked("E11"), run.summary["totals"]
    assert len(asked) == totals["ok"] == totals["planned"]
    seen = len({ask["connection"] for ask in asked})
    assert 5 < seen <= totals["connections_opened"]
    # One that was closed while a request was on its way to it is opened a second time.
    assert totals["connections_opened"] - seen <= totals["reconnects"]
