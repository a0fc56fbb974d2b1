"""``python -m bench.knee``: the search on servers whose knee is known, into docs/knee.md.

Everything runs in simulated time on the simulator's pure model; nothing is sent or waited for.
"""

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor

from bench.knee.kinds import all_kinds
from bench.knee.table import Row, bars, table
from bench.knee.world import search, true_knee
from bench.pages import put_measured
from metrics.knee_search import SearchSettings

FIRST_SEED = 12_000
"""Seeds that no rule was tried on."""


def main() -> None:
    """Run every kind and print the table; put it into the page when asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.knee", description=__doc__)
    parser.add_argument("--seeds", type=int, default=30, help="searches of each kind (30)")
    parser.add_argument("--quick", action="store_true", help="5 searches of each kind")
    parser.add_argument("--write", action="store_true", help="put the table into docs/knee.md")
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least 1")
    seeds = 5 if options.quick else options.seeds
    began_s = time.perf_counter()
    rows = []
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for row in pool.map(_row, range(len(all_kinds())), [seeds] * len(all_kinds())):
            print(f"{row.kind.name}: {row.verdict_counts()}", flush=True)
            rows.append(row)
    text = f"{table(rows)}\n\n{bars(rows, seeds)}"
    print(f"\n{text}\n\n== {time.perf_counter() - began_s:.0f} s in all")
    if options.write:
        put_measured("knee.md", "python -m bench.knee", text)


def _row(number: int, seeds: int) -> Row:
    kind = all_kinds()[number]
    found = tuple(search(kind, FIRST_SEED + n, SearchSettings()) for n in range(seeds))
    return Row(kind, true_knee(kind), found)


if __name__ == "__main__":
    main()
