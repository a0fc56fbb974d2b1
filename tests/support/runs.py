"""Runs of Locust as users start them: processes of their own, ended by their id."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas

from metrics.run_files import read_rows
from reports.load import load_run
from tests.support.processes import ROOT, end, free_port, wait_until

PREFLIGHT = "-preflight"


@dataclass(frozen=True)
class Finished:
    """A run that ended: its folder (None when it was refused), exit code, output and duration."""

    folder: Path | None
    exit_code: int
    output: str
    seconds: float

    @property
    def summary(self):
        """``summary.json``."""
        return json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))

    @property
    def sound(self):
        """Exit code 0; or 4, when all that is said is that this machine was busy with others."""
        verdicts = self.summary["verdicts"]
        busy = all("client-limited" in verdict["text"] for verdict in verdicts)
        return self.exit_code == 0 or (self.exit_code == 4 and busy)

    @property
    def run(self):
        """``run.json``."""
        return json.loads((self.folder / "run.json").read_text(encoding="utf-8"))


def start_locust(*arguments, log, env=None, inside=()):
    """A Locust process in the suite's folder; its output goes to ``log``.

    ``inside`` is a command that starts commands, such as in another network.
    """
    return subprocess.Popen(
        [*inside, sys.executable, "-m", "locust", *map(str, arguments)],
        cwd=ROOT,
        stdout=log.open("ab"),
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env={**_environment(), **(env or {})},
        preexec_fn=_listen_to_interrupts,
    )


def _listen_to_interrupts():
    """A shell starts what runs in its background deaf to SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _environment():
    """This process's, without what only tests set: a real run patches the standard library."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("LOCUST_", "SWARMGAUGE_"))}


def run_headless(
    runs_dir,
    *arguments,
    workers=0,
    limit_s=120,
    interrupt_after_s=None,
    interrupt=signal.SIGINT,
    kill_worker_when=None,
    env=None,
):
    """A headless run to its end, on one process or on a master and workers."""
    runs_dir.mkdir(parents=True, exist_ok=True)
    log = runs_dir / "locust.log"
    common = ("--headless", "--runs-dir", runs_dir, *arguments)
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        if workers:
            port = ("--master-port", free_port())
            for number in range(workers):
                worker_log = runs_dir / f"worker-{number}.log"
                worker = start_locust("--worker", *port, log=worker_log, env=env)
                stack.callback(end, worker)
            ports = ("--master-bind-port", port[1], "--expect-workers", workers)
            main = start_locust("--master", *ports, *common, log=log)
        else:
            main = start_locust(*common, log=log, env=env)
        stack.callback(end, main)
        if kill_worker_when is not None:
            told = partial(_tells, log, kill_worker_when)
            wait_until(told, limit_s, kill_worker_when)
            worker.kill()
        if interrupt_after_s is not None:
            time.sleep(interrupt_after_s)
            main.send_signal(interrupt)
        exit_code = main.wait(limit_s)
    seconds = time.monotonic() - began_s
    folders = sorted(path.parent for path in runs_dir.glob("*/run.json"))
    output = log.read_text(encoding="utf-8", errors="replace")
    return Finished(folders[-1] if folders else None, exit_code, output, seconds)


def _tells(log, words):
    return words in log.read_text(encoding="utf-8", errors="replace")


def server_log(path):
    """The simulator's own account: one entry per request, the preflight's left out."""
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [entry for entry in entries if not (entry["request_id"] or "").endswith(PREFLIGHT)]


def spooled(folder):
    """Every record in the workers' spools of a run."""
    records = []
    for path in sorted((folder / "spool").glob("*.jsonl")):
        with path.open("rb") as lines:
            records.extend(read_rows(lines, path.name))
    return records


def records_of(run):
    """The rows of ``requests.parquet``, and only after a run that wrote them."""
    assert run.folder is not None, run.output[-3000:]
    return pandas.read_parquet(run.folder / "requests.parquet")


def whole_records(folder):
    """A finished run's records as the report reads them, with the fields that it leaves on disk."""
    read, kept = load_run(folder).records, pandas.read_parquet(folder / "requests.parquet")
    assert (read.worker.astype(str).to_numpy() == kept.worker.to_numpy()).all()
    assert (read.sequence.to_numpy() == kept.sequence.to_numpy()).all()
    left = kept[[name for name in kept if name not in read]]
    return read.join(left.set_index(read.index))
