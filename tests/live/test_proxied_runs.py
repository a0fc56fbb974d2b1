"""Proxies, from the variables to the report: who is asked, what is said, what is shown."""

import base64
import json

import pytest

from metrics.outcome import Outcome
from tests.support.asking import asker
from tests.support.processes import free_port, simulator
from tests.support.proxy_server import proxy_server
from tests.support.runs import run_headless, server_log
from tests.support.tls_files import self_signed

pytestmark = pytest.mark.live

SHORT = ("-u", "3", "-r", "10", "-t", "2s", "--settle", "0s", "--output-tokens", "4")
ALL_KINDS = ("--traffic", "stream:1,block:1,sdk:1")
KINDS = pytest.mark.parametrize("traffic", ["stream", "block", "sdk"])
PASSWORD = "DDDD4444"
BASIC = "Basic " + base64.b64encode(f"u:{PASSWORD}".encode()).decode()
MODEL = ("--model", "case-model")
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def run(tmp_path, host, *options, env, **keywords):
    """A short load of all kinds of user with these proxy variables and no others."""
    # An empty lower-case variable would switch off the upper-case one that is given.
    empty = {n: "" for name in VARIABLES if name not in env for n in (name, name.lower())}
    arguments = ("--host", host, *SHORT, *ALL_KINDS, *options)
    return run_headless(tmp_path / "runs", *arguments, env={**empty, **env}, **keywords)


def assert_nowhere(folder, *secrets, but=()):
    """None of these texts is in any file that was written."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in but:
            data = path.read_bytes()
            assert not [secret for secret in secrets if secret.encode() in data], path


def test_C02_loopback_is_never_proxied(tmp_path):
    """A proxy that refuses everything, and an endpoint on the loopback: direct, and ok."""
    with simulator("--profile", "small") as url, proxy_server(tmp_path, answer="403 No") as proxy:
        finished = run(tmp_path, url, env={"HTTP_PROXY": proxy.url, "ALL_PROXY": proxy.url})
        asked = proxy.asked()

    assert finished.sound, finished.output[-2000:]
    assert finished.summary["totals"]["ok"] > 0
    assert finished.summary["totals"]["failed"] == 0
    assert asked == []
    assert finished.summary["proxy"] is None
    assert "proxy" not in " ".join(finished.summary["headline"])


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])
def test_C02_O05_the_proxy_in_use_is_named_and_its_credentials_are_not(tmp_path, workers):
    """Every request goes by it; log, run, report and page have its URL without the password."""
    log = tmp_path / "server.jsonl"
    with (
        simulator("--profile", "small", log=log) as url,
        proxy_server(tmp_path, upstream=url) as proxy,
    ):
        env = {"HTTP_PROXY": proxy.with_credentials("u", PASSWORD)}
        finished = run(tmp_path, "http://example.test", env=env, workers=workers)
        asked = proxy.asked()

    assert finished.sound, finished.output[-2000:]
    assert finished.summary["totals"]["failed"] == 0
    models, preflight, *load = asked
    assert models["line"] == "GET http://example.test/v1/models HTTP/1.1"
    wanted = "POST http://example.test/v1/chat/completions HTTP/1.1"
    assert {request["line"] for request in [preflight, *load]} == {wanted}
    assert {request["headers"]["proxy-authorization"] for request in asked} == {BASIC}
    assert {request["headers"]["host"] for request in asked} == {"example.test"}
    assert len(load) == len(server_log(log)) >= finished.summary["totals"]["ok"] > 0
    assert finished.summary["proxy"] == finished.run["proxy"] == proxy.url
    sentence = f"Requests went through the proxy {proxy.url}."
    assert sentence in finished.summary["headline"]
    assert sentence in (finished.folder / "report.html").read_text(encoding="utf-8")
    assert sentence in finished.output
    assert_nowhere(tmp_path, PASSWORD, BASIC.split()[1], but=["proxy.jsonl"])


def test_C02_a_tunnel_that_is_refused_ends_the_run_at_once(tmp_path):
    """The proxy, its answer and what to do are told; the credentials that it repeats are not."""
    with proxy_server(tmp_path, answer="407 Proxy Authentication Required") as proxy:
        env = {"HTTPS_PROXY": proxy.with_credentials("u", PASSWORD)}
        finished = run(tmp_path, "https://example.test", "--model", "m", env=env)

    assert (finished.exit_code, finished.folder) == (1, None)
    assert f"proxy {proxy.url} answered CONNECT example.test:443 with 407" in finished.output
    assert "--proxy off" in finished.output
    assert_nowhere(tmp_path, PASSWORD, BASIC.split()[1], but=["proxy.jsonl"])


def test_C02_without_a_model_the_refusal_is_told_too(tmp_path):
    """The list of models is asked for by the proxy as well."""
    with proxy_server(tmp_path, answer="403 Forbidden") as proxy:
        env = {"HTTPS_PROXY": proxy.url}
        finished = run(tmp_path, "https://example.test", env=env)
        asked = [request["line"] for request in proxy.asked()]

    assert asked == ["CONNECT example.test:443 HTTP/1.1"]
    assert f"proxy {proxy.url} answered CONNECT example.test:443 with 403" in finished.output


def test_C02_credentials_in_the_option_end_the_run_unseen(tmp_path):
    """Wrong usage; what was given is in no output."""
    option = ("--proxy", f"http://u:{PASSWORD}@127.0.0.1:9")
    finished = run(tmp_path, "http://example.test", *option, env={})

    assert finished.exit_code == 2
    assert "--proxy: the URL carries a user name or password" in finished.output
    assert_nowhere(tmp_path, PASSWORD)


def test_C02_a_socks_proxy_is_refused_by_its_variable(tmp_path):
    """A needed proxy is not passed over; its password is not told."""
    env = {"ALL_PROXY": f"socks5://u:{PASSWORD}@127.0.0.1:9"}
    finished = run(tmp_path, "http://example.test", env=env)

    assert finished.exit_code != 0
    assert "the variable ALL_PROXY: socks5:// proxies are not served" in finished.output
    assert_nowhere(tmp_path, PASSWORD)


# --- each transport -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for example.test, and its key."""
    files = self_signed(tmp_path_factory.mktemp("tls"), "DNS:example.test")
    return files.certificate, files.key


@KINDS
def test_C02_TLS_goes_through_a_tunnel(tmp_path, certificate, traffic):
    """One CONNECT with the credentials; the endpoint behind it gets none, and two requests."""
    log = tmp_path / "server.jsonl"
    cert, key = map(str, certificate)
    with (
        simulator(*MODEL, "--ssl-certfile", cert, "--ssl-keyfile", key, log=log) as url,
        proxy_server(tmp_path, upstream=url) as proxy,
    ):
        environ = {"HTTPS_PROXY": proxy.with_credentials("u", PASSWORD)}
        with asker("https://example.test", environ, traffic=traffic, ca_file=cert) as user:
            records = [user.ask(max_tokens=4).record for _ in range(2)]
        asked = proxy.asked()

    assert [record.outcome for record in records] == [Outcome.OK] * 2
    assert [request["line"] for request in asked] == ["CONNECT example.test:443 HTTP/1.1"]
    assert asked[0]["headers"]["proxy-authorization"] == BASIC
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(entries) == 2
    assert not [name for entry in entries for name in entry["headers"] if "proxy" in name]


@KINDS
def test_C02_a_plain_request_is_seen_by_the_proxy(tmp_path, traffic):
    """example.test resolves nowhere: the proxy is asked for the whole URL, once."""
    with (
        simulator(*MODEL) as url,
        proxy_server(tmp_path, upstream=url) as proxy,
        asker("http://example.test:81", {"http_proxy": proxy.url}, traffic=traffic) as user,
    ):
        record = user.ask(max_tokens=4).record
        asked = proxy.asked()

    assert Outcome.OK is record.outcome
    wanted = "POST http://example.test:81/v1/chat/completions HTTP/1.1"
    assert [request["line"] for request in asked] == [wanted]
    assert asked[0]["headers"]["host"] == "example.test:81"
    assert "proxy-authorization" not in asked[0]["headers"]


@KINDS
@pytest.mark.parametrize("status", ["403 Forbidden", "407 Proxy Authentication Required"])
def test_C02_a_refused_tunnel_is_a_connect_error(tmp_path, traffic, status):
    """It names the proxy without credentials, and nothing reached the endpoint."""
    with proxy_server(tmp_path, answer=status) as proxy:
        environ = {"HTTPS_PROXY": proxy.with_credentials("u", PASSWORD)}
        with asker("https://example.test", environ, traffic=traffic) as user:
            record = user.ask().record

    assert Outcome.CONNECT_ERROR is record.outcome
    said = f"proxy {proxy.url} answered CONNECT example.test:443 with {status}"
    assert said in record.error_sample
    assert PASSWORD not in record.error_sample
    assert not record.outcome.reached_wire


@KINDS
def test_O05_a_refused_plain_request_repeats_no_credentials(tmp_path, traffic):
    """The proxy's body echoes the field: it is masked."""
    with proxy_server(tmp_path, answer="407 Proxy Authentication Required") as proxy:
        environ = {"HTTP_PROXY": proxy.with_credentials("u", PASSWORD)}
        with asker("http://example.test", environ, traffic=traffic) as user:
            record = user.ask().record

    assert record.outcome.failed
    assert record.status == 407
    assert "not for Basic ***" in record.error_sample


@KINDS
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_C02_a_proxy_that_is_not_there_is_named(traffic, scheme):
    """A refused connection is the proxy's, not the endpoint's."""
    proxy = f"http://127.0.0.1:{free_port()}"
    with asker(f"{scheme}://example.test", proxy=proxy, traffic=traffic) as user:
        record = user.ask().record

    assert Outcome.CONNECT_ERROR is record.outcome
    assert f"proxy {proxy} cannot be reached: " in record.error_sample
    assert "refused" in record.error_sample


@KINDS
def test_C02_off_goes_straight_to_the_endpoint(tmp_path, traffic):
    """A name that resolves nowhere is then not found, and the proxy sees nothing."""
    with (
        proxy_server(tmp_path, answer="403 No") as proxy,
        asker(
            "http://example.invalid", {"HTTP_PROXY": proxy.url}, proxy="off", traffic=traffic
        ) as user,
    ):
        record = user.ask().record
        asked = proxy.asked()

    assert Outcome.CONNECT_ERROR is record.outcome
    assert asked == []


@KINDS
def test_C02_the_loopback_goes_by_a_proxy_that_is_named(tmp_path, traffic):
    """--proxy URL is for every endpoint: it is how a gateway on this machine is looked at."""
    with (
        simulator(*MODEL) as url,
        proxy_server(tmp_path, upstream=url) as proxy,
        asker(url, proxy=proxy.url, traffic=traffic) as user,
    ):
        record = user.ask(max_tokens=4).record
        asked = proxy.asked()

    assert Outcome.OK is record.outcome
    assert [request["line"].split()[1] for request in asked] == [f"{url}/v1/chat/completions"]
