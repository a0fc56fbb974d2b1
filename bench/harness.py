"""Builds and starts what clients are measured against, and runs one measured client at a time.

With two cores or more the server keeps the first and the client the last, so that neither waits
for the other.
"""

import contextlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parent.parent
CACHE = SUITE / ".cache"
SOURCE = Path(__file__).resolve().with_name("paced_server.c")
PACKAGES = ("gevent", "geventhttpclient", "msgspec", "locust", "requests", "openai", "sseclient-py")
WITHOUT_GEVENT = frozenset({"epoll_floor"})
SLOWEST_RUN_S = 60.0
QUIET_CORES = 0.4
QUIET_SAMPLE_S = 0.25


@dataclass(frozen=True, slots=True)
class Load:
    """One measurement: which client, how many streams, and what the server does.

    ``ttft_ms`` and ``itl_ms`` are the paced server's; ``window_s`` is what is measured.
    """

    client: str
    streams: int
    mode: str = "spread"
    ttft_ms: float = 100.0
    itl_ms: float = 20.0
    events: int = 64
    window_s: float = 1.5

    @property
    def ramp_s(self) -> float:
        """Streams begin over the length of one, so that their phases differ."""
        if self.mode == "backlog":
            return 0.4
        return (self.ttft_ms + self.itl_ms * self.events) / 1e3

    @property
    def pace(self) -> float:
        """Content events a second that all streams get from a server that is never kept waiting."""
        gaps_ms = self.itl_ms * (self.events - 1)
        return 1e3 * self.streams * self.events / (self.ttft_ms + gaps_ms)

    @property
    def query(self) -> str:
        """What tells the paced server of it."""
        return (
            f"?mode={self.mode}&ttft_ms={self.ttft_ms:g}&itl_ms={self.itl_ms:g}"
            f"&events={self.events}"
        )


def cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def free_port() -> int:
    """A port of the loopback that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_host() -> None:
    """Say what is missing, if anything, before the first measurement."""
    if sys.platform != "linux":
        raise SystemExit("the benchmarks need Linux: their server uses epoll and its clock")
    if shutil.which("gcc") is None:
        raise SystemExit("the benchmarks need gcc for their server: install it and try again")


def build_server() -> Path:
    """The paced server's program, compiled when its source is newer."""
    program = CACHE / "bench" / "paced_server"
    if program.exists() and program.stat().st_mtime >= SOURCE.stat().st_mtime:
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O2", "-Wall", "-o", str(program), str(SOURCE)], check=True)
    return program


@contextlib.contextmanager
def paced_server() -> Iterator[str]:
    """The paced server on a free port; the URL of its chat completions."""
    with _server([str(build_server()), "0"], "ready ") as word:
        yield f"http://127.0.0.1:{word}/v1/chat/completions"


@contextlib.contextmanager
def null_simulator() -> Iterator[str]:
    """The suite's simulator without any limit; the URL of its chat completions."""
    command = [sys.executable, "-m", "simulator", "--port", "0", "--profile", "null"]
    with _server(command, "simulator ready on ") as word:
        yield f"{word.rstrip('/')}/v1/chat/completions"


@contextlib.contextmanager
def _server(command: list[str], ready: str) -> Iterator[str]:
    process = subprocess.Popen(
        [*_pinned(cores()[0]), *command], cwd=SUITE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith(ready):
            raise SystemExit(f"the server did not start: {line.strip() or 'no output'}")
        yield line.removeprefix(ready).split()[0]
    finally:
        process.terminate()
        process.wait(timeout=10)


def _pinned(core: int) -> list[str]:
    return ["taskset", "-c", str(core)] if len(cores()) > 1 and shutil.which("taskset") else []


@dataclass(slots=True)
class Patience:
    """How long may still be waited, in all, for other work on the host to pause."""

    left_s: float

    def wait(self) -> None:
        """Until the host is quiet, or the patience is over."""
        while self.left_s > 0:
            busy_before_s = _busy_s()
            time.sleep(QUIET_SAMPLE_S)
            self.left_s -= QUIET_SAMPLE_S
            if (_busy_s() - busy_before_s) / QUIET_SAMPLE_S < QUIET_CORES:
                return


def measure(load: Load, url: str) -> dict[str, Any]:
    """Run one client; its record, with how many cores others were using meanwhile."""
    module = f"bench.loads.{load.client}"
    patched = [] if load.client in WITHOUT_GEVENT else ["gevent.monkey", "--module"]
    command = [sys.executable, "-m", *patched, module, "--url", url]
    command += ["--streams", str(load.streams), "--max-tokens", str(load.events)]
    command += ["--ramp-s", f"{load.ramp_s:g}", "--window-s", f"{load.window_s:g}"]
    if len(cores()) > 1:
        command += ["--core", str(cores()[-1])]
    before = _busy_s(), time.perf_counter()
    run = subprocess.run(
        command, cwd=SUITE, capture_output=True, text=True, timeout=SLOWEST_RUN_S, check=False
    )
    busy, took_s = _busy_s() - before[0], time.perf_counter() - before[1]
    if run.returncode or not run.stdout.startswith("{"):
        raise SystemExit(f"{module} failed:\n{run.stderr[-2000:] or 'no output'}")
    record: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    record["client"] = load.client
    record["host_busy_cores"] = busy / took_s
    return record


def _busy_s() -> float:
    """Seconds that all cores together have worked since the host started."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def versions() -> dict[str, str]:
    """Python and the packages that the measured clients are made of."""
    found = {"python": platform.python_version()}
    found.update({name: version(name) for name in PACKAGES})
    return found
