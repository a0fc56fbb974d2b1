"""A running simulator, as other processes see it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"simulator ready on http://127\.0\.0\.1:(\d+) \(profile [\w-]+\)\n")


@dataclass
class RunningSimulator:
    """A simulator process, its port and its log."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)

    def get(self, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        connection = self.connect()
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()

    def post(
        self, body: dict[str, Any] | bytes, headers: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        connection = self.connect()
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", "/v1/chat/completions", payload, headers or {})
        return connection.getresponse()

    def gauge(self, name: str) -> float:
        text = self.get("/metrics")[1]
        line = next(line for line in text.splitlines() if line.startswith(f"vllm:{name}{{"))
        return float(line.rsplit(" ", 1)[1])

    def wait_for_gauge(self, name: str, value: float) -> None:
        deadline_s = time.monotonic() + 5
        while self.gauge(name) != value:
            assert time.monotonic() < deadline_s, f"{name} did not become {value}"
            time.sleep(0.01)

    def log_lines(self, count: int) -> list[dict[str, Any]]:
        """The first `count` lines of the log, once they are there."""
        deadline_s = time.monotonic() + 5
        while len(lines := self.log.read_text().splitlines()) < count:
            assert time.monotonic() < deadline_s, f"{len(lines)} of {count} lines in the log"
            time.sleep(0.01)
        assert len(lines) == count
        return [json.loads(line) for line in lines]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Exit status, and seconds it took."""
        started_s = time.monotonic()
        self.process.send_signal(number)
        status = self.process.wait(timeout=10)
        return status, time.monotonic() - started_s


Start = Callable[..., RunningSimulator]


@pytest.fixture
def start_simulator(tmp_path: Path) -> Iterator[Start]:
    """Starts simulators with the given flags; they end with the test."""
    with ExitStack() as stack:

        def start(*flags: str, key: str | None = None) -> RunningSimulator:
            log = tmp_path / "simulator.jsonl"
            command = [sys.executable, "-m", "simulator", "--port", "0", "--log", str(log), *flags]
            environment = {**os.environ, "SIMULATOR_API_KEY": key or ""}
            process = stack.enter_context(
                subprocess.Popen(
                    command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            ready = READY.fullmatch(process.stdout.readline())
            assert ready, "no ready line"
            return RunningSimulator(process, int(ready[1]), log)

        yield start
