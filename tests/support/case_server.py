"""A scripted HTTP/1.1 server: the exact bytes of a case, at its times, over raw sockets.

    python -m tests.support.case_server --port 0 --log requests.jsonl

The first line on stdout is ``case server ready on http://127.0.0.1:PORT``. ``/<CASE>/v1`` is the
base URL of a case. Each request is one JSON line in the log, written before the answer begins.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from tests.support.case_notation import Ask, Ending, Framing, Script, error, plain
from tests.support.case_scripts import CASES, MODELS, script_for

_MAX_BODY_BYTES = 64 << 20
_NO_LINGER = struct.pack("ii", 1, 0)


class CaseServer:
    """Answers each request by its case's script; ``log`` takes one JSON line a request."""

    def __init__(self, log: TextIO | None = None) -> None:
        self._log = log
        self._asked: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection until either side closes it."""
        idle_close_s: float | None = None
        try:
            while True:
                ask, arrived_s = await self._receive(reader, writer, idle_close_s)
                script = self._choose(ask)
                await self._answer(writer, script, arrived_s)
                if script.framing is Framing.CLOSE or ask.headers.get("connection") == "close":
                    return
                idle_close_s = script.idle_close_s
        except (OSError, EOFError, TimeoutError, ValueError, _Ended):
            return
        finally:
            writer.close()

    async def _receive(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        idle_close_s: float | None,
    ) -> tuple[Ask, float]:
        async with asyncio.timeout(idle_close_s):
            request_line = (await reader.readuntil(b"\r\n")).decode("latin-1")
        method, target, _ = request_line.split(" ", 2)
        headers: dict[str, str] = {}
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        size = int(headers.get("content-length", "0"))
        if not 0 <= size <= _MAX_BODY_BYTES:
            raise ValueError(f"Content-Length {size}")
        body = await reader.readexactly(size)
        arrived_s = asyncio.get_running_loop().time()
        case = target.lstrip("/").partition("/")[0].partition("?")[0]
        asks_chat = method == "POST"
        nth = self._asked[case] if asks_chat else 0
        self._asked[case] += asks_chat
        ask = Ask(case, nth, method, target, headers, body, _members(body))
        self._note(ask, writer.get_extra_info("peername")[1], arrived_s)
        return ask, arrived_s

    def _note(self, ask: Ask, port: int, arrived_s: float) -> None:
        if self._log is None:
            return
        line = {
            "case": ask.case,
            "nth": ask.nth,
            "method": ask.method,
            "path": ask.path,
            "headers": ask.headers,
            "body": ask.body.decode("utf-8", "backslashreplace"),
            "connection": port,
            "received_monotonic_s": arrived_s,
        }
        self._log.write(json.dumps(line) + "\n")
        self._log.flush()

    @staticmethod
    def _choose(ask: Ask) -> Script:
        path = ask.path.partition("?")[0]
        if ask.case in CASES and path.endswith("/models"):
            # A case may guard its model list too.
            return script_for(ask) if ask.case == "E09_key" else MODELS
        if ask.method == "POST" and path.endswith("/chat/completions"):
            return script_for(ask)
        return plain(error(f"no such path: {ask.method} {path}", code="unknown_path"), 404)

    async def _answer(self, writer: asyncio.StreamWriter, script: Script, arrived_s: float) -> None:
        for at_ms, data in _writes(script):
            await _until(arrived_s + at_ms / 1000)
            writer.write(data)
            await writer.drain()
        if script.hold_open_s:
            await asyncio.sleep(script.hold_open_s)
        if script.ending is Ending.RESET:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            writer.transport.abort()
            raise _Ended
        if script.ending is Ending.CUT_CHUNK:
            writer.write(b'28\r\ndata: {"ch')
            raise _Ended
        if script.framing is Framing.CHUNKED:
            writer.write(b"0\r\n\r\n")
        await writer.drain()


class _Ended(Exception):
    """The script ended the connection itself."""


def _members(body: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        value = json.loads(body)
        if isinstance(value, dict):
            return value
    return {}


def _writes(script: Script) -> Iterator[tuple[float, bytes]]:
    """The head and each step with its transfer framing; a head due with the first step is in it."""
    steps = [(step.at_ms, step.data) for step in script.steps]
    head_at_ms = script.head_at_ms
    if head_at_ms is None:
        streams = "event-stream" in (script.content_type or "")
        head_at_ms = 0.0 if streams or not steps else steps[0][0]
    head = _head(script)
    for at_ms, data in steps:
        if not data:
            continue
        if script.framing is Framing.CHUNKED:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if head and at_ms <= head_at_ms:
            data = head + data
        elif head:
            yield head_at_ms, head
        head = b""
        yield at_ms, data
    if head:
        yield head_at_ms, head


def _head(script: Script) -> bytes:
    lines = [f"HTTP/1.1 {script.status} Scripted"]
    if script.content_type is not None:
        lines.append(f"Content-Type: {script.content_type}")
    lines += [f"{name}: {value}" for name, value in script.headers]
    if script.framing is Framing.CHUNKED:
        lines.append("Transfer-Encoding: chunked")
    elif script.framing is Framing.LENGTH:
        lines.append(f"Content-Length: {len(script.body)}")
    else:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _until(at_s: float) -> None:
    wait_s = at_s - asyncio.get_running_loop().time()
    if wait_s > 0:
        await asyncio.sleep(wait_s)


async def _run(port: int, log: TextIO | None) -> None:
    server = await asyncio.start_server(CaseServer(log).serve, "127.0.0.1", port, backlog=1024)
    stopped = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stopped.set)
    bound = server.sockets[0].getsockname()[1]
    print(f"case server ready on http://127.0.0.1:{bound}", flush=True)
    await stopped.wait()


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="Scripted chat endpoint for tests.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--log", type=Path, help="JSON lines, one for each request")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(options.log.open("a")) if options.log else None
        asyncio.run(_run(options.port, log))


if __name__ == "__main__":
    main()
