"""Opening connections: one limit over all its steps, one TLS context, certificates verified."""

import _socket
import contextlib
import errno
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time

import gevent
import gevent.resolver.thread
import gevent.socket
import pytest

import users.transports
from metrics.outcome import Outcome
from tests.support.asking import asker
from tests.support.processes import ROOT, free_port, simulator
from tests.support.proxy_server import proxy_server
from tests.support.tls_files import self_signed
from users.connecting import one_limit
from users.connections import tls_context

pytestmark = pytest.mark.timeout(60)

LIMIT_S = 0.4
KINDS = pytest.mark.parametrize("traffic", ["stream", "block", "sdk"])
OWN_KINDS = pytest.mark.parametrize("traffic", ["stream", "block"])
LIVE = pytest.mark.live
ALONE = pytest.mark.alone

# The SDK's sockets wait as gevent's only in a patched process, as Locust's is.
_ASK_PATCHED = """
from gevent import monkey
monkey.patch_all()
import json, sys, time
import gevent.resolver.thread as resolver
from tests.support.asking import asker
host, options, environ, slow_names = json.loads(sys.argv[1])
if slow_names:
    real = resolver._socket.getaddrinfo
    class Slow:
        def __getattr__(self, name): return getattr(real_module, name)
        def getaddrinfo(self, *a, **k):
            monkey.get_original("time", "sleep")(3.0)
            return real(*a, **k)
    real_module, resolver._socket = resolver._socket, Slow()
with asker(host, environ, **options) as user:
    began_s = time.perf_counter()
    record = user.ask().record
    print(json.dumps([record.outcome.value, time.perf_counter() - began_s, record.error_sample]))
import os; sys.stdout.flush(); os._exit(0)
"""


def ask_patched(host, environ=None, slow_names=False, **options):
    """Ask once as Locust's process would: outcome, seconds, text."""
    task = json.dumps([host, options, environ or {}, slow_names])
    command = [sys.executable, "-c", _ASK_PATCHED, task]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    outcome, seconds, text = json.loads(done.stdout)
    return Outcome(outcome), seconds, text


@contextlib.contextmanager
def dead_ends(number):
    """Ports of the loopback whose backlog is full: packets to them are swallowed."""
    with contextlib.ExitStack() as stack:
        addresses = []
        for _ in range(number):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            addresses.append(listener.getsockname())
            for _ in range(4):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(addresses[-1])
        yield addresses


@contextlib.contextmanager
def dripping_peer(first, every_s=0.1):
    """A peer that says ``first`` and then one zero byte each so many seconds; its port."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip():
            with contextlib.suppress(OSError):
                sock, _ = listener.accept()
                with sock:
                    sock.recv(65536)
                    sock.sendall(first)
                    while not over.wait(every_s):
                        sock.sendall(b"\0")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join(5)


def resolve_to(monkeypatch, addresses):
    """Have every name resolve to these addresses, in this order."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
    monkeypatch.setattr(gevent.socket, "getaddrinfo", lambda *_, **__: found)


def timed(user):
    """One request's record, and the seconds it took."""
    began_s = time.perf_counter()
    record = user.ask().record
    return record, time.perf_counter() - began_s


def assert_one_limit(outcome, seconds):
    """The limit came once: a second one, or none, would take at least twice as long."""
    assert Outcome.CONNECT_TIMEOUT is outcome
    assert LIMIT_S * 0.99 <= seconds < LIMIT_S * 1.9


# --- the limit ------------------------------------------------------------------------------------


@LIVE
@pytest.mark.parametrize("ended_by", ["a proxy's refusal", "an answer"])
def test_E12_the_sdks_connect_limit_ends_with_opening(tmp_path, case_server, ended_by):
    """However opening ended, no limit fires later in what its greenlet does next."""
    with contextlib.ExitStack() as stack:
        options = {"traffic": "sdk", "connect_timeout": "200ms"}
        host = f"{case_server.url}/F14/v1"
        if ended_by == "a proxy's refusal":
            proxy = stack.enter_context(proxy_server(tmp_path, answer="403"))
            host, options["proxy"] = "https://name.test/v1", proxy.url
        stack.enter_context(asker(host, **options)).ask()

        gevent.sleep(0.3)


def test_E12_a_limit_that_is_not_reached_changes_nothing():
    """What the block raises comes out, and nothing fires later."""
    with pytest.raises(KeyError), one_limit(0.01):
        raise KeyError
    gevent.sleep(0.03)

    with one_limit(None):
        gevent.sleep(0)


def test_E12_a_limit_around_it_is_not_taken_for_its_own():
    """A timeout of someone else passes through as it is."""
    with pytest.raises(gevent.Timeout) as caught, gevent.Timeout(0.01) as outer, one_limit(30):
        gevent.sleep(20)

    assert caught.value is outer


@LIVE
@ALONE
@OWN_KINDS
def test_E12_addresses_share_the_connect_limit(monkeypatch, traffic):
    """Four addresses that swallow packets: one limit in all, not one for each."""
    with dead_ends(4) as addresses:
        resolve_to(monkeypatch, addresses)
        options = {"traffic": traffic, "connect_timeout": f"{LIMIT_S}s"}
        with asker("http://name.test", **options) as user:
            record, seconds = timed(user)

    assert_one_limit(record.outcome, seconds)
    assert record.error_sample == "no connection in 0.4 s"
    assert record.sent_bytes == 0


@LIVE
@ALONE
@OWN_KINDS
def test_E12_a_dead_address_leaves_time_for_the_next(monkeypatch, case_server, traffic):
    """The first address swallows packets, the second answers: ok within the limit."""
    host, port = case_server.url.removeprefix("http://").split(":")
    with dead_ends(1) as addresses:
        resolve_to(monkeypatch, [*addresses, (host, int(port))])
        options = {"traffic": traffic, "connect_timeout": "2s"}
        with asker("http://name.test/F14/v1", **options) as user:
            record, _ = timed(user)

    assert Outcome.OK is record.outcome
    assert 0.99 <= record.connect_s < 2


@LIVE
def test_an_address_that_refuses_says_more_than_one_that_is_silent(monkeypatch):
    """Silent, then refused: connect_error with the reason, not a limit that was not reached."""
    with dead_ends(1) as addresses:
        resolve_to(monkeypatch, [*addresses, ("127.0.0.1", free_port())])
        with asker("http://name.test", connect_timeout="400ms") as user:
            record = user.ask().record

    assert Outcome.CONNECT_ERROR is record.outcome
    assert "refused" in record.error_sample


@pytest.fixture
def slow_names(monkeypatch):
    """A system resolver that takes 3 s in its thread."""

    class Slow:
        def __getattr__(self, name):
            return getattr(_socket, name)

        def getaddrinfo(self, *arguments, **keywords):
            time.sleep(3.0)
            return _socket.getaddrinfo(*arguments, **keywords)

    monkeypatch.setattr(gevent.resolver.thread, "_socket", Slow())


@ALONE
@OWN_KINDS
def test_E12_a_slow_resolver_meets_the_connect_limit(slow_names, traffic):
    """The name takes 3 s: connect_timeout at its limit."""
    options = {"traffic": traffic, "connect_timeout": f"{LIMIT_S}s"}
    with asker(f"http://127.0.0.1:{free_port()}", **options) as user:
        record, seconds = timed(user)

    assert_one_limit(record.outcome, seconds)


@LIVE
@ALONE
def test_E12_a_slow_resolver_meets_the_connect_limit_of_the_sdk():
    """The same for the SDK's own sockets."""
    outcome, seconds, text = ask_patched(
        f"http://127.0.0.1:{free_port()}",
        slow_names=True,
        traffic="sdk",
        connect_timeout=f"{LIMIT_S}s",
    )

    assert_one_limit(outcome, seconds)
    assert text == "no connection in 0.4 s"


@LIVE
@ALONE
@KINDS
def test_E12_a_handshake_that_drips_meets_the_connect_limit(traffic):
    """A byte each 100 ms: no single read is over the limit, all of them are."""
    record_of_4_kib = b"\x16\x03\x03\x10\x00\x02\x00\x0f\xfc"
    with dripping_peer(record_of_4_kib) as port:
        options = {"traffic": traffic, "connect_timeout": f"{LIMIT_S}s"}
        outcome, seconds, text = ask_patched(f"https://127.0.0.1:{port}", **options)

    assert_one_limit(outcome, seconds)
    assert text == "no connection in 0.4 s"


@LIVE
@ALONE
@KINDS
def test_E12_a_proxy_that_drips_meets_the_connect_limit(traffic):
    """An answer to CONNECT whose head never ends."""
    with dripping_peer(b"HTTP/1.1 200 OK\r\nX: ") as port:
        outcome, seconds, _ = ask_patched(
            "https://example.test",
            {"HTTPS_PROXY": f"http://127.0.0.1:{port}"},
            traffic=traffic,
            connect_timeout=f"{LIMIT_S}s",
        )

    assert_one_limit(outcome, seconds)


@LIVE
@ALONE
@KINDS
def test_E12_a_mute_proxy_meets_the_connect_limit(tmp_path, traffic):
    """No answer to CONNECT is a matter of connecting, not of the first token."""
    with proxy_server(tmp_path, mute=True) as proxy:
        outcome, seconds, _ = ask_patched(
            "https://example.test",
            {"HTTPS_PROXY": proxy.url},
            traffic=traffic,
            connect_timeout=f"{LIMIT_S}s",
        )
        asked = [request["line"] for request in proxy.asked()]

    assert_one_limit(outcome, seconds)
    assert asked == ["CONNECT example.test:443 HTTP/1.1"]


@LIVE
@ALONE
@KINDS
def test_E12_the_connect_limit_is_over_once_connected(traffic, case_server):
    """An answer that takes longer than the connect limit is fine."""
    outcome, seconds, _ = ask_patched(
        case_server.host("F14"), traffic=traffic, connect_timeout="200ms"
    )

    assert Outcome.OK is outcome
    assert seconds > 0.39


@LIVE
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists descriptors in /proc")
@OWN_KINDS
def test_a_connection_that_is_given_up_leaves_no_descriptor(traffic):
    """Limits in mid-handshake and refusals: as many descriptors after as before."""
    with dripping_peer(b"\x16\x03\x03\x10\x00\x02\x00\x0f\xfc") as port:
        host, options = f"https://127.0.0.1:{port}", {"traffic": traffic}
        with asker(host, connect_timeout="200ms", **options) as user:
            # The event loop opens some of its own with the first.
            user.ask()
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(3):
                user.ask()
            assert len(os.listdir("/proc/self/fd")) <= before


@OWN_KINDS
def test_a_host_that_is_no_name_is_a_connect_error(traffic):
    """A label of 70 characters is refused by the name's own rules, not as a fault of ours."""
    with asker(f"http://{'a' * 70}.test", traffic=traffic) as user:
        record = user.ask().record

    assert Outcome.CONNECT_ERROR is record.outcome
    assert "is no host name" in record.error_sample


@pytest.mark.parametrize("proxy", ["off", "http://name.test:3128"], ids=["direct", "proxied"])
@OWN_KINDS
def test_E13_too_many_open_files_is_no_proxys_fault(monkeypatch, traffic, proxy):
    """client_resource, with a proxy as without."""

    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    resolve_to(monkeypatch, [("127.0.0.1", 1)])
    with asker("http://name.test", traffic=traffic, proxy=proxy) as user:
        monkeypatch.setattr(gevent.socket, "socket", refuse)
        record = user.ask().record

    assert Outcome.CLIENT_RESOURCE is record.outcome
    assert "Too many open files" in record.error_sample


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for the loopback, and its key."""
    files = self_signed(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1,DNS:localhost")
    return files.certificate, files.key


@pytest.fixture(scope="module")
def secure_url(certificate):
    """The simulator behind TLS."""
    files = ("--ssl-certfile", str(certificate[0]), "--ssl-keyfile", str(certificate[1]))
    with simulator("--profile", "small", "--model", "case-model", *files) as url:
        yield url


def test_certificates_are_verified_by_default():
    """Chain and host name; only --insecure leaves both out."""
    usual, blind = tls_context(None, insecure=False), tls_context(None, insecure=True)

    assert (usual.verify_mode, usual.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (blind.verify_mode, blind.check_hostname) == (ssl.CERT_NONE, False)


def test_all_transports_share_one_tls_context(monkeypatch):
    """Three kinds of user, one context: making one costs 17 ms."""
    made = []

    def counted(*arguments):
        made.append(tls_context(*arguments))
        return made[-1]

    monkeypatch.setattr(users.transports, "tls_context", counted)
    with asker("https://127.0.0.1:1", traffic="stream,block,sdk") as user:
        assert len(user.transports) == 3

    assert len(made) == 1


@LIVE
def test_connections_share_one_tls_context(monkeypatch, secure_url, certificate):
    """Opening connections makes no further ones."""
    with asker(secure_url, traffic="stream,block", ca_file=str(certificate[0])) as user:
        monkeypatch.setattr(ssl, "SSLContext", None)
        monkeypatch.setattr(gevent.ssl, "SSLContext", None)
        for kind in user.transports:
            user.kind = kind
            record = user.ask(max_tokens=4).record
            assert (record.outcome, record.connections_opened) == (Outcome.OK, 1)


@LIVE
@KINDS
def test_C09_a_certificate_nobody_vouches_for_is_refused(secure_url, traffic):
    """tls_error with the reason, and nothing was sent."""
    with asker(secure_url, traffic=traffic) as user:
        record = user.ask(max_tokens=4).record

    assert Outcome.TLS_ERROR is record.outcome
    assert "self-signed certificate" in record.error_sample
    assert not record.outcome.reached_wire


@LIVE
@KINDS
@pytest.mark.parametrize("how", ["ca_file", "insecure"])
def test_C09_a_certificate_that_is_given_or_not_asked_for_is_taken(
    secure_url, certificate, traffic, how
):
    """With --ca-file, and with --insecure, of every transport."""
    options = {"ca_file": str(certificate[0])} if how == "ca_file" else {"insecure": True}
    with asker(secure_url, traffic=traffic, **options) as user:
        record = user.ask(max_tokens=4).record

    assert Outcome.OK is record.outcome


@LIVE
@KINDS
def test_C09_a_certificate_for_another_name_is_refused(tmp_path, secure_url, certificate, traffic):
    """Trusted, but for the loopback, not for example.test."""
    options = {"traffic": traffic, "ca_file": str(certificate[0])}
    with (
        proxy_server(tmp_path, upstream=secure_url) as proxy,
        asker("https://example.test", proxy=proxy.url, **options) as user,
    ):
        record = user.ask(max_tokens=4).record

    assert Outcome.TLS_ERROR is record.outcome
    assert "example.test" in record.error_sample
    assert not record.outcome.reached_wire
