"""Processes of tests: started, waited for by what they print, and always ended by their id."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def free_port():
    """A port of the loopback that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def python_process(module, *arguments, ready, env=None):
    """``python -m module`` until the block ends; gives what follows ``ready``, and the process."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **(env or {})},
        )
        try:
            line = process.stdout.readline()
            while line and not line.startswith(ready):
                line = process.stdout.readline()
            if not line:
                errors.seek(0)
                raise AssertionError(f"{module} did not start: {errors.read()[-2000:]}")
            yield line.removeprefix(ready).split()[0], process
        finally:
            end(process)


@contextlib.contextmanager
def simulator(*arguments, log=None, env=None):
    """The embedded endpoint on a free port; gives its base URL."""
    more = ["--log", str(log)] if log is not None else []
    command = ["--port", "0", *arguments, *more]
    with python_process("simulator", *command, ready="simulator ready on ", env=env) as (url, _):
        yield url


def end(process, wait_s=10):
    """Ask a process to end, and make sure."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


def wait_until(condition, limit_s, what):
    """Poll a condition; fails with ``what`` when it does not come true in time."""
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} not within {limit_s} s")


def is_ready(url, process, log):
    """Whether a server answers 200 there; fails with the end of its log when it has ended."""
    if process.poll() is not None:
        tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise AssertionError(f"{process.args[0]} did not start: {tail}")
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
