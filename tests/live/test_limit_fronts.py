"""Real gateways and fronts that limit: how many they let pass, and what a refusal looks like.

Requests are counted by three parties: our records, the front and the endpoint behind it. The
request ids of what was let through are in the endpoint's log.
"""

import contextlib
import json
import time
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import gevent
import pandas
import pytest

from metrics.outcome import Outcome
from tests.support.asking import asker
from tests.support.envoy_server import envoy, requires_envoy
from tests.support.limit_fronts import answer_to, nginx_limit_conn, nginx_limit_req, recorded
from tests.support.litellm_server import litellm, requires_litellm
from tests.support.nginx_server import requires_nginx
from tests.support.processes import free_port, simulator, wait_until
from tests.support.runs import run_headless, server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]

MODEL = "case-model"
RPM = 20
FEW_RPM = 6
"""Used up within seconds even where LiteLLM is slow."""
COOLDOWN_S = 10
WAITS = ("retry-after", "llm_provider-retry-after", "x-ratelimit-limit", "x-ratelimit-remaining")
CHANGING = {"date", "server", "connection", "content-length", "x-litellm-timeout"}
KINDS = pytest.mark.parametrize("traffic", ["stream", "block", "sdk"])
STARTS_LITELLM = pytest.mark.timeout(330)
"""Its start counts for the first test that needs it, and windows are clock minutes."""

Gateway = namedtuple("Gateway", "server log")
"""LiteLLM's proxy, and where the endpoint behind each of its models writes its log."""


def served(folder):
    """The embedded endpoint with a log of its own."""
    return simulator("--model", MODEL, log=folder / "server.jsonl")


@pytest.fixture
def endpoint(tmp_path):
    """The embedded endpoint's URL; its log is ``server.jsonl``."""
    with served(tmp_path) as url:
        yield url


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """LiteLLM's proxy with limited models; each has an endpoint of its own behind it."""
    limits = {
        MODEL: {"rpm": RPM},
        "run-model": {"rpm": FEW_RPM},
        "narrow": {"max_parallel_requests": 2},
        "tokens": {"tpm": 1},
    }
    folders = {model: tmp_path_factory.mktemp(model) for model in limits}
    with contextlib.ExitStack() as stack:
        models = {
            model: {"upstream": stack.enter_context(served(folders[model])), **limit}
            for model, limit in limits.items()
        }
        server = stack.enter_context(litellm(tmp_path_factory.mktemp("litellm"), models, MODEL))
        yield Gateway(server, {model: f / "server.jsonl" for model, f in folders.items()})


@pytest.fixture(scope="module")
def cooling_gateway(tmp_path_factory):
    """The same, where a deployment that failed three times is left alone for ten seconds."""
    folder = tmp_path_factory.mktemp("cooling")
    with served(folder) as url:
        models = {
            "limited": {"upstream": url, "rpm": FEW_RPM},
            "dead": {"upstream": f"http://127.0.0.1:{free_port()}"},
        }
        with litellm(folder, models, MODEL, cooldown_s=COOLDOWN_S) as server:
            yield Gateway(server, {"limited": folder / "server.jsonl"})


def key_of(server):
    """The environment from which a user takes the gateway's key."""
    return {"SWARMGAUGE_API_KEY": server.key}


def one_after_the_other(user, count):
    """The records of so many requests with one token each."""
    return [user.ask(max_tokens=1).record for _ in range(count)]


def all_at_once(user, count, max_tokens):
    """The records of so many requests sent together."""
    asking = [gevent.spawn(user.ask, max_tokens=max_tokens) for _ in range(count)]
    return [one.record for one in (greenlet.get(timeout=60) for greenlet in asking)]


def split(records):
    """What passed and what was refused: every record is an ok one, or rate limited with 429."""
    passed = [record for record in records if record.outcome == Outcome.OK]
    refused = [record for record in records if record.outcome == Outcome.RATE_LIMITED]
    assert len(records) == len(passed) + len(refused), Counter(r.outcome for r in records)
    assert {(200, 0)} >= {(r.status, r.rate_limited_attempts) for r in passed}
    assert {(429, 1)} >= {(r.status, r.rate_limited_attempts) for r in refused}
    return passed, refused


def saved(run):
    """The records of a run that has ended."""
    return list(pandas.read_parquet(run.folder / "requests.parquet").itertuples())


def ids(records):
    """Their request ids, in order of sending."""
    return [record.request_id for record in records]


def logged(path):
    """The request ids that the endpoint has answered."""
    return [entry["request_id"] for entry in server_log(path)]


def answered_s(records):
    """Seconds from the first sending to the last head of an answer."""
    sent_s = min(record.started_s for record in records)
    return max(record.started_s + record.user_latency_s for record in records) - sent_s


def shape(answer):
    """What of a refusal does not change from one to the next."""
    headers = {name.lower(): value for name, value in answer["headers"]}
    body = answer["body"]
    kind = json.loads(body)["error"]["type"] if body.startswith("{") else body.partition("\r\n")[0]
    names = set(headers) - CHANGING
    waits = {name: headers[name] for name in WAITS if name in headers}
    return answer["status"], headers["content-type"], names, waits, kind


# --- LiteLLM --------------------------------------------------------------------------------------


@requires_litellm
@STARTS_LITELLM
def test_litellm_lets_twenty_pass_in_each_clock_minute(gateway):
    """Exactly the first twenty of a minute pass, and twenty more at once when the next begins."""
    wait_until(lambda: time.time() % 60 < 40, 65, "a minute with 20 s left")
    with asker(gateway.server.url, key_of(gateway.server)) as user:
        minute = time.time() // 60
        first = one_after_the_other(user, RPM + 3)
        assert time.time() // 60 == minute, "23 requests took over 20 s"
        wait_until(lambda: time.time() // 60 > minute, 65, "the next minute")
        second = one_after_the_other(user, RPM + 2)

    passed, refused = split(first + second)
    assert passed == first[:RPM] + second[:RPM]
    assert logged(gateway.log[MODEL]) == ids(passed)
    # It counts after it has answered.
    wait_until(lambda: gateway.server.refused(MODEL) >= len(refused), 10, "LiteLLM's own count")
    assert gateway.server.refused(MODEL) == len(refused) == 5
    left = [(record.limit_requests, record.remaining_requests) for record in first[:RPM]]
    assert left == [(RPM, remaining) for remaining in range(RPM - 1, -1, -1)]

    again = answer_to(gateway.server.host(MODEL), MODEL, key=gateway.server.key)
    assert shape(again) == shape(recorded("litellm_rpm"))
    assert shape(again)[3:] == ({"llm_provider-retry-after": "60"}, "throttling_error")


@requires_litellm
@STARTS_LITELLM
def test_litellm_refuses_a_run_only_when_the_minute_is_used_up(gateway, tmp_path):
    """Four users and the trial request: six pass in every minute in which any was refused."""
    server = gateway.server
    run = run_headless(
        tmp_path / "runs",
        *("--host", server.url, "--model", "run-model", "-u", 4, "-r", 4, "-t", "5s"),
        *("--settle", "0s", "--output-tokens", 4, "--think-time", "0.05"),
        env=key_of(server),
    )
    passed, refused = split(saved(run))
    entries = [json.loads(line) for line in gateway.log["run-model"].read_text().splitlines()]

    assert sorted(ids(passed)) == sorted(logged(gateway.log["run-model"]))
    assert len(entries) == len(passed) + 1, "one trial request"
    wait_until(lambda: server.refused("run-model") >= len(refused), 10, "LiteLLM's own count")
    assert server.refused("run-model") == len(refused) > 0
    totals = run.summary["totals"]
    assert totals["by_outcome"] == {"ok": len(passed), "rate_limited": len(refused)}
    assert totals["rate_limited_attempts"] == len(refused)
    by_minute = Counter(minute_of(datetime.fromisoformat(e["received_at"])) for e in entries)
    ends = [datetime.fromisoformat(r.started_at) + timedelta(seconds=r.end_s) for r in refused]
    assert {FEW_RPM} == {by_minute[minute] for minute in map(minute_of, ends)}
    assert max(by_minute.values()) == FEW_RPM
    assert server.key not in run.output


def minute_of(moment):
    """The clock minute that an instant lies in."""
    return moment.strftime("%H:%M")


@requires_litellm
@STARTS_LITELLM
def test_litellm_lets_two_run_at_once(gateway):
    """Six streams sent together: two pass, four are not told how long to wait."""
    with asker(gateway.server.host("narrow"), key_of(gateway.server)) as user:
        passed, refused = split(all_at_once(user, 6, max_tokens=60))

    assert (len(passed), len(refused)) == (2, 4)
    assert max(r.end_s for r in refused) < min(r.end_s for r in passed)
    assert sorted(logged(gateway.log["narrow"])) == sorted(ids(passed))

    host, key = gateway.server.host("narrow"), gateway.server.key
    again = answers_together(3, host, key=key, max_tokens=60)
    (refusal,) = (answer for answer in again if answer["status"] != 200)
    assert shape(refusal) == shape(recorded("litellm_max_parallel_requests"))
    assert shape(refusal)[3:] == ({}, "throttling_error")


@requires_litellm
@STARTS_LITELLM
def test_litellm_counts_tokens_once_they_were_given(gateway):
    """One token a minute: a whole answer passes, and what comes once it is counted is refused."""
    host, key = gateway.server.host("tokens"), gateway.server.key
    first = answer_to(host, key=key, stream=False)

    def refusal():
        answer = answer_to(host, key=key, stream=False)
        return answer if answer["status"] == 429 else None

    refused = wait_until(refusal, 30, "a refusal")
    assert first["status"] == 200
    assert json.loads(first["body"])["usage"]["total_tokens"] > 1
    assert shape(refused) == shape(recorded("litellm_tpm"))
    assert shape(refused)[3:] == ({"llm_provider-retry-after": "60"}, "throttling_error")


def answers_together(count, host, **more):
    """What so many plain clients get at once."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: answer_to(host, **more), range(count)))


@requires_litellm
@STARTS_LITELLM
def test_litellm_turns_its_own_refusals_into_a_cooldown(cooling_gateway):
    """Three refusals of a limit count as failures; from then on the 429 is another one."""
    server, host = cooling_gateway.server, cooling_gateway.server.host("limited")
    wait_until(lambda: time.time() % 60 < 40, 65, "a minute with 20 s left")
    answers = [answer_to(host, max_tokens=1, key=server.key) for _ in range(FEW_RPM + 5)]

    assert len(logged(cooling_gateway.log["limited"])) == FEW_RPM
    limit, cooldown = shape(recorded("litellm_rpm")), shape(recorded("litellm_rpm_cooldown"))
    assert [shape(answer) for answer in answers[FEW_RPM:]] == [limit] * 3 + [cooldown] * 2
    assert cooldown[3:] == ({"retry-after": str(COOLDOWN_S)}, "all_deployments_in_cooldown")


@requires_litellm
@STARTS_LITELLM
def test_litellm_turns_a_dead_upstream_into_429(cooling_gateway):
    """Nothing is limited: three times 500, then the 429 of a cooldown, then 500 again after it."""
    server, host = cooling_gateway.server, cooling_gateway.server.host("dead")
    answers = [answer_to(host, key=server.key) for _ in range(6)]

    failed, cooldown = shape(recorded("litellm_dead_upstream")), shape(recorded("litellm_cooldown"))
    assert [shape(answer) for answer in answers] == [failed] * 3 + [cooldown] * 3
    assert (failed[0], failed[4]) == (500, "internal_server_error")
    assert cooldown[3:] == ({"retry-after": str(COOLDOWN_S)}, "all_deployments_in_cooldown")

    # The limit is wide: this waits for what the gateway itself announced.
    wait_until(lambda: answer_to(host, key=server.key)["status"] == 500, 3 * COOLDOWN_S, "a try")


# --- nginx ----------------------------------------------------------------------------------------


@requires_nginx
@KINDS
def test_nginx_lets_its_burst_and_its_rate_pass(tmp_path, endpoint, traffic):
    """5 a second and 5 more at once: six pass at once, and one for each fifth of a second."""
    with nginx_limit_req(tmp_path / "nginx", endpoint, per_s=5, burst=5) as front:
        with asker(front.url, traffic=traffic) as user:
            passed, refused = split(records := one_after_the_other(user, 24))
        asked = front.asked()

    assert refused
    assert ids(passed)[:6] == ids(records)[:6]
    assert 6 <= len(passed) <= 6 + 5 * answered_s(records)
    assert ids(records) == [line["request_id"] for line in asked]
    assert ids(refused) == [line["request_id"] for line in asked if line["status"] == 429]
    assert logged(tmp_path / "server.jsonl") == ids(passed)


@requires_nginx
def test_nginx_s_books_agree_with_a_run_s(tmp_path, endpoint):
    """Twelve arrivals a second for 5 s where five may pass: every one is in three books."""
    with nginx_limit_req(tmp_path / "nginx", endpoint, per_s=5, burst=5) as front:
        run = run_headless(
            tmp_path / "runs",
            *("--host", front.url, "--model", MODEL, "--shape", "open-loop", "--rates", 12),
            *("--hold", "5s", "--settle", "0s", "--output-tokens", 4, "-u", 20),
        )
        asked = front.asked()
    passed, refused = split(records := saved(run))
    preflight, *load = asked

    assert preflight["status"] == 200
    assert sorted(ids(records)) == sorted(line["request_id"] for line in load)
    assert set(ids(refused)) == {line["request_id"] for line in load if line["status"] == 429}
    assert sorted(logged(tmp_path / "server.jsonl")) == sorted(ids(passed))
    totals = run.summary["totals"]
    assert totals["by_outcome"] == {"ok": len(passed), "rate_limited": len(refused)}
    assert totals["rate_limited_attempts"] == len(refused)
    assert len(passed) <= 6 + 5 * answered_s(records)
    assert len(passed) > 4 * answered_s(records)


@requires_nginx
def test_nginx_says_how_long_to_wait_when_it_is_told_to(tmp_path, endpoint):
    """JSON and the configured Retry-After."""
    with nginx_limit_req(tmp_path / "nginx", endpoint, per_s=1, burst=1) as front:
        refusal = answers_together(6, front.url)
    refusal = next(answer for answer in refusal if answer["status"] != 200)

    assert shape(refusal) == shape(recorded("nginx_limit_req"))
    assert shape(refusal)[3:] == ({"retry-after": "2"}, "rate_limit")


@requires_nginx
def test_nginx_lets_four_run_at_once(tmp_path, endpoint):
    """Ten streams sent together: four pass, six get an HTML page, which is a rate limit too."""
    with nginx_limit_conn(tmp_path / "nginx", endpoint, at_once=4) as front:
        with asker(front.url) as user:
            passed, refused = split(all_at_once(user, 10, max_tokens=60))
        asked, behind = front.asked(), logged(tmp_path / "server.jsonl")
        again = answers_together(6, front.url, max_tokens=60)

    assert (len(passed), len(refused)) == (4, 6)
    assert max(r.end_s for r in refused) < min(r.end_s for r in passed)
    statuses = {line["request_id"]: line["status"] for line in asked}
    assert statuses == {r.request_id: r.status for r in passed + refused}
    assert sorted(behind) == sorted(ids(passed))
    assert {"HTTP 429 429 Too Many Requests"} == {r.error_sample[:30] for r in refused}
    refusals = [answer for answer in again if answer["status"] != 200]
    assert [shape(recorded("nginx_limit_conn"))] * 2 == [shape(one) for one in refusals]
    assert shape(refusals[0])[3:] == ({}, "<html>")


# --- Envoy ----------------------------------------------------------------------------------------


@requires_envoy
@KINDS
def test_envoy_lets_its_bucket_pass(tmp_path, endpoint, traffic):
    """Ten tokens and one more a second: the first ten pass, and Envoy's own counts say so."""
    with envoy(tmp_path / "envoy", endpoint, burst=10, fill=10, fill_s=10) as front:
        with asker(front.url, traffic=traffic) as user:
            passed, refused = split(records := one_after_the_other(user, 20))
        limited = front.limited()

    assert refused
    assert ids(passed)[:10] == ids(records)[:10]
    assert 10 <= len(passed) <= 10 + answered_s(records)
    assert limited == (len(passed), len(refused))
    assert logged(tmp_path / "server.jsonl") == ids(passed)


@requires_envoy
def test_envoy_refills_little_by_little(tmp_path, endpoint):
    """ "10 every 10 s" is one each second, not ten at once after ten seconds."""
    records = []
    with envoy(tmp_path / "envoy", endpoint, burst=10, fill=10, fill_s=10) as front:
        with asker(front.url) as user:
            begun_s = time.monotonic()
            while time.monotonic() - begun_s < 5:
                records.append(user.ask(max_tokens=1).record)
                gevent.sleep(0.02)
        limited = front.limited()
    passed, refused = split(records)

    assert 13 <= len(passed) <= 10 + answered_s(records)
    assert limited == (len(passed), len(refused))


@requires_envoy
def test_envoy_names_the_limit_and_not_the_wait(tmp_path, endpoint):
    """Plain text, and x-ratelimit headers without "requests" in their names; no Retry-After."""
    with envoy(tmp_path / "envoy", endpoint, burst=10, fill=10, fill_s=10) as front:
        refusal = [answer_to(front.url, max_tokens=1) for _ in range(14)][-1]

    assert shape(refusal) == shape(recorded("envoy_local_ratelimit"))
    wanted = {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "0"}
    assert shape(refusal)[3:] == (wanted, "local_rate_limited")
    assert "x-ratelimit-reset" in shape(refusal)[2]
