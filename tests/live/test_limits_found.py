"""Whole runs against what refuses: the report names the limit, or says that there is none.

The figures are those of the fronts' configurations, which the report does not know.
"""

import json
from collections import Counter
from datetime import datetime, timedelta

import pandas
import pytest

from tests.support.envoy_server import envoy, requires_envoy
from tests.support.limit_fronts import nginx_limit_conn, nginx_limit_req
from tests.support.litellm_server import litellm, requires_litellm
from tests.support.nginx_server import requires_nginx
from tests.support.processes import free_port, simulator
from tests.support.runs import run_headless, server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]

MODEL = "case-model"
RPM = 20
COOLDOWN_S = 5
STARTS_LITELLM = pytest.mark.timeout(420)
"""Its start takes up to two minutes on a busy machine, and its windows are clock minutes."""
DIFFERENT = ("--prefixes", 0, "--prompt-tokens", "uniform:20-400")
"""Requests that all cost the same leave open whether requests or tokens are counted."""


def offered(folder, host, rate, hold, *more, env=None):
    """An open loop without retries to its end."""
    run = run_headless(
        folder / "runs",
        *("--host", host, "--model", MODEL, "--shape", "open-loop", "--rate", rate),
        *("--hold", hold, "--settle", "0s", "--retries", 0, *more),
        limit_s=300,
        env=env,
    )
    assert run.folder is not None, run.output[-3000:]
    return run


def told(run):
    """The report as it is read in a terminal, its lines put together."""
    return " ".join(run.output.partition("Swarmgauge: ")[2].split())


def found(run):
    """The one limit that is found, the section that it is in, and no word of a queue."""
    limits, text = run.summary["rate_limits"], told(run)
    (limit,) = limits["found"]
    assert run.summary["knee"]["users"] is None
    assert "queue" not in text.replace("queue share", "")
    assert "Knee at" not in text
    return limit, limits


def refusals(run):
    """How many attempts were answered 429."""
    return run.summary["totals"]["rate_limited_attempts"]


def causes(limits):
    """How many refusals say what of themselves, by status."""
    return {(row["cause"], row["status"]): row["count"] for row in limits["refusals"]}


def is_bound_by(limits, kind):
    """The one stage met that limit with nearly all of its 429s, which are those of its window."""
    (stage,) = limits["stages"]
    assert stage["bound"]["kind"] == kind
    assert stage["bound"]["explained"] >= 0.9 * stage["limited"]
    return stage


# --- rate limits ----------------------------------------------------------------------------------


@pytest.mark.long
@requires_litellm
@STARTS_LITELLM
def test_litellm_s_twenty_a_minute_are_found(tmp_path):
    """A fixed minute of 20, by the traffic and by the headers; the asked wait is its upstream's.

    All requests cost about the same: that requests are counted follows from the headers of what
    passed, because the 429s have none.
    """
    log = tmp_path / "server.jsonl"
    with simulator("--model", MODEL, log=log) as upstream:
        models = {MODEL: {"upstream": upstream, "rpm": RPM}}
        with litellm(tmp_path / "litellm", models, MODEL) as server:
            key = {"SWARMGAUGE_API_KEY": server.key}
            run = offered(tmp_path, server.url, 1, "140s", "--output-tokens", 4, env=key)
    limit, limits = found(run)

    assert limit["kind"] == "requests_fixed_window"
    assert (limit["figure"], limit["burst"], limit["window_s"]) == (RPM, RPM, 60)
    assert limit["source"] == "both"
    is_bound_by(limits, "requests_fixed_window")
    # What remained when it was told last depends on the clock minute in which the run ended.
    assert {"limit_requests", "remaining_requests"} == set(limits["published"])
    assert RPM == limits["published"]["limit_requests"]
    assert 0 <= limits["published"]["remaining_requests"] < RPM
    refused = refusals(run)
    assert limits["asked_wait"] == {
        "refused": refused,
        "told": refused,
        "p50_s": 60,
        "longest_s": 60,
    }
    assert causes(limits) == {("limiter", 429): refused}
    text = told(run)
    assert "Rate-limited from 1 requests/s on" in text
    assert "Limit found: 20 requests a minute. A fixed window of requests of 60 s" in text
    # The trial request takes one of the first minute's, and is not in the traffic.
    assert "the same limit, 20." in text
    assert "headers: 20 requests, 0 requests left." in text
    assert "Asked to wait by the refusals' headers: 60 s" in text

    by_minute = accepted_by_minute(log)
    minutes = refused_minutes(run)
    assert len(minutes) >= 2
    assert {RPM} == {by_minute[minute] for minute in minutes}
    assert max(by_minute.values()) == RPM
    assert server.key not in run.output


def accepted_by_minute(log):
    """How many requests reached the endpoint in each clock minute, the trial request too."""
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return Counter(_minute(datetime.fromisoformat(entry["received_at"])) for entry in entries)


def refused_minutes(run):
    """The clock minutes in which a request was sent and refused."""
    records = pandas.read_parquet(run.folder / "requests.parquet")
    minutes = set()
    for record in records[records["status"] == 429].itertuples():
        began = datetime.fromisoformat(record.started_at)
        ended = began + timedelta(seconds=record.user_latency_s)
        if _minute(began) == _minute(ended):
            minutes.add(_minute(began))
    return minutes


def _minute(moment):
    return moment.strftime("%H:%M")


@requires_nginx
def test_nginx_s_five_a_second_are_found(tmp_path):
    """300 a minute, six at once: the burst of five and the one that is due; Retry-After is 2 s."""
    with (
        simulator("--model", MODEL) as upstream,
        nginx_limit_req(tmp_path / "nginx", upstream, per_s=5, burst=5) as front,
    ):
        run = offered(tmp_path, front.url, 12, "25s", "--output-tokens", 8, *DIFFERENT)
    limit, limits = found(run)

    assert limit["kind"] == "requests_token_bucket"
    assert limit["figure"] == pytest.approx(300, rel=0.1)
    assert limit["burst"] == pytest.approx(6, abs=1)
    assert limit["source"] == "traffic"
    stage = is_bound_by(limits, "requests_token_bucket")
    assert stage["accepted_per_s"] == pytest.approx(5, rel=0.1)
    assert limits["published"] == {}
    asked = limits["asked_wait"]
    assert (asked["p50_s"], asked["longest_s"]) == (2, 2)
    assert asked["told"] == asked["refused"] == refusals(run)
    assert causes(limits) == {("limiter", 429): refusals(run)}
    text = told(run)
    assert "Rate-limited from 12 requests/s on" in text
    assert f"with a burst of {limit['burst']:.0f}. A token bucket of requests" in text


@requires_envoy
def test_envoy_s_bucket_is_found_and_the_headers_name_its_burst(tmp_path):
    """One a second and ten at once: the headers' 10 is no rate, and does not disagree."""
    with (
        simulator("--model", MODEL) as upstream,
        envoy(tmp_path / "envoy", upstream, burst=10, fill=10, fill_s=10) as front,
    ):
        run = offered(tmp_path, front.url, 3, "40s", "--output-tokens", 8, *DIFFERENT)
        passed, refused = front.limited()
    limit, limits = found(run)

    assert limit["kind"] == "requests_token_bucket"
    assert limit["figure"] == pytest.approx(60, rel=0.1)
    assert limit["burst"] == pytest.approx(10, abs=1)
    assert limit["source"] == "both"
    is_bound_by(limits, "requests_token_bucket")
    # The trial request passed too.
    assert (run.summary["totals"]["ok"] + 1, refusals(run)) == (passed, refused)
    assert limits["published"]["limit_requests"] == 10
    assert limits["published"]["reset_s"] == 1
    assert limits["asked_wait"]["told"] == 0
    assert causes(limits) == {("limiter", 429): refused}
    text = told(run)
    assert "The headers name the burst, 10, and not the rate." in text
    assert "disagree" not in text
    assert "No refusal had a Retry-After header" in text


# --- 429s that are no rate limit ------------------------------------------------------------------


@requires_nginx
def test_nginx_s_four_at_once_are_found_and_no_rate_limit(tmp_path):
    """A cap, read from the traffic alone: its refusal is a page that says nothing."""
    with (
        simulator("--model", MODEL) as upstream,
        nginx_limit_conn(tmp_path / "nginx", upstream, at_once=4) as front,
    ):
        run = offered(tmp_path, front.url, 12, "25s", "--output-tokens", 30, *DIFFERENT)
    limit, limits = found(run)

    assert (limit["kind"], limit["figure"]) == ("concurrency_cap", 4)
    is_bound_by(limits, "concurrency_cap")
    assert limits["asked_wait"]["told"] == 0
    assert causes(limits) == {("unnamed", 429): refusals(run)}
    text = told(run)
    assert "429, by a cap on requests in flight: that is no rate limit." in text
    assert "Limit found: 4 at once." in text
    assert "Rate-limited" not in text


def test_a_server_s_cap_is_no_rate_limit(tmp_path):
    """It says what it is, and the traffic says the same."""
    with simulator("--model", MODEL, "--max-in-flight", "4") as url:
        run = offered(tmp_path, url, 12, "20s", "--output-tokens", 40, *DIFFERENT)
    limit, limits = found(run)

    assert (limit["kind"], limit["figure"]) == ("concurrency_cap", 4)
    is_bound_by(limits, "concurrency_cap")
    assert causes(limits) == {("in_flight_cap", 429): refusals(run)}
    text = told(run)
    assert "429, by a cap on requests in flight: that is no rate limit." in text
    assert "Rate-limited" not in text


def test_a_full_queue_s_503s_are_no_rate_limit(tmp_path):
    """Nothing is answered 429: no limit is looked for, and the refusals are an overload."""
    log = tmp_path / "server.jsonl"
    server = ("--model", MODEL, "--max-num-seqs", "4", "--max-queue", "4")
    with simulator(*server, log=log) as url:
        run = offered(tmp_path, url, 12, "20s", "--output-tokens", 60, *DIFFERENT)
    limits, text = run.summary["rate_limits"], told(run)

    shed = sum(entry["status"] == 503 for entry in server_log(log))
    assert causes(limits) == {("overloaded", 503): shed}
    assert shed > 0
    assert limits["found"] == []
    assert [0] == [stage["limited"] for stage in limits["stages"]]
    assert "rate limit" not in text.lower().replace("-", " ")
    assert "Limit found" not in text


@requires_litellm
@STARTS_LITELLM
def test_a_dead_upstream_s_429s_are_a_cooldown_and_no_rate_limit(tmp_path):
    """Three 500s, then 429 for five seconds, again and again; nothing ever passes."""
    models = {MODEL: {"upstream": f"http://127.0.0.1:{free_port()}"}}
    with litellm(tmp_path / "litellm", models, MODEL, cooldown_s=COOLDOWN_S) as server:
        key = {"SWARMGAUGE_API_KEY": server.key}
        run = offered(tmp_path, server.url, 4, "30s", "--no-preflight", env=key)
    limit, limits = found(run)

    assert limit["kind"] == "gateway_cooldown"
    assert limit["figure"] is None
    assert limit["window_s"] == pytest.approx(COOLDOWN_S, abs=1.5)
    is_bound_by(limits, "gateway_cooldown")
    asked = limits["asked_wait"]
    assert (asked["p50_s"], asked["told"]) == (COOLDOWN_S, refusals(run))
    broken = run.summary["totals"]["failed"] - refusals(run)
    assert causes(limits) == {("cooldown", 429): refusals(run), ("broken", 500): broken}
    assert broken >= 3
    text = told(run)
    assert "429, by a gateway that rests its upstream: that is no rate limit." in text
    assert "No rate limit found: " in text
    assert "Rate-limited" not in text
    assert "Limit found" not in text
