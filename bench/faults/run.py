"""One run with its faults, from the first process to the last, and what it left behind."""

import heapq
import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.faults.evidence import (
    Deed,
    Evidence,
    WorkerEnd,
    read_ids,
    read_json,
    read_server_log,
    read_spools,
)
from bench.faults.plan import CUTS, PAUSES, Injection, Kind
from bench.faults.processes import Broken, Fleet, Worker
from bench.harness import SUITE

MASTER_ENDS_WITHIN_S = 400.0
"""After the last fault: what is left of the ladder, ramps that nobody can follow, the drain, the
last reports, and the report, on a busy machine."""
WORKERS_LEAVE_WITHIN_S = 90.0
_TURN_S = 0.02
_LOOK_S = 0.25


def run_with_faults(seed: int, faults: tuple[Injection, ...], home: Path) -> Evidence:
    """Do it in an empty folder.

    Raises:
        Broken: it did not come as far as its first fault.
    """
    began_s = time.monotonic()
    with Fleet(home, seed) as fleet:
        fleet.wait_for_the_window()
        conductor = _Conductor(fleet)
        conductor.conduct(faults)
        hung = not fleet.master.leaves(time.monotonic() + MASTER_ENDS_WITHIN_S)
        code, killed, output = fleet.master.process.poll(), fleet.master.killed, fleet.master.output
        workers = _see_workers_off(fleet, conductor.master_gone_s)
        fleet.master.kill()
    folder = fleet.folder()
    if folder is None:
        raise Broken(f"the run has no folder: {output[-2000:]}")
    before, run, summary = (
        read_ids(folder),
        read_json(folder / "run.json"),
        read_json(folder / "summary.json"),
    )
    spools = [str(path) for worker in fleet.workers for path in worker.spools()]
    merged = subprocess.run(
        [sys.executable, "-m", "reports", "merge", str(folder), *spools],
        cwd=SUITE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Evidence(
        seed=seed,
        deeds=tuple(conductor.deeds),
        asked=read_server_log(fleet.server_log),
        workers=workers,
        master_code=code,
        master_killed=killed,
        master_hung=hung,
        master_output=output,
        ids_before=before,
        ids_merged=read_ids(folder),
        merge_code=merged.returncode,
        merge_output=merged.stdout,
        run=run,
        summary=summary,
        merged=read_json(folder / "summary.json"),
        seconds=time.monotonic() - began_s,
    )


class _Conductor:
    """Does each fault when its time has come, and takes back what is to be taken back."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.deeds: list[Deed] = []
        self._looked_s = 0.0
        self.master_gone_s: float | None = None

    def conduct(self, faults: tuple[Injection, ...]) -> None:
        """Until all are done, or the master has ended; nobody is left paused."""
        began_s = time.monotonic()
        for fault in faults:
            self._at(began_s + fault.at_s, partial(self._do, fault))
        while self._due and (self._fleet.master.runs or self.master_gone_s is not None):
            at_s, _, act = self._due[0]
            if time.monotonic() >= at_s:
                heapq.heappop(self._due)
                act()
            else:
                self._look()
                time.sleep(_TURN_S)
        for worker in self._fleet.workers:
            worker.wake()

    def _look(self) -> None:
        if time.monotonic() - self._looked_s < _LOOK_S:
            return
        self._looked_s = time.monotonic()
        for worker in self._fleet.workers:
            if worker.runs:
                worker.look()

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), act))

    def _do(self, fault: Injection) -> None:
        if not self._fleet.master.runs:
            return
        kind, now_s = fault.kind, time.monotonic()
        stage, phase = self._fleet.phase()
        if kind is Kind.JOIN:
            name: str | None = self._fleet.add_worker().name
        elif kind is Kind.KILL_MASTER:
            self._fleet.master.kill()
            self.master_gone_s, name = now_s, None
        else:
            there = [worker for worker in self._fleet.workers if worker.runs]
            if not there:
                return
            worker = there[int(fault.pick * len(there))]
            self._do_to(worker, fault)
            name = worker.name
        self.deeds.append(Deed(fault, name, now_s, stage, phase))

    def _do_to(self, worker: Worker, fault: Injection) -> None:
        if fault.kind is Kind.KILL:
            worker.kill()
        elif fault.kind is Kind.TERMINATE:
            worker.tell(signal.SIGTERM)
        elif fault.kind in PAUSES:
            worker.pause()
        elif fault.kind in CUTS:
            worker.cut()
        if fault.lasts_s is not None:
            undo = worker.wake if fault.kind in PAUSES else worker.mend
            self._at(time.monotonic() + fault.lasts_s, undo)


def _see_workers_off(fleet: Fleet, master_gone_s: float | None) -> tuple[WorkerEnd, ...]:
    until_s = time.monotonic() + WORKERS_LEAVE_WITHIN_S
    found = []
    for worker in fleet.workers:
        # Locust says this once it has a master. One that came too late looks for minutes for one.
        met = "Starting Locust" in worker.output
        left = worker.leaves(until_s) if met else not worker.runs
        code = worker.process.poll()
        killed, stopped_s = worker.killed, worker.stopped_s
        worker.kill()
        alone_s = [one for one in (master_gone_s, worker.cut_s) if one is not None]
        found.append(
            WorkerEnd(
                name=worker.name,
                code=code,
                output=worker.output,
                met_the_master=met,
                killed=killed,
                stopped_s=stopped_s,
                woken_s=worker.woken_s,
                waits=tuple(worker.waits),
                alone_s=max(min(alone_s), worker.woken_s) if alone_s else None,
                left_by_itself=left,
                ids=tuple(path.stem for path in worker.spools()),
                spooled=read_spools(worker.spools()),
            )
        )
    return tuple(found)
