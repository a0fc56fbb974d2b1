"""The line that can be cut, of the injected faults."""

import socket

import pytest

from bench.faults.cable import Cable

pytestmark = pytest.mark.live


@pytest.fixture
def line():
    """A cable with a connection through it: the cable, and the connection's two ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cable = Cable(listener.getsockname()[1])
        near = socket.create_connection(("127.0.0.1", cable.port))
        far, _ = listener.accept()
        with near, far:
            for end in (near, far):
                end.settimeout(0.3)
            yield cable, near, far
        cable.close()


def test_a_cut_cable_passes_nothing_and_later_everything(line):
    """What was said while it was cut arrives once it is mended, in order, in both directions."""
    cable, near, far = line
    near.sendall(b"1")
    assert b"1" == far.recv(9)
    cable.cut()
    near.sendall(b"2")
    far.sendall(b"a")
    for end in (near, far):
        with pytest.raises(TimeoutError):
            end.recv(9)
    cable.mend()
    near.sendall(b"3")
    far.settimeout(20)
    near.settimeout(20)
    got = b""
    while len(got) < 2:
        got += far.recv(9)
    assert b"23" == got
    assert b"a" == near.recv(9)


def test_a_cut_cable_tells_nobody_of_an_end(line):
    """One side hangs up while it is cut: the other learns of it when it is mended."""
    cable, near, far = line
    near.sendall(b"1")
    assert b"1" == far.recv(9)
    cable.cut()
    near.close()
    with pytest.raises(TimeoutError):
        far.recv(9)
    cable.mend()
    far.settimeout(20)
    assert b"" == far.recv(9)
