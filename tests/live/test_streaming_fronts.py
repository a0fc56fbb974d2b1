"""Streams of a real engine that closes after each, directly and through a real front.

llama.cpp's server ends the connection after every stream while it advertises keep-alive. nginx
before it keeps its clients' connections and opens a new one to the engine for each request.
"""

import pandas
import pytest

from tests.support.llama_server import llama_server
from tests.support.nginx_server import nginx, requires_nginx
from tests.support.processes import ROOT
from tests.support.runs import run_headless
from tests.support.tls_files import self_signed

pytestmark = pytest.mark.live

USERS = 4
REQUESTS = 500
TOKENS = 4

EXACTLY = f"""
import itertools, os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
import gevent
from locust import events
from locust.exception import StopUser
from locustfile import *
from users.chat_user import ChatUser

wanted, answered = itertools.count(1), itertools.count(1)
next_wish = ChatUser._next_wish

def bounded(self):
    if next(wanted) > {REQUESTS}:
        while not self._leaving:
            gevent.sleep(0.05)
        raise StopUser
    return next_wish(self)

ChatUser._next_wish = bounded

@events.request.add_listener
def count(**_):
    if next(answered) == {REQUESTS}:
        os.kill(os.getpid(), signal.SIGTERM)
"""
"""Users ask until the requests are used up; after the last answer the run is told to end."""


def five_hundred(tmp_path, host, *options):
    """The records of 500 streams of 4 users, all of which must have been ok."""
    locustfile = tmp_path / "exactly.py"
    locustfile.write_text(EXACTLY, encoding="utf-8")
    run = run_headless(
        tmp_path / "runs",
        *("-f", locustfile, "--host", host, "-u", USERS, "-r", USERS, "-t", "150s"),
        *("--prefixes", "0", "--prompt-tokens", "4", "--output-tokens", TOKENS),
        *("--temperature", "0", "--settle", "0s", *options),
        limit_s=170,
    )
    totals = run.summary["totals"]
    assert {"ok": REQUESTS} == totals["by_outcome"], run.output[-3000:]
    assert (REQUESTS, REQUESTS, 0) == (totals["offered"], totals["ok"], totals["failed"])
    assert TOKENS * REQUESTS == totals["completion_tokens"]
    return totals, pandas.read_parquet(run.folder / "requests.parquet")


def test_an_engine_that_closes_after_each_stream_never_fails(tmp_path):
    """500 streams, none failed: each had a connection of its own, and reopened ones are counted."""
    with llama_server(USERS) as url:
        totals, records = five_hundred(tmp_path, url)

    assert {1} == set(records.connections_opened)
    assert not records.connection_reused.any()
    assert REQUESTS == totals["connections_opened"]
    # A kept connection is known to be dead before it is used, or is found to be: both happen.
    assert set(records.reconnects) <= {0, 1}
    assert totals["reconnects"] == records.reconnects.sum()


@requires_nginx
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_front_keeps_what_the_engine_closes(tmp_path, scheme):
    """500 streams through nginx, in clear and over TLS: no failure, at most a connection a user."""
    tls = self_signed(tmp_path / "tls") if scheme == "https" else None
    trust = () if tls is None else ("--ca-file", tls.certificate)
    with llama_server(USERS) as engine, nginx(tmp_path / "nginx", engine, tls) as front:
        totals, records = five_hundred(tmp_path, front.url, *trust)
        asked = [line for line in front.asked() if line["request_id"] in set(records.request_id)]

    assert front.url.startswith(f"{scheme}://")
    assert REQUESTS == len(asked)
    assert {200} == {line["status"] for line in asked}
    assert {"on" if tls else ""} == {line["https"] for line in asked}
    connections = {line["connection"] for line in asked}
    assert len(connections) <= USERS
    assert len(connections) == totals["connections_opened"]
    assert REQUESTS - len(connections) == records.connection_reused.sum()
    assert 0 == totals["reconnects"]
