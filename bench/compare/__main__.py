"""``python -m bench.compare``: comparisons whose answer is known, into docs/comparing.md.

Everything runs in simulated time on the simulator's pure model; nothing is sent or waited for.
"""

import argparse
import os
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median

from bench.compare.kinds import Kind, all_kinds, slower
from bench.compare.units import AR_MEMORY, series_once, server_once
from bench.compare.world import plain_side, simulated_run
from bench.pages import put_measured
from metrics.compare import Verdict
from reports.comparison.model import Pair
from reports.comparison.pairs import compare
from reports.comparison.sides import Side
from simulator.profile import Profile

FIRST_SEED = 40_000
"""Seeds that no rule was tried on."""
SLOWER = 1.10
_SHOWN = (Verdict.WORSE, Verdict.BETTER, Verdict.DIFFERENT)
_SLOWER_BY = ("TPOT", "tokens/s")


@dataclass(frozen=True, slots=True)
class Tried:
    """One base against an equal run and against a slower one.

    ``shown`` are the figures that the equal run wrongly differed in. ``found`` says whether the
    slower one was named so, by its TPOT or tokens/s. ``resolution`` is the smallest change of TPOT
    p50 that could have been shown.
    """

    shown: tuple[str, ...]
    found: bool
    resolution: float | None


def try_once(kind: Kind, seed: int) -> Tried:
    """Three runs of one kind with seeds of their own, the base against each of the others."""
    base = _side("A", kind, kind.profile, 10 * seed)
    equal = _pair(base, _side("B", kind, kind.profile, 10 * seed + 1))
    slow = _pair(base, _side("B", kind, slower(kind.profile, SLOWER), 10 * seed + 2))
    sharp = [
        row.interval.resolution
        for row in equal.rows
        if row.interval is not None and row.metric.name == "tpot_p50_s"
    ]
    shown = tuple(
        f"{row.metric.label} at {row.load}" for row in equal.rows if row.verdict in _SHOWN
    )
    return Tried(shown, _named_slower(slow), min(sharp, default=None))


def _side(label: str, kind: Kind, profile: Profile, seed: int) -> Side:
    run = simulated_run(profile, kind.workload, seed, kind.users, kind.hold_s)
    return plain_side(label, run)


def _pair(a: Side, b: Side) -> Pair:
    # 429s above a limit void a level for the knee, not for a comparison of 429s.
    pair = compare((a, b), force=True).pairs[0]
    assert pair.rows, pair.sentences
    return pair


def _named_slower(pair: Pair) -> bool:
    return any(
        row.verdict is Verdict.WORSE and row.metric.family in _SLOWER_BY for row in pair.rows
    )


def main() -> None:
    """Try every kind and print the table; put it into the page when asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("--repeats", type=int, default=100, help="comparisons of each kind (100)")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--only", default="", help="kinds whose name holds this text")
    parser.add_argument(
        "--units", action="store_true", help="only: blocks of time against single requests"
    )
    parser.add_argument("--write", action="store_true", help="put it into docs/comparing.md")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error(f"--repeats {options.repeats}: at least 1")
    seeds = range(options.first_seed, options.first_seed + options.repeats)
    command = "python -m bench.compare" + (" --units" if options.units else "")
    began_s = time.perf_counter()
    with ProcessPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        text = _units(pool, seeds) if options.units else _all(pool, seeds, options.only)
    print(f"\n{text}\n\n== {time.perf_counter() - began_s:.0f} s in all")
    if options.write:
        put_measured("comparing.md", command, text)


def _all(pool: Executor, seeds: Sequence[int], only: str) -> str:
    lines = [_HEAD, "|---|---|---|---|"]
    for kind in all_kinds():
        if only not in kind.name:
            continue
        tried = list(pool.map(try_once, [kind] * len(seeds), seeds))
        lines.append(_line(kind, tried))
        print(lines[-1], dict(_wrong(tried)), flush=True)
    return "\n".join(lines)


def _units(pool: Executor, seeds: Sequence[int]) -> str:
    """How often intervals of one figure alone hold, by what is drawn."""
    lines = [
        "| two equal | p50, blocks drawn | p95, blocks drawn | p50, requests drawn "
        "| p95, requests drawn |",
        "|---|---|---|---|---|",
    ]
    n = len(seeds)
    for memory in AR_MEMORY:
        found = list(pool.map(series_once, [memory] * n, seeds))
        lines.append(_held(f"series, {memory:g} from one value to the next", found))
        print(lines[-1], flush=True)
    for kind in all_kinds()[:1]:
        found = list(pool.map(server_once, [kind] * n, seeds))
        lines.append(_held(f"{kind.name}, TTFT at {max(kind.users)} users", found))
        print(lines[-1], flush=True)
    return "\n".join(lines)


def _held(name: str, found: Sequence[Sequence[bool]]) -> str:
    counts = (f"{sum(column)}/{len(found)}" for column in zip(*found, strict=True))
    return f"| {name} | {' | '.join(counts)} |"


_HEAD = (
    "| server and load | equal: no difference shown | decode 10 % slower: found "
    "| TPOT p50: smallest change that could be shown |"
)


def _line(kind: Kind, tried: Sequence[Tried]) -> str:
    n = len(tried)
    equal = sum(not each.shown for each in tried)
    found = sum(each.found for each in tried)
    sharp = [each.resolution for each in tried if each.resolution is not None]
    size = f"{100 * median(sharp):.1f} %" if sharp else "n/a"
    mark = "" if kind.fair else " †"
    cells = [kind.name + mark, f"{equal}/{n}", f"{found}/{n}", size]
    return f"| {' | '.join(cells)} |"


def _wrong(tried: Sequence[Tried]) -> list[tuple[str, int]]:
    """Which figures were wrongly shown to differ, the frequent ones first."""
    return Counter(name for each in tried for name in each.shown).most_common(6)


if __name__ == "__main__":
    main()
