"""The line between a worker and its master, which can be cut as if someone pulled a plug.

While it is cut nothing passes in either direction, neither data nor the end of a connection, so
neither side is told of the cut. It needs no privileges.
"""

import contextlib
import socket
import threading

_READ_BYTES = 65_536


class Cable:
    """Listens on ``port`` of the loopback and passes everything on to ``to_port`` there."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._whole = threading.Event()
        self._whole.set()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """From now on nothing passes."""
        self._whole.clear()

    def mend(self) -> None:
        """What was held back passes, and all that follows."""
        self._whole.set()

    def close(self) -> None:
        """End all connections."""
        self._listener.close()
        for one in list(self._open):
            _hang_up(one)
        self._whole.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._to_port))
        except OSError:
            near.close()
            return
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add(one)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_READ_BYTES):
                self._whole.wait()
                sink.sendall(data)
        self._whole.wait()
        for one in (source, sink):
            _hang_up(one)
            self._open.discard(one)


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
