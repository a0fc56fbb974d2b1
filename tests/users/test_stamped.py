"""The streaming transport over real sockets: stamps, kept connections, ends of every kind.

A stream's times are compared with the moments at which the server says it wrote, taken from the
clock that both processes share, so that a busy machine makes no test fail.
"""

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import gevent
import pytest
from gevent import GreenletExit

import users.stamped_socket
from metrics.outcome import Outcome, StampSource
from tests.support.asking import asker
from tests.support.case_notation import C, D, F, R, U
from tests.support.processes import free_port, simulator
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
            _leaving=False,
            context=SimpleNamespace(transports={TrafficKind.STREAM: None}, phase=None),
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


# --- stamps ---------------------------------------------------------------------------------------


@ON_LINUX
def test_stamps_are_the_kernels(tmp_path):
    """On Linux the kernel's stamps are used, and no read is earlier than its stamp."""
    with raw_server(tmp_path, spaced()) as server, asker(server.url) as user:
        for nth in range(5):
            posted = Posted(user)
            assert StampSource.KERNEL is posted.facts.stamp_source
            assert 0 <= posted.facts.client_delay_s < 0.1
            assert_stamped_as_written(posted, server, nth)


@ON_LINUX
def test_M15_a_burnt_event_loop_delays_reads_and_not_stamps(tmp_path):
    """60 ms burnt again and again: the times stay right, and the lateness is told.

    Writes are far further apart: a read that merges two has the time of the second.
    """
    answers = [
        answer(
            CHUNKED + chunk(R),
            (first_ms, chunk(C("a"))),
            (first_ms + 250, chunk(C("b"))),
            (first_ms + 500, chunk(F(), D) + LAST),
        )
        for first_ms in (70, 85, 100, 115)
    ]

    def burn():
        while True:
            until_s = time.perf_counter() + 0.06
            while time.perf_counter() < until_s:
                pass
            gevent.sleep(0.001)

    with raw_server(tmp_path, *answers) as server, asker(server.url) as user:
        burning = gevent.spawn(burn)
        try:
            posted = [Posted(user) for _ in answers]
        finally:
            burning.kill()
        for nth, one in enumerate(posted):
            assert_stamped_as_written(one, server, nth)

    delays_s = [one.facts.client_delay_s for one in posted]
    assert min(delays_s) >= 0
    assert 0.02 < max(delays_s) < 0.3


@pytest.mark.parametrize("hours", [1, -1])
def test_a_step_of_the_wall_clock_changes_no_duration(tmp_path, monkeypatch, hours):
    """The wall clock is set by an hour amid a stream: times stay those of the writes."""
    real, steps_at_s = time.time, time.perf_counter() + 3600

    def stepped():
        return real() + (hours * 3600 if time.perf_counter() > steps_at_s else 0)

    monkeypatch.setattr(users.stamped_socket.time, "time", stepped)
    with raw_server(tmp_path, spaced("abcdefgh")) as server, asker(server.url) as user:
        Posted(user)
        steps_at_s = time.perf_counter() + 0.2
        posted = Posted(user)
        writes = [event for event in server.events("write") if event["nth"] == 1][1:]

    assert Outcome.OK is posted.outcome
    for at_s, write in zip(posted.output_at_s(), writes, strict=False):
        assert write["before_s"] - 0.001 <= at_s <= write["after_s"] + 0.05
    assert posted.facts.end_s < 1


@ON_LINUX
def test_a_wall_clock_set_between_stamp_and_read_spoils_no_time(tmp_path, monkeypatch):
    """Set by 5 s before each read, to and fro: no stamp is trusted, the reads' own times are."""
    real, receive = time.time, users.stamped_socket.StampedSocket.receive
    reads = []
    clock = users.stamped_socket.time
    monkeypatch.setattr(clock, "time", lambda: real() + len(reads) % 2 * 5)

    def step_and_receive(connection):
        reads.append(connection)
        return receive(connection)

    monkeypatch.setattr(users.stamped_socket.StampedSocket, "receive", step_and_receive)
    with raw_server(tmp_path, spaced("abcdef")) as server, asker(server.url) as user:
        posted = Posted(user)
        writes = server.events("write")[1:]

    assert StampSource.USER is posted.facts.stamp_source
    assert posted.facts.client_delay_s is None
    for at_s, write in zip(posted.output_at_s(), writes, strict=False):
        assert write["before_s"] - 0.001 <= at_s <= write["after_s"] + 0.05


def test_merged_reads_are_counted(tmp_path):
    """Two tokens in one write are two chunks of one time, and one merged read."""
    said = answer(
        CHUNKED + chunk(R),
        (50, chunk(C("a")) + chunk(C("b"))),
        (100, chunk(C("c"))),
        (150, chunk(C("d"), F(), D) + LAST),
    )
    with raw_server(tmp_path, said) as server, asker(server.url) as user:
        posted = Posted(user)

    times = list(posted.reply.output_at_s)
    assert (posted.facts.merged_reads, posted.text) == (1, "abcd")
    assert times[0] == times[1] < times[2] < times[3]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for the loopback, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "cert.pem", folder / "key.pem"
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext"
    command = [*command.split(), names, "-out", files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    return files


def secure_simulator(certificate):
    """The simulator behind TLS."""
    certfile, keyfile = map(str, certificate)
    files = ("--ssl-certfile", certfile, "--ssl-keyfile", keyfile)
    return simulator("--profile", "small", "--model", "case-model", *files)


def test_tls_has_the_same_stamps(certificate):
    """Beneath TLS the kernel stamps as well; the connection is kept."""
    with secure_simulator(certificate) as url, asker(url, ca_file=str(certificate[0])) as user:
        records = [user.ask(max_tokens=16).record for _ in range(3)]

    assert [record.outcome for record in records] == [Outcome.OK] * 3
    assert [record.connections_opened for record in records] == [1, 0, 0]
    assert all(0 < record.ttft_s < record.last_token_s for record in records)
    if sys.platform == "linux":
        assert all(StampSource.KERNEL is record.stamp_source for record in records)
        assert all(record.client_delay_s >= 0 for record in records)


@ON_LINUX
def test_F12_tls_may_end_behind_the_last_data(certificate):
    """The end of TLS in one read with the last event: the answer is over, nobody waits for more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    body = R + C("fig") + F() + U(3, 1)

    def serve(listener):
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as sock:
            sock.settimeout(3)
            sock.recv(65536)
            # All that is written from here on leaves together.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            sock.sendall(EVENTS + b"\r\n" + body)
            with contextlib.suppress(OSError):
                sock.unwrap()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with asker(url, ca_file=str(certificate[0]), idle_timeout="2s") as user:
            posted = Posted(user)

    assert (Outcome.OK, "fig") == (posted.outcome, posted.text)
    assert posted.facts.end_s < 1.5


def test_tls_that_is_not_trusted_is_no_server_error(certificate):
    """A certificate nobody vouches for: tls_error, and nothing was sent."""
    with secure_simulator(certificate) as url, asker(url) as user:
        record = user.ask().record

    assert Outcome.TLS_ERROR is record.outcome
    assert record.sent_bytes == 0
    assert not record.outcome.reached_wire


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
