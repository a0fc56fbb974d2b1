"""One measured run: a real master of the suite, and a made-up fleet that reports to it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.fleet.made_up import STAGE, MadeUp, make_worker
from bench.fleet.sender import MODEL, FleetSender
from bench.harness import SUITE, cores, free_port
from metrics.run_files import REQUESTS_JSONL, STAGES_JSON
from metrics.stage import Stage
from metrics.tally import TallyBook
from reports.load import load_run

MIB = 2**20
START_LIMIT_S = 60.0
END_LIMIT_S = 180.0
MORE_RUN_TIME_S = 4
"""The plan runs longer than the reports, so that none comes after its end."""
TURN_S = 0.1


@dataclass(frozen=True, slots=True)
class Replayed:
    """What one run cost its master; memory is resident, in MiB.

    ``cpu_cores`` is user and system time per second while reports came, ``behind_s`` how long
    after the last of them its rows were in the master's file.
    """

    workers: int
    records_per_s: float
    seconds: float
    cpu_cores: float
    behind_s: float
    before_mib: float
    after_mib: float
    end_s: float
    report_mib: float
    sent: int
    """Records that the fleet sent; the next three are what the folder has of them."""
    kept: int
    distinct: int
    tallied: int
    on_workers: bool = False
    """The rows stayed with the made-up workers (``--records workers``)."""

    @property
    def whole(self) -> bool:
        """Whether each record is counted once, and in the folder once if it is to be there."""
        wanted = 0 if self.on_workers else self.sent
        return self.sent == self.tallied and wanted == self.kept == self.distinct


def replay(
    workers: int,
    records_per_s: float,
    seconds: int,
    keep: Path | None = None,
    on_workers: bool = False,
) -> Replayed:
    """Measure one run; its folder is left in ``keep``, when given.

    Raises:
        SystemExit: the master did not start, or did not end.
    """
    stage = Stage(STAGE.id, STAGE.kind, workers)
    each_per_s = records_per_s / workers
    fleet = [make_worker(n, each_per_s, seconds, stage, on_workers) for n in range(workers)]
    with contextlib.ExitStack() as stack:
        runs = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        more = ("--records", "workers") if on_workers else ()
        process = stack.enter_context(_master(workers, seconds, port, runs, more))
        sender = FleetSender(fleet, port)
        stack.callback(sender.close)
        return _measure(process, sender, fleet, records_per_s, seconds, runs, on_workers)


def _measure(
    process: "subprocess.Popen[bytes]",
    sender: FleetSender,
    fleet: Sequence[MadeUp],
    records_per_s: float,
    seconds: int,
    runs: Path,
    on_workers: bool,
) -> Replayed:
    master = psutil.Process(process.pid)
    _wait_until_listening(process, runs)
    sender.join()
    until_s = time.monotonic() + START_LIMIT_S
    while sender.began_s is None:
        sender.turn(TURN_S)
        _check(process, runs, time.monotonic() < until_s)
    before_mib = master.memory_info().rss / MIB
    from_s, cpu_from_s = time.monotonic(), _cpu_s(master)
    while sender.sent_s is None:
        sender.turn(TURN_S)
        _check(process, runs, time.monotonic() < from_s + seconds + START_LIMIT_S)
    rows, sent = _Rows(runs), sum(worker.records for worker in fleet)
    behind_s = rows.behind_s(sender, 0 if on_workers else sent)
    while time.monotonic() < sender.sent_s + 1:
        sender.turn(TURN_S)  # the last reports' own second
    cpu_cores = (_cpu_s(master) - cpu_from_s) / (time.monotonic() - from_s)
    after_mib = master.memory_info().rss / MIB
    ended_s, report_mib = _until_end(process, master, sender, runs)
    (folder,) = (path.parent for path in runs.glob("*/run.json"))
    kept, distinct, tallied = counts_in(folder)
    return Replayed(
        workers=len(fleet),
        records_per_s=records_per_s,
        seconds=seconds,
        cpu_cores=cpu_cores,
        behind_s=behind_s,
        before_mib=before_mib,
        after_mib=after_mib,
        end_s=ended_s,
        report_mib=report_mib,
        sent=sent,
        kept=kept,
        distinct=distinct,
        tallied=tallied,
        on_workers=on_workers,
    )


def counts_in(folder: Path) -> tuple[int, int, int]:
    """Records in a run's folder, how many of them are distinct, and how many are tallied."""
    rows = load_run(folder).records
    distinct = rows[["worker", "sequence"]].drop_duplicates()
    stages = json.loads((folder / STAGES_JSON).read_text(encoding="utf-8"))
    return len(rows), len(distinct), TallyBook.from_wire(stages["tallies"]).total().offered


@contextlib.contextmanager
def _master(
    workers: int, seconds: int, port: int, runs: Path, more: Sequence[str]
) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "locust", "--master", "--headless"]
    command += ["--master-bind-host", "127.0.0.1", "--master-bind-port", str(port)]
    command += ["--expect-workers", str(workers), "--shape", "constant", "--settle", "0s"]
    command += ["-u", str(workers), "-r", str(workers), "-t", str(seconds + MORE_RUN_TIME_S)]
    command += ["--host", "http://127.0.0.1:9", "--model", MODEL, "--runs-dir", str(runs)]
    command += more
    pin = (
        ["taskset", "-c", str(cores()[-1])] if len(cores()) > 1 and shutil.which("taskset") else []
    )
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("LOCUST_", "SWARMGAUGE_"))}
    with (runs / "master.log").open("wb") as log:
        process = subprocess.Popen(
            [*pin, *command],
            cwd=SUITE,
            env=ours,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _check(process: "subprocess.Popen[bytes]", runs: Path, in_time: bool) -> None:
    if process.poll() is None and in_time:
        return
    told = (runs / "master.log").read_text(encoding="utf-8", errors="replace")[-2000:]
    what = "was too slow" if process.poll() is None else "ended too early"
    raise SystemExit(f"the master {what}:\n{told}")


def _wait_until_listening(process: "subprocess.Popen[bytes]", runs: Path) -> None:
    until_s = time.monotonic() + START_LIMIT_S
    while b"Waiting for workers" not in (runs / "master.log").read_bytes():
        _check(process, runs, time.monotonic() < until_s)
        time.sleep(TURN_S)


class _Rows:
    """Counts the rows in the master's file as it grows."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._read, self._lines = 0, 0

    def behind_s(self, sender: FleetSender, wanted: int) -> float:
        """How long after the last report was sent all rows were there, to within a tenth.

        Rows that never come are given up; the counts of the folder tell of them.
        """
        began_s = sender.sent_s or time.monotonic()
        while time.monotonic() < began_s + END_LIMIT_S:
            now = self._now()
            if now is None or now >= wanted:
                break
            sender.turn(TURN_S)
        return time.monotonic() - began_s

    def _now(self) -> int | None:
        """None when the run is over and the rows are in their lasting form."""
        found = list(self._runs.glob(f"*/{REQUESTS_JSONL}"))
        if not found:
            return None
        with found[0].open("rb") as lines:
            lines.seek(self._read)
            new = lines.read()
        self._read += len(new)
        self._lines += new.count(b"\n")
        return self._lines - 1  # the header


def _until_end(
    process: "subprocess.Popen[bytes]", master: psutil.Process, sender: FleetSender, runs: Path
) -> tuple[float, float]:
    """How long the end took from the plan's last word on, and the most that its report held."""
    until_s, report_mib = time.monotonic() + END_LIMIT_S, 0.0
    while process.poll() is None:
        if sender.ended:
            time.sleep(TURN_S)
        else:
            sender.turn(TURN_S)
        with contextlib.suppress(psutil.Error):
            held = sum(child.memory_info().rss for child in master.children())
            report_mib = max(report_mib, held / MIB)
        _check_time(process, runs, until_s)
    finished_s = sender.finished_s or time.monotonic()
    return time.monotonic() - finished_s, report_mib


def _check_time(process: "subprocess.Popen[bytes]", runs: Path, until_s: float) -> None:
    if process.poll() is None:
        _check(process, runs, time.monotonic() < until_s)
