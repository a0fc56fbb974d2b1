"""``make memory``: what a process of the suite holds, by open streams and over many requests.

Real Locust processes, started as users start them, against the paced server. First 500, 1,000 and
2,000 slow streams at once on one process: peak resident memory, and bytes for each further stream.
Then 200,000 short requests, on one process and on a master with one worker: how much each process
grows after the first 20,000. Exits with 1 when a bar is missed. Linux only.
"""

import argparse
import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn

import numpy as np

from bench.harness import SUITE, check_host, free_port, paced_server
from bench.process_memory import status_bytes
from metrics.run_files import REQUESTS_JSONL

MB = 1e6
STREAMS = (500, 1000, 2000)
MOST_AT_ONCE_BYTES = 200 * MB
"""The bar for the peak of one process with the most streams."""
REQUESTS = 200_000
WARM_SHARE = 0.1
"""Of the requests: pools, caches and the report's histograms are filled within them."""
MOST_GROWTH_BYTES = 50 * MB
"""The bar for the growth of each process after the warm share."""
USERS = 50
POLL_S = 0.25
OPEN_LIMIT_S = 60.0
KEPT_OPEN_S = 8.0
SLOWEST_REQUESTS_PER_S = 100.0
SLOW = "?mode=spread&ttft_ms=500&itl_ms=200&events=150"
SHORT = "?mode=backlog&events=5"


@dataclass(frozen=True, slots=True)
class Opened:
    """One process with many streams: the most sockets it had, and its peak resident memory."""

    streams: int
    sockets: int
    peak_bytes: float


@dataclass(slots=True)
class Growth:
    """How the resident memory of one process went with the requests that were answered."""

    name: str
    requests: list[int] = field(default_factory=list)
    resident_bytes: list[float] = field(default_factory=list)

    def after(self, warm: int) -> tuple[float, float, float]:
        """Bytes when ``warm`` requests were answered, growth since, growth per 10,000 requests.

        The growth is that of the greatest sample.

        Raises:
            ValueError: fewer than two samples came after the warm requests.
        """
        first = int(np.searchsorted(self.requests, warm))
        late = np.asarray(self.resident_bytes[first:])
        if late.size < 2:
            raise ValueError(f"{self.name}: fewer than two samples after {warm:,} requests")
        slope = float(np.polyfit(self.requests[first:], late, 1)[0])
        return float(late[0]), float(late.max() - late[0]), 1e4 * slope


def main() -> int:
    """Measure, print both tables; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--streams", default=",".join(map(str, STREAMS)), help="how many at once")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="0: only the streams")
    options = parser.parse_args()
    check_host()
    signal.signal(signal.SIGTERM, end_by_signal)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the server inherits it
    met = True
    if options.streams:
        met &= print_opened([open_streams(int(n)) for n in options.streams.split(",")])
    if options.requests:
        grown = [*many_requests(options.requests, 0), *many_requests(options.requests, 1)]
        met &= print_growth(grown, options.requests)
    return 0 if met else 1


def end_by_signal(number: int, frame: FrameType | None) -> NoReturn:
    """Leave by way of every ``finally``, so that no Locust is left behind."""
    raise SystemExit(128 + number)


def open_streams(streams: int) -> Opened:
    """Open so many slow streams on one process, keep them a while, and look at its memory."""
    print(f"== {streams:,} streams on one process", flush=True)
    with paced_server() as url, tempfile.TemporaryDirectory() as runs:
        users = ("-u", str(streams), "-r", "200")
        with locust("--host", url + SLOW, *users, "--output-tokens", "150", runs=runs) as (main,):
            until_s, sockets = time.monotonic() + OPEN_LIMIT_S, 0
            while sockets < streams and time.monotonic() < until_s:
                time.sleep(POLL_S)
                sockets = max(sockets, open_sockets(main))
            time.sleep(KEPT_OPEN_S)
            return Opened(streams, open_sockets(main), status_bytes("VmHWM", main.pid))


def many_requests(requests: int, workers: int) -> list[Growth]:
    """Send so many short requests and follow the memory of every process."""
    names = ("only process",) if not workers else ("master", "worker")
    print(f"== {requests:,} requests: {' and '.join(names)}", flush=True)
    users = ("-u", str(USERS), "-r", str(USERS), "--output-tokens", "5")
    with (
        paced_server() as url,
        tempfile.TemporaryDirectory() as runs,
        locust("--host", url + SHORT, *users, runs=runs, workers=workers) as processes,
    ):
        growths = [Growth(name) for name in names]
        until_s, rows = time.monotonic() + 60 + requests / SLOWEST_REQUESTS_PER_S, Rows(Path(runs))
        while rows.ok < requests:
            time.sleep(POLL_S)
            rows.read()
            for growth, process in zip(growths, processes, strict=True):
                growth.requests.append(rows.ok)
                growth.resident_bytes.append(status_bytes("VmRSS", process.pid))
            if time.monotonic() > until_s:
                raise SystemExit(
                    f"only {rows.ok:,} of {requests:,} requests in time, {rows.failed:,} failed"
                )
    return growths


class Rows:
    """Counts the successes and failures that a run under ``runs`` has written so far."""

    def __init__(self, runs: Path) -> None:
        self.ok = 0
        self.failed = 0
        self._runs = runs
        self._at = 0

    def read(self) -> None:
        """Look again; the part of a line that is not whole yet is left for the next time."""
        for path in self._runs.glob(f"*/{REQUESTS_JSONL}"):
            with path.open("rb") as lines:
                lines.seek(self._at)
                text = lines.read()
            text = text[: text.rfind(b"\n") + 1]
            rows = text.count(b"\n") - (self._at == 0 and bool(text))  # the first is a header
            ok = text.count(b',"ok",')
            self.ok += ok
            self.failed += rows - ok
            self._at += len(text)


@contextlib.contextmanager
def locust(*options: str, runs: str, workers: int = 0) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Locust until the block ends: the only process, or the master and its workers."""
    command = [sys.executable, "-m", "locust"]
    common = ["--headless", "--runs-dir", runs, "--model", "paced", "--no-preflight"]
    common += ["-t", "1h", "--settle", "0s", *options]
    roles = [["--worker", "--master-port"] for _ in range(workers)]
    if workers:
        port = str(free_port())
        common += ["--master", "--expect-workers", str(workers), "--master-bind-port", port]
        roles = [[*role, port] for role in roles]
    log = Path(runs, "locust.log")
    with log.open("wb") as out:
        processes = [
            subprocess.Popen(command + more, cwd=SUITE, stdout=out, stderr=out)
            for more in (common, *roles)
        ]
        try:
            yield processes
        except ProcessLookupError:
            raise SystemExit(f"Locust ended early:\n{log.read_text()[-2000:]}") from None
        finally:
            for process in processes:
                # Nothing is wanted of a report, and streams under way would be waited for.
                process.kill()
                process.wait()


def open_sockets(process: "subprocess.Popen[bytes]") -> int:
    """How many sockets a process has open.

    Raises:
        ProcessLookupError: the process has ended.
    """
    if process.poll() is not None:
        raise ProcessLookupError(f"process {process.pid} has ended")
    found = 0
    for entry in os.scandir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found += os.readlink(entry.path).startswith("socket:")
    return found


def print_opened(opened: list[Opened]) -> bool:
    """The first table; whether the bar is met and every stream was really open."""
    print("\n| streams | sockets open | peak RSS MB | kB per further stream |")
    print("| --- | --- | --- | --- |")
    for number, one in enumerate(opened):
        each = "-"
        if number:
            last = opened[number - 1]
            more = one.peak_bytes - last.peak_bytes
            each = f"{more / (one.streams - last.streams) / 1e3:.1f}"
        print(f"| {one.streams:,} | {one.sockets:,} | {one.peak_bytes / MB:.0f} | {each} |")
    print(flush=True)
    return all(o.sockets >= o.streams and o.peak_bytes <= MOST_AT_ONCE_BYTES for o in opened)


def print_growth(growths: list[Growth], requests: int) -> bool:
    """The second table; whether every process stays below the bar."""
    warm = int(WARM_SHARE * requests)
    print(f"\n| process | RSS MB after {warm:,} | growth MB by {requests:,} | MB per 10,000 |")
    print("| --- | --- | --- | --- |")
    met = True
    for growth in growths:
        begin, grown, slope = growth.after(warm)
        met &= grown < MOST_GROWTH_BYTES
        print(f"| {growth.name} | {begin / MB:.0f} | {grown / MB:.1f} | {slope / MB:.2f} |")
    print(flush=True)
    return met


if __name__ == "__main__":
    sys.exit(main())
