"""``python -m bench.faults``: faults at random times in runs of a small fleet, held against the
simulator's log.

Each run is a ladder of streaming users on three workers. Workers are killed, paused, cut off from
their master and started, and the master is killed, at times that follow from the run's seed. After
each run every request of the server's log must be in exactly one worker's spool and once in the
merged report, but for what a kill -9 may lose. The exit code is 1 when a promise was broken.
"""

import argparse
import shutil
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.faults.check import check
from bench.faults.plan import MOST, Injection, plan_faults
from bench.faults.processes import Broken
from bench.faults.run import run_with_faults
from bench.faults.table import Run, one_line, table
from bench.pages import put_measured

_ATTEMPTS = 3
"""On a busy machine all workers can be late before a run has begun: it is then done again."""


class Series:
    """Runs with seeds that follow each other, until so many faults were injected."""

    def __init__(self, injections: int, seed: int, folder: Path) -> None:
        self._wanted, self._folder = injections, folder
        self._seed = seed
        self._planned = 0
        self._lock = threading.Lock()
        self.runs: list[Run] = []
        self.broken = 0

    def stop(self) -> None:
        """Start no further run."""
        with self._lock:
            self._wanted = 0

    def work(self) -> None:
        """Run after run; several threads may."""
        while True:
            with self._lock:
                left = self._wanted - self._planned
                if left <= 0:
                    return
                seed, self._seed = self._seed, self._seed + 1
                faults = plan_faults(seed, min(MOST, left))
                self._planned += len(faults)
            done = self._one(seed, faults)
            with self._lock:
                self._planned -= len(faults) - done

    def _one(self, seed: int, faults: tuple[Injection, ...]) -> int:
        for attempt in range(_ATTEMPTS):
            home = self._folder / f"{seed}-{attempt}"
            home.mkdir(parents=True)
            try:
                seen = run_with_faults(seed, faults, home)
                break
            except Broken as error:
                with self._lock:
                    print(f"seed {seed}: did not begin, {error} (kept: {home})", flush=True)
        else:
            with self._lock:
                self.broken += 1
            return len(faults)
        verdict = check(seen)
        with self._lock:
            self.runs.append((seen, verdict))
            print(one_line(seen, verdict), flush=True)
            for breach in verdict.breaches[:10]:
                print(f"  seed {seed}: {breach} (kept: {home})", flush=True)
        if not verdict.breaches:
            shutil.rmtree(home)
        return len(seen.deeds)


def main() -> int:
    """Inject, print the table, and put it into the page when asked to."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--injections", type=int, default=200, help="faults in all (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the first run (1)")
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at once (2)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/faults.md")
    options = parser.parse_args()
    if options.injections < 1 or options.side_by_side < 1:
        parser.error("--injections and --side-by-side: at least 1")
    folder = Path(tempfile.mkdtemp(prefix="swarmgauge-faults-"))
    series = Series(options.injections, options.seed, folder)
    with ThreadPoolExecutor(options.side_by_side) as pool:
        working = [pool.submit(series.work) for _ in range(options.side_by_side)]
        try:
            for one in working:
                one.result()
        except KeyboardInterrupt:
            print("no further run is started; those under way are finished", flush=True)
            series.stop()
    text = table(series.runs)
    print(f"\n{text}")
    if options.write:
        put_measured("faults.md", "python -m bench.faults", text)
    if series.broken or any(verdict.breaches for _, verdict in series.runs):
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
