"""``python -m bench.limits``: limits found from outside, on limiters whose figure is known.

Everything runs in simulated time; nothing is sent or waited for.
"""

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor

from bench.limits.kinds import all_kinds
from bench.limits.others import OTHERS
from bench.limits.table import Said, bars, judged, kinds_table, others_table
from bench.pages import put_measured
from metrics.limits import limits_found
from metrics.limits_result import LimiterKind

FIRST_SEED = 9_000
"""Seeds that no rule was tried on."""


def main() -> None:
    """Run every kind and print the tables; put them into the page when asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__)
    parser.add_argument("--seeds", type=int, default=30, help="runs of each kind (30)")
    parser.add_argument("--quick", action="store_true", help="3 runs of each kind")
    parser.add_argument(
        "--write", action="store_true", help="put the tables into docs/limits-accuracy.md"
    )
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least 1")
    seeds = 3 if options.quick else options.seeds
    began_s = time.perf_counter()
    kinds, rows, others = all_kinds(), [], []
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        for kind, said in zip(
            kinds, pool.map(_row, range(len(kinds)), [seeds] * len(kinds)), strict=True
        ):
            rows.append((kind, said))
            _show(f"{kind.name}, {kind.loop}", said)
        found = pool.map(_other, range(len(OTHERS)), [seeds] * len(OTHERS))
        others = list(zip(OTHERS, found, strict=True))
    text = f"{kinds_table(rows)}\n\n{bars(rows)}\n\n{others_table(others)}"
    print(f"\n{text}\n\n== {time.perf_counter() - began_s:.0f} s in all")
    if options.write:
        put_measured("limits-accuracy.md", "python -m bench.limits", text)


def _row(number: int, seeds: int) -> list[Said]:
    kind = all_kinds()[number]
    said = []
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        world = kind.world(seed)
        said.append(judged(world, world.attempts(seed), seed))
    return said


def _other(number: int, seeds: int) -> list[LimiterKind]:
    other = OTHERS[number]
    return [
        limits_found(other.attempts(seed))[0].kind for seed in range(FIRST_SEED, FIRST_SEED + seeds)
    ]


def _show(name: str, said: list[Said]) -> None:
    print(f"{name}: {sum(one.right for one in said)} of {len(said)} right", flush=True)
    for one in said:
        if not one.right:
            print(f"  seed {one.seed}: {one.evidence}", flush=True)


if __name__ == "__main__":
    main()
