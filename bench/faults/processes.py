"""The processes of one run: the simulator, a master, and workers each in a folder of its own, as on
machines of their own. All are ended by their id."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from bench.faults.cable import Cable
from bench.faults.plan import HOLD_S, STAGES, WORKERS
from bench.harness import SUITE, free_port

READY = "simulator ready on "
STARTS_WITHIN_S = 120.0
STOP_TIMEOUT_S = 10
"""How long answers under way may take when a worker ends."""
_PHASE = re.compile(r"stage (\d+)/\d+: .*?(going|settling|measuring)|(drain):")


class Broken(Exception):
    """A run that did not come as far as its first fault."""


def start(words: list[str], home: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """A Python module as a process, in its own folder, with nothing of this environment's options
    and ears for SIGINT."""
    ours = ("LOCUST_", "SWARMGAUGE_")
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=home,
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith(ours)},
    )


class Member:
    """A process of the suite. ``*_s`` are seconds of the machine's monotonic clock."""

    def __init__(self, name: str, words: list[str], home: Path) -> None:
        self.name, self.home = name, home / name
        self.home.mkdir()
        self._log = self.home / "log"
        common = ["-f", str(SUITE / "locustfile.py"), "--stop-timeout", str(STOP_TIMEOUT_S)]
        with self._log.open("wb") as log:
            self.process = start(["locust", *common, *words], self.home, log)
        self.stopped_s: float | None = None
        """Since when it does nothing: paused, or killed."""
        self.woken_s = 0.0
        self.killed = False
        self.waits: list[tuple[float, float]] = []
        """When it was looked at, and for how long it had waited for a core until then."""

    @property
    def output(self) -> str:
        """What it has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def tell(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.runs:
            self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9: from its pause on, if it is paused, it does nothing any more."""
        if self.runs:
            self.look()
            self.killed = True
            self.stopped_s = self.stopped_s or time.monotonic()
            self.process.kill()
            self.process.wait()

    def look(self) -> None:
        """Note for how long it has waited for a core: what it could not do meanwhile."""
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{self.process.pid}/schedstat").read_text(encoding="ascii")
            self.waits.append((time.monotonic(), int(stat.split()[1]) / 1e9))

    def pause(self) -> None:
        """SIGSTOP."""
        self.tell(signal.SIGSTOP)
        self.stopped_s = self.stopped_s or time.monotonic()

    def wake(self) -> None:
        """SIGCONT, if it is paused."""
        if self.runs and self.stopped_s is not None:
            self.tell(signal.SIGCONT)
            self.stopped_s, self.woken_s = None, time.monotonic()

    def leaves(self, until_s: float) -> bool:
        """Whether it ends by itself by then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.1, until_s - time.monotonic()))
        return not self.runs

    def spools(self) -> list[Path]:
        """Its spools; empty for one that joined no run."""
        return sorted(self.home.glob("runs/*/spool/*.jsonl"))


class Worker(Member):
    """A worker and its line to the master."""

    def __init__(self, name: str, home: Path, master_port: int) -> None:
        self.cable = Cable(master_port)
        self.cut_s: float | None = None
        """Since when it has been cut off, if it is."""
        words = ["--worker", "--master-host", "127.0.0.1", "--master-port", str(self.cable.port)]
        super().__init__(name, words, home)

    def cut(self) -> None:
        """Nothing passes between it and the master."""
        self.cable.cut()
        self.cut_s = self.cut_s or time.monotonic()

    def mend(self) -> None:
        """All passes again."""
        self.cable.mend()
        self.cut_s = None


class Fleet:
    """A simulator with a log, a master and workers; none is left when the context ends."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home = home
        self.server_log = home / "server.jsonl"
        self._seed = seed
        self._port = free_port()
        self.workers: list[Worker] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Fleet":
        with contextlib.ExitStack() as stack:
            self._stack = stack
            url = self._start_simulator()
            for _ in range(WORKERS):
                self.add_worker()
            self.master = Member("master", self._master_words(url), self.home)
            stack.callback(self.master.kill)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start_simulator(self) -> str:
        words = ["simulator", "--port", "0", "--log", str(self.server_log), "--max-num-seqs", "8"]
        printed = self.home / "simulator.log"
        with printed.open("wb") as log:
            self.simulator = start(words, SUITE, log)
        self._stack.callback(self._end_simulator)
        self._wait(lambda: READY in printed.read_text(), "the simulator is not ready")
        return printed.read_text().partition(READY)[2].split()[0]

    def _end_simulator(self) -> None:
        self.simulator.terminate()
        self.simulator.wait(timeout=30)

    def _master_words(self, url: str) -> list[str]:
        stages = ",".join(map(str, STAGES))
        return [
            *("--master", "--headless", "--master-bind-host", "127.0.0.1"),
            *("--master-bind-port", str(self._port), "--expect-workers", str(WORKERS)),
            *("--host", url, "--runs-dir", "runs", "--seed", str(self._seed), "--only-summary"),
            *("--shape", "ladder", "--stages", stages, "--hold", f"{HOLD_S}s", "--settle", "0s"),
            *("--output-tokens", "12"),
        ]

    def add_worker(self) -> Worker:
        """One more, which looks for the master."""
        worker = Worker(f"w{len(self.workers)}", self.home, self._port)
        self.workers.append(worker)
        self._stack.callback(worker.cable.close)
        self._stack.callback(worker.kill)
        return worker

    def wait_for_the_window(self) -> None:
        """Until the first stage is held.

        Raises:
            Broken: it never is.
        """
        self._wait(lambda: "measuring" in self.master.output or not self.master.runs, "no window")
        if not self.master.runs:
            raise Broken(
                f"the master ended with {self.master.process.returncode} before its window"
            )

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        until_s = time.monotonic() + STARTS_WITHIN_S
        while not condition():
            if time.monotonic() > until_s:
                raise Broken(f"{what} after {STARTS_WITHIN_S:.0f} s")
            time.sleep(0.05)

    def phase(self) -> tuple[int | None, str]:
        """The stage that the master announced last, and its phase; None in the drain."""
        *_, last = _PHASE.findall(self.master.output) or [("", "", "")]
        number, phase, drain = last
        return (int(number) - 1 if number else None), phase or drain

    def folder(self) -> Path | None:
        """The run's folder at the master."""
        return next(self.master.home.glob("runs/*/"), None)
