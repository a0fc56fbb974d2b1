"""The streaming transport over real sockets: kept connections, limits, and ends of every kind."""

import os
import socket
import sys
import time
from types import SimpleNamespace

import gevent
import pytest
from gevent import GreenletExit
from gevent.event import Event

from metrics.outcome import Outcome
from tests.support.asking import asker
from tests.support.case_notation import C, D, F, R
from tests.support.processes import free_port
from tests.support.raw_server import answer, raw_server
from tests.support.stamped import (
    CHUNKED,
    EVENTS,
    HALF,
    LAST,
    SILENT,
    Posted,
    assert_stamped_as_written,
    chunk,
    spaced,
    whole,
)
from users.chat_user import StreamingChatUser
from workloads.traffic import TrafficKind

pytestmark = [pytest.mark.live, pytest.mark.alone]

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps packets")


@pytest.fixture
def ask_raw(tmp_path):
    """Ask a raw server of these answers once; the record."""

    def once(*answers, **options):
        with raw_server(tmp_path, *answers) as server, asker(server.url, **options) as user:
            return user.ask().record

    return once


def gone(server, connection, limit_s=2.0):
    """Whether the peer of a connection closed it within the limit; yields to our greenlets."""
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        if any(event["connection"] == connection for event in server.events("gone")):
            return True
        gevent.sleep(0.02)
    return False


# --- bodies and ends ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["F13_a", "F13_b"])
def test_F13_a_compressed_stream_keeps_its_times(case_server, case):
    """Identity is asked for; gzip that comes anyway is read flush by flush, TTFT 100 ms."""
    with asker(case_server.host(case)) as user:
        record = user.ask().record
        posted = Posted(user)

    assert Outcome.OK is record.outcome
    assert (record.chunks, record.completion_tokens) == (3, 3)
    assert 0.095 <= record.ttft_s < 0.19
    assert record.max_gap_s < 0.19
    assert posted.text == "one two three"
    assert case_server.asked(case)[0]["headers"]["accept-encoding"] == "identity"


def test_a_head_in_single_bytes_with_pauses(tmp_path):
    """A head that arrives byte by byte is one head, and the body after it is read."""
    data = CHUNKED + chunk(C("slow"), F(), D) + LAST
    drips = [(4 * i, data[i : i + 1]) for i in range(len(data))]
    with raw_server(tmp_path, answer(*drips)) as server, asker(server.url) as user:
        posted = Posted(user)

    assert Outcome.OK is posted.outcome
    assert posted.text == "slow"
    assert 0.3 < posted.reply.headers_s < posted.reply.first_output_s < posted.facts.end_s


def test_a_stream_ended_by_the_close_is_whole(tmp_path):
    """Without length or chunks the close ends the body: ok, and the connection is not kept."""
    said = answer(EVENTS + b"\r\n", (40, C("plum")), (60, F()), end="close")
    with raw_server(tmp_path, said) as server, asker(server.url) as user:
        first, second = Posted(user), Posted(user)

    assert [first.outcome, second.outcome] == [Outcome.OK] * 2
    assert first.text == "plum"
    assert not second.facts.connection_reused


def test_a_stream_ended_by_the_close_may_be_truncated(ask_raw):
    """A clean close with neither a finish_reason nor [DONE] is a truncated answer."""
    record = ask_raw(answer(EVENTS + b"\r\n" + C("plum"), end="close"))

    assert Outcome.TRUNCATED is record.outcome


@pytest.mark.parametrize("end", ["reset", "close"])
def test_E05_a_chunked_body_cut_off_is_interrupted(tmp_path, end):
    """A lost connection in a chunked body: interrupted, its token kept, and the user goes on."""
    cut = answer(CHUNKED + chunk(R, C("a")), (40, b"28\r\ndata: {"), end=end)
    with raw_server(tmp_path, cut, whole()) as server, asker(server.url) as user:
        lost, good = user.ask().record, user.ask().record

    assert Outcome.INTERRUPTED is lost.outcome
    assert (lost.status, lost.chunks, lost.reconnects) == (200, 1, 0)
    assert Outcome.OK is good.outcome


def test_a_reset_after_done_is_no_failure(ask_raw):
    """What the server said goes before what happened to its connection."""
    record = ask_raw(answer(CHUNKED + chunk(R, C("a"), F(), D), (30, b""), end="reset"))

    assert Outcome.OK is record.outcome


def test_bytes_after_a_whole_answer_harm_nothing(tmp_path):
    """An answer with junk behind it is whole; its connection is not used again."""
    said = answer(CHUNKED + chunk(C("a"), F(), D) + LAST + b"junk", end="hold")
    with raw_server(tmp_path, said) as server, asker(server.url) as user:
        records = [user.ask().record for _ in range(2)]

    assert [record.outcome for record in records] == [Outcome.OK] * 2
    assert not records[1].connection_reused


def test_an_upgrade_is_a_malformed_answer(ask_raw):
    """A server that turns to another protocol is told so in words, not as a fault of ours."""
    head = b"HTTP/1.1 101 Up\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
    record = ask_raw(answer(head, end="hold"))

    assert Outcome.MALFORMED_STREAM is record.outcome
    assert "another protocol" in record.error_sample


def test_a_redirect_is_refused_in_words(ask_raw):
    """302 is not followed: client_error, and the text says what to do."""
    head = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/v1\r\nContent-Length: 0\r\n\r\n"
    record = ask_raw(answer(head))

    assert Outcome.CLIENT_ERROR is record.outcome
    assert (record.status, record.error_code) == (302, "http_302")
    assert "redirects are not followed" in record.error_sample


# --- limits ---------------------------------------------------------------------------------------


def test_E12_a_server_that_never_answers_meets_the_first_token_limit(ask_raw):
    """Connected and silent: first_token_timeout at its limit, without a status."""
    record = ask_raw(SILENT, first_token_timeout="300ms")

    assert Outcome.FIRST_TOKEN_TIMEOUT is record.outcome
    assert record.status is None
    assert 0.299 <= record.end_s < 0.5


def test_E12_the_total_limit_ends_a_healthy_stream(ask_raw):
    """A stream that goes on and on ends as total_timeout, with the tokens so far."""
    record = ask_raw(spaced("a" * 40, every_ms=50), total_timeout="400ms")

    assert Outcome.TOTAL_TIMEOUT is record.outcome
    assert 0.399 <= record.end_s < 0.6
    assert 3 <= record.chunks <= 11


def test_E12_a_connection_that_never_opens_meets_the_connect_limit():
    """A full backlog: connect_timeout at its limit, and nothing was sent."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(address)
            with asker(f"http://127.0.0.1:{address[1]}", connect_timeout="300ms") as user:
                record = user.ask().record
        finally:
            for filler in fillers:
                filler.close()

    assert Outcome.CONNECT_TIMEOUT is record.outcome
    assert record.sent_bytes == 0


# --- kept connections -----------------------------------------------------------------------------


def test_E11_a_kept_connection_that_dies_unanswered_is_opened_again_once(tmp_path):
    """No byte came: a reconnect, no failure, and the time counts from the first try."""
    dies = answer((150, b""), end="close")
    with raw_server(tmp_path, whole(), dies, whole("ok")) as server, asker(server.url) as user:
        first, second = Posted(user), Posted(user)

    assert [first.outcome, second.outcome] == [Outcome.OK] * 2
    assert (first.facts.reconnects, second.facts.reconnects) == (0, 1)
    assert (second.facts.connections_opened, second.facts.connection_reused) == (1, False)
    assert second.text == "ok"
    assert second.reply.first_output_s > 0.149
    assert len(server.events("request")) == 3


def test_E11_it_is_opened_again_no_more_than_once(tmp_path):
    """A server that drops the second try too has interrupted the request."""
    dies = answer(end="close")
    with raw_server(tmp_path, whole(), dies) as server, asker(server.url) as user:
        user.ask()
        record = user.ask().record

    assert Outcome.INTERRUPTED is record.outcome
    assert record.reconnects == 1
    assert len(server.events("request")) == 3


def test_E11_a_fresh_connection_that_dies_unanswered_is_a_failure(ask_raw):
    """Only kept connections get a second try."""
    record = ask_raw(answer(end="close"), whole())

    assert Outcome.INTERRUPTED is record.outcome
    assert record.reconnects == 0
    assert "closed before any answer" in record.error_sample


def test_E11_a_kept_connection_that_dies_after_a_byte_is_a_failure(tmp_path):
    """Once an answer has begun it is not asked for again."""
    begun = answer(b"HTTP/1.1 2", end="close")
    with raw_server(tmp_path, whole(), begun, whole()) as server, asker(server.url) as user:
        user.ask()
        record = user.ask().record

    assert Outcome.INTERRUPTED is record.outcome
    assert record.reconnects == 0


def test_E11_a_close_behind_a_whole_answer_is_never_a_failure(tmp_path):
    """A server that promises keep-alive and closes at once: every request ok on a new one."""
    with raw_server(tmp_path, whole(end="close")) as server, asker(server.url) as user:
        records = [user.ask().record for _ in range(30)]

    assert {record.outcome for record in records} == {Outcome.OK}
    assert sum(record.connections_opened for record in records) == 30


def test_a_server_that_says_close_gets_a_new_connection(tmp_path):
    """Connection: close is believed, without waiting for the close."""
    said = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
    body = C("a") + F() + D
    said += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    with raw_server(tmp_path, answer(said, end="hold")) as server, asker(server.url) as user:
        records = [user.ask().record for _ in range(2)]
        assert gone(server, 0)

    assert [record.outcome for record in records] == [Outcome.OK] * 2
    assert [record.connection_reused for record in records] == [False, False]


def test_two_streams_interleave_over_one_transport(tmp_path):
    """Each has a connection of its own and gets its own text at its own times."""
    answers = (spaced("abcdef", every_ms=30), spaced("uvwxyz", every_ms=35))
    with raw_server(tmp_path, *answers) as server, asker(server.url) as user:
        streams = [gevent.spawn(Posted, user, str(i)) for i in range(2)]
        gevent.joinall(streams, raise_error=True)
        posted = sorted((stream.value for stream in streams), key=lambda one: one.text)
        third = Posted(user)
        for nth in range(2):
            assert_stamped_as_written(posted[nth], server, nth)

    assert [one.text for one in posted] == ["abcdef", "uvwxyz"]
    first, second = (one.output_at_s() for one in posted)
    assert first[0] < second[-1]
    assert second[0] < first[-1]
    assert third.facts.connection_reused


def test_ipv6_is_spoken(tmp_path):
    """A bracketed address is connected to, and is in the Host field."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 loopback")
    with raw_server(tmp_path, whole(), host="::1") as server, asker(server.url) as user:
        record = user.ask().record

    assert Outcome.OK is record.outcome
    assert f"Host: {server.url.removeprefix('http://')}" in server.events("request")[0]["head"]


# --- stopping -------------------------------------------------------------------------------------


def test_a_stream_that_is_stopped_is_cancelled_and_closed(tmp_path):
    """The order to stop ends the wait, closes the connection, and is handed back."""
    with raw_server(tmp_path, HALF) as server, asker(server.url) as user:
        asking = gevent.spawn(user.ask)
        gevent.sleep(0.2)
        asking.kill()
        answered = asking.value
        assert gone(server, 0)

    assert Outcome.CANCELLED is answered.record.outcome
    assert not answered.record.outcome.failed
    assert answered.record.chunks == 1
    assert isinstance(answered.interrupt, GreenletExit)


def test_a_user_raises_the_order_to_stop_again(tmp_path):
    """The user fires its one record, then leaves as it was told."""
    with raw_server(tmp_path, HALF) as server, asker(server.url) as user:
        fired, raised = [], []
        stub = SimpleNamespace(
            _leaving=Event(),
            context=SimpleNamespace(
                transports={TrafficKind.STREAM: None},
                phase=None,
                halted=False,
                takes_request=lambda: True,
            ),
            kind=TrafficKind.STREAM,
            _next_wish=lambda: None,
            _fire=fired.append,
        )

        def run():
            try:
                StreamingChatUser.chat(stub)
            except GreenletExit as stop:
                raised.append(stop)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("users.chat_user.ask", lambda *_: user.ask())
            chatting = gevent.spawn(run)
            gevent.sleep(0.2)
            chatting.kill()

    assert [one.record.outcome for one in fired] == [Outcome.CANCELLED]
    assert raised == [fired[0].interrupt]


# --- descriptors ----------------------------------------------------------------------------------


def descriptors():
    """How many descriptors this process holds."""
    return len(os.listdir("/proc/self/fd"))


@ON_LINUX
@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (answer(CHUNKED + chunk(C("a")), end="reset"), Outcome.INTERRUPTED),
        (answer(b"junk", end="hold"), Outcome.MALFORMED_STREAM),
        (SILENT, Outcome.FIRST_TOKEN_TIMEOUT),
    ],
    ids=["reset", "junk", "silent"],
)
def test_E13_failed_requests_leak_no_descriptor(tmp_path, said, outcome):
    """Fifty failures later the process holds what it held after the first."""
    with (
        raw_server(tmp_path, said) as server,
        asker(server.url, first_token_timeout="30ms") as user,
    ):
        assert outcome is user.ask().record.outcome
        before = descriptors()
        assert {user.ask().record.outcome for _ in range(50)} == {outcome}
        assert descriptors() == before


@ON_LINUX
def test_E13_refused_connections_leak_no_descriptor():
    """Nor do connections that never open."""
    with asker(f"http://127.0.0.1:{free_port()}") as user:
        user.ask()
        before = descriptors()
        assert {user.ask().record.outcome for _ in range(50)} == {Outcome.CONNECT_ERROR}
        assert descriptors() == before


@ON_LINUX
def test_E13_cancelled_requests_leak_no_descriptor(tmp_path):
    """Fifty streams stopped at once, some of them while they connect, leave nothing behind."""
    with raw_server(tmp_path, HALF) as server, asker(server.url, first_token_timeout="9s") as user:
        for pause_s in (0.1, 0.0, 0.3):
            streams = [gevent.spawn(user.ask) for _ in range(25)]
            gevent.sleep(pause_s)
            gevent.killall(streams)
            if pause_s == 0.1:
                before = descriptors()
                continue
            assert {one.value.record.outcome for one in streams} == {Outcome.CANCELLED}
        assert descriptors() == before


# --- what is sent ---------------------------------------------------------------------------------


def test_C04_headers_and_extra_body_are_on_every_request_once(tmp_path):
    """Also on a second try; the user's value stands in place of ours, and of a key's."""
    options = {
        "header": ["api-key: k", "X-Run: 5", "User-Agent: x", "x-request-id: mine"],
        "extra_body": '{"temperature":0,"priority":3}',
    }
    environ = {"SWARMGAUGE_API_KEY": "sk-test-AAAA1111"}
    answers = (whole(), answer(end="close"), whole())
    with raw_server(tmp_path, *answers) as server, asker(server.url, environ, **options) as user:
        records = [user.ask().record for _ in range(3)]
        requests = server.events("request")

    assert [record.outcome for record in records] == [Outcome.OK] * 3
    assert sum(record.reconnects for record in records) == 1
    assert len(requests) == 4
    wanted = {"api-key": "k", "x-run": "5", "user-agent": "x", "x-request-id": "mine"}
    for request in requests:
        fields = [line.partition(": ") for line in request["head"][1:]]
        names = [name.lower() for name, _, _ in fields]
        values = {name.lower(): value for name, _, value in fields}
        assert len(names) == len(set(names))
        assert wanted.items() <= values.items()
        assert "authorization" not in values
        assert request["body"].count('"temperature":0') == 1
        assert request["body"].count('"priority":3') == 1
        assert '"messages":[{' in request["body"]


def test_a_request_names_itself_once(tmp_path):
    """Without a header of the user's, each request has an id of its own, the record's."""
    with raw_server(tmp_path, whole()) as server, asker(server.url) as user:
        ids = [user.ask().record.request_id for _ in range(2)]
        heads = [request["head"] for request in server.events("request")]

    sent = [[line for line in head if line.startswith("X-Request-Id: ")] for head in heads]
    assert sent == [[f"X-Request-Id: {one}"] for one in ids]
    assert ids[0] != ids[1]
