"""``python -m bench.fleet``: what workers and their records cost the master.

A real master of the suite runs a constant load, headless; up to 64 made-up workers (and more, idle)
send it up to 10,000 records a second over Locust's own line. Exits with 1 when a record is missing
or the bar is missed.
"""

import argparse
import os
import textwrap
import time

from bench.fleet.cost import Cost, sentences, table
from bench.fleet.replay import Replayed, replay
from bench.harness import cores, versions
from bench.pages import put_measured

IDLE_WORKERS = (1, 16, 64, 256, 1_000)
WORKERS = 64
RATES = (640, 5_000, 10_000)
SECONDS = 8
QUICK_IDLE_WORKERS = (1, 16)
QUICK_WORKERS = 16
QUICK_RATES = (160, 4_000)
QUICK_SECONDS = 4


def main() -> int:
    """Measure, print, and put the tables into docs/performance.md when asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four short runs, under a minute")
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/performance.md"
    )
    parser.add_argument("--only", metavar="WORKERS,RECORDS/S", help="one run, and no lines")
    options = parser.parse_args()
    began_s = time.perf_counter()
    if options.only:
        workers, rate = options.only.split(",")
        print(table([replay(int(workers), float(rate), SECONDS)]))
        return 0
    idle = QUICK_IDLE_WORKERS if options.quick else IDLE_WORKERS
    workers, rates = (QUICK_WORKERS, QUICK_RATES) if options.quick else (WORKERS, RATES)
    seconds = QUICK_SECONDS if options.quick else SECONDS
    runs = [_told(n, 0, seconds) for n in idle]
    runs += [_told(workers, rate, seconds) for rate in rates]
    if not options.quick:
        runs.append(_told(workers, rates[-1], seconds, on_workers=True))
    cost = Cost.of(runs)
    measured = f"{_conditions(seconds)}\n\n{table(runs)}\n\n{sentences(cost)}"
    print(f"\n{measured}\n\n== {time.perf_counter() - began_s:.0f} s in all")
    if options.write:
        put_measured("performance.md", "python -m bench.fleet", measured)
    return 0 if cost.meets_bar and all(run.whole for run in runs) else 1


def _told(workers: int, records_per_s: float, seconds: int, on_workers: bool = False) -> Replayed:
    run = replay(workers, records_per_s, seconds, on_workers=on_workers)
    print(table([run]).splitlines()[-1], flush=True)
    return run


def _conditions(seconds: int) -> str:
    known = versions()
    text = (
        f"One run of {seconds} s each. {len(cores())} cores, the master on the last, the made-up "
        f"fleet on the other; python {known['python']}, locust {known['locust']}, gevent "
        f"{known['gevent']}. Load average of the host at the end: {os.getloadavg()[0]:.0f}; other "
        "work makes the ends longer, and CPU a little dearer."
    )
    return textwrap.fill(text, 100, break_on_hyphens=False)


if __name__ == "__main__":
    raise SystemExit(main())
