"""The times that a stream bears: the kernel's, beneath TLS too, whatever the clocks do.

They are compared with the moments at which the server says it wrote, taken from the clock that both
processes share, so that a busy machine makes no test fail.
"""

import contextlib
import socket
import ssl
import sys
import threading
import time

import gevent
import pytest

import users.stamped_socket
from metrics.outcome import Outcome, StampSource
from tests.support.asking import asker
from tests.support.case_notation import C, D, F, R, U
from tests.support.processes import simulator
from tests.support.raw_server import answer, raw_server
from tests.support.stamped import (
    CHUNKED,
    EVENTS,
    LAST,
    Posted,
    assert_stamped_as_written,
    chunk,
    spaced,
)
from tests.support.tls_files import self_signed

pytestmark = [pytest.mark.live, pytest.mark.alone]

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps packets")


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
    files = self_signed(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1,DNS:localhost")
    return files.certificate, files.key


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
