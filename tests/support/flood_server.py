"""Fails every chat request at once, by turns with 500 and inside a stream; ``--unique`` makes each
failure's text and code one of its own.

    python -m tests.support.flood_server --unique

The first line on stdout is ``flood server ready on http://127.0.0.1:PORT``; ``GET /count`` answers
with the number of chat requests so far.
"""

import argparse
import asyncio
import json
import signal
from itertools import count


class FloodServer:
    """``unique``: each message and code is one of its own."""

    def __init__(self, unique):
        self._unique = unique
        self._numbers = count(1)
        self._asked = 0

    async def serve(self, reader, writer):
        """One connection until the client closes it."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, size = _method_and_size(head)
                await reader.readexactly(size)
                writer.write(self._failure() if method == b"POST" else self._count())
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    def _failure(self):
        self._asked = number = next(self._numbers)
        name = f"{number:08d}-{number * 2654435761 % 2**32:08x}" if self._unique else "0"
        error = {"message": f"replica {name} fell over, trace {name * 8}", "code": f"E{name}"}
        body = json.dumps({"error": error}).encode()
        if number % 2:
            return _answer(b"500 Fell Over", b"application/json", body)
        return _answer(b"200 OK", b"text/event-stream", b"data: %b\n\n" % body)

    def _count(self):
        return _answer(b"200 OK", b"text/plain", b"%d" % self._asked)


def _answer(status, content_type, body):
    head = b"HTTP/1.1 %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (status, content_type, len(body)) + body


def _method_and_size(head):
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head.split(b" ", 1)[0], int(line.partition(b":")[2])
    return head.split(b" ", 1)[0], 0


async def _run(unique):
    server = await asyncio.start_server(FloodServer(unique).serve, "127.0.0.1", 0, backlog=1024)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    port = server.sockets[0].getsockname()[1]
    print(f"flood server ready on http://127.0.0.1:{port}", flush=True)
    await stopped.wait()


def main():
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--unique", action="store_true")
    asyncio.run(_run(parser.parse_args().unique))


if __name__ == "__main__":
    main()
