"""``python -m bench``: the whole client benchmark, printed and written to docs/performance.md."""

import argparse
import textwrap
import time

from bench.clients import all_cases, case_table, run_case
from bench.figures import Spread
from bench.harness import Patience, check_host, cores, paced_server, versions
from bench.pages import put_measured


def main() -> None:
    """Run every case and replace the page's measured part."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repeat, under a minute")
    parser.add_argument("--no-write", action="store_true", help="leave docs/performance.md alone")
    options = parser.parse_args()
    check_host()
    began_s = time.perf_counter()
    tables, busy = [], []
    patience = Patience(5.0 if options.quick else 35.0)
    with paced_server() as url:
        for case in all_cases(options.quick):
            found = run_case(case, url, patience, lambda line: print(line, flush=True))
            tables.append(case_table(case, found))
            busy += [record["host_busy_cores"] for records in found.values() for record in records]
    measured = "\n\n".join([_conditions(options.quick, busy), *tables])
    print(f"\n{measured}\n\n== {time.perf_counter() - began_s:.0f} s in all")
    if not options.no_write:
        put_measured("performance.md", "python -m bench", measured)


def _conditions(quick: bool, busy: list[float]) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in versions().items())
    spread = Spread.of(busy)
    text = (
        f"{'Quick run, one repeat.' if quick else 'Three repeats.'} {len(cores())} cores, "
        f"{packages}. All work on the host, measured client and server included, kept "
        f"{spread.text(2) if spread else '-'} cores busy."
    )
    return textwrap.fill(text, 100, break_on_hyphens=False)


if __name__ == "__main__":
    main()
