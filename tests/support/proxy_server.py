"""A forward HTTP proxy that leads every name to one upstream, and notes what it was asked.

    python -m tests.support.proxy_server LOG [--upstream 127.0.0.1:8000] [--answer 403] [--mute]

LOG gets one JSON line for each request: its first line and its header fields by lower-case name.
With ``--answer`` every request gets that status and a body that repeats the credentials it came
with; with ``--mute`` none is ever answered.
"""

import argparse
import contextlib
import json
import socket
import threading
from pathlib import Path

from tests.support.processes import python_process


class ProxyServer:
    """A running proxy, and what it was asked."""

    def __init__(self, address, log):
        self.address = address
        self._log = log

    @property
    def url(self):
        """The proxy without credentials."""
        return f"http://{self.address}"

    def with_credentials(self, user, password):
        """The URL as a proxy variable may hold it."""
        return f"http://{user}:{password}@{self.address}"

    def asked(self):
        """The requests so far: ``line`` and ``headers``."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]


@contextlib.contextmanager
def proxy_server(folder, upstream=None, answer=None, mute=False):
    """A proxy until the block ends. ``upstream`` is a URL whose host and port are led to."""
    log = folder / "proxy.jsonl"
    log.unlink(missing_ok=True)
    arguments = [str(log)]
    if upstream is not None:
        arguments += ["--upstream", upstream.partition("://")[2].partition("/")[0]]
    if answer is not None:
        arguments += ["--answer", answer]
    if mute:
        arguments.append("--mute")
    ready = "proxy ready on "
    with python_process("tests.support.proxy_server", *arguments, ready=ready) as (address, _):
        yield ProxyServer(address, log)


class _Proxy:
    def __init__(self, options, log):
        self._options = options
        self._log = log
        self._lock = threading.Lock()

    def serve(self, client):
        with client, contextlib.suppress(OSError):
            self._serve(client)

    def _serve(self, client):
        head, rest = _head(client)
        if head is None:
            return
        line, *fields = head.decode("latin-1").split("\r\n")
        headers = {n.lower(): v.strip() for n, _, v in (f.partition(":") for f in fields)}
        with self._lock:
            self._log.write(json.dumps({"line": line, "headers": headers}) + "\n")
            self._log.flush()
        if self._options.mute:
            while client.recv(65536):
                pass
            return
        if self._options.answer is not None:
            body = f"not for {headers.get('proxy-authorization')}".encode()
            status = self._options.answer.encode()
            head = b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
            client.sendall(head + body)
            return
        host, _, port = self._options.upstream.rpartition(":")
        with socket.create_connection((host, int(port))) as upstream:
            if line.startswith("CONNECT "):
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream.sendall(_origin_form(line, fields) + rest)
            threading.Thread(target=_relay, args=(client, upstream), daemon=True).start()
            _relay(upstream, client)


def _head(client):
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(65536)
        if not more:
            return None, b""
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _origin_form(line, fields):
    """The head for the upstream: path only, no proxy fields, and one request per connection."""
    method, url, version = line.split(" ")
    path = "/" + url.partition("://")[2].partition("/")[2]
    kept = [f for f in fields if not f.lower().startswith(("proxy-", "connection:"))]
    lines = [f"{method} {path} {version}", *kept, "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _relay(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def main():
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--upstream")
    parser.add_argument("--answer")
    parser.add_argument("--mute", action="store_true")
    options = parser.parse_args()
    with (
        socket.create_server(("127.0.0.1", 0), backlog=512) as listener,
        options.log.open("a") as log,
    ):
        print(f"proxy ready on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
        proxy = _Proxy(options, log)
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()


if __name__ == "__main__":
    main()
