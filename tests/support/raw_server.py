"""A server that writes exact bytes at exact times and says when it did: heads, framing and ends.

    python -m tests.support.raw_server PLAN LOG [--host ::1]

PLAN is a JSON list of answers: the n-th request, counted over all connections, gets the n-th, and
the last one stays. An answer is ``{"writes": [[at_ms, text], ...], "end": "keep"}``; the text is
Latin-1, ``at_ms`` counts from the request's arrival. ``end`` is ``keep`` (await another request),
``close``, ``reset`` or ``hold`` (await the peer's close).

LOG gets one JSON line for each event: ``request``, ``write`` (with the times before and after it,
of the monotonic clock) and ``gone``, when the peer has closed.
"""

import argparse
import contextlib
import itertools
import json
import socket
import struct
import threading
import time
from pathlib import Path

from tests.support.processes import python_process

_NO_LINGER = struct.pack("ii", 1, 0)


def answer(*writes, end="keep"):
    """One answer; bytes alone are written at once."""
    timed = [(0, write) if isinstance(write, bytes) else write for write in writes]
    return {"writes": [(at_ms, data.decode("latin-1")) for at_ms, data in timed], "end": end}


class RawServer:
    """A running server, and what it has seen."""

    def __init__(self, url, log):
        self.url = url
        self._log = log

    def events(self, kind):
        """The events of one kind so far, as dictionaries."""
        lines = self._log.read_text().splitlines(keepends=True) if self._log.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in events if event["event"] == kind]


@contextlib.contextmanager
def raw_server(folder, *answers, host="127.0.0.1"):
    """A server of these answers until the block ends."""
    plan, log = folder / "plan.json", folder / "raw.jsonl"
    plan.write_text(json.dumps(answers))
    log.unlink(missing_ok=True)
    arguments = (str(plan), str(log), "--host", host)
    ready = "raw server ready on "
    with python_process("tests.support.raw_server", *arguments, ready=ready) as (url, _):
        yield RawServer(url, log)


class _Server:
    def __init__(self, answers, log):
        self._answers = answers
        self._log = log
        self._lock = threading.Lock()
        self._requests = itertools.count()

    def serve(self, sock, connection):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with sock, contextlib.suppress(OSError):
            while self._exchange(sock, connection):
                pass

    def _exchange(self, sock, connection):
        request = _receive(sock)
        arrived_s = time.monotonic()
        if request is None:
            self._note("gone", connection)
            return False
        head, body = request
        nth = next(self._requests)
        self._note("request", connection, nth=nth, head=head, body=body, at_s=arrived_s)
        script = self._answers[min(nth, len(self._answers) - 1)]
        for at_ms, text in script["writes"]:
            time.sleep(max(0.0, arrived_s + at_ms / 1000 - time.monotonic()))
            before_s = time.monotonic()
            try:
                sock.sendall(text.encode("latin-1"))
            except OSError:
                self._note("gone", connection)
                return False
            self._note("write", connection, nth=nth, before_s=before_s, after_s=time.monotonic())
        if script["end"] == "hold":
            with contextlib.suppress(OSError):
                while sock.recv(65536):
                    pass
            self._note("gone", connection)
        if script["end"] == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        return script["end"] == "keep"

    def _note(self, event, connection, **fields):
        line = json.dumps({"event": event, "connection": connection, **fields})
        with self._lock:
            self._log.write(line + "\n")
            self._log.flush()


def _receive(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    sizes = [line.partition(":")[2] for line in lines if line.lower().startswith("content-length:")]
    while len(body) < int(sizes[0]):
        body += sock.recv(65536)
    return lines, body.decode()


def main():
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("plan", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    options = parser.parse_args()
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    with socket.create_server((options.host, 0), family=family, backlog=512) as listener:
        shown = f"[{options.host}]" if ":" in options.host else options.host
        print(f"raw server ready on http://{shown}:{listener.getsockname()[1]}", flush=True)
        with options.log.open("a") as log:
            server = _Server(json.loads(options.plan.read_text()), log)
            for connection in itertools.count():
                sock, _ = listener.accept()
                threading.Thread(target=server.serve, args=(sock, connection), daemon=True).start()


if __name__ == "__main__":
    main()
