"""``python -m bench.report``: what the report of 10,000, 100,000 and 1,000,000 requests takes.

Made-up runs, written by the suite's own recorder and folder, are rendered by ``python -m reports``
in a process of its own: first from the lines that a run leaves, which become Parquet, then again
from Parquet. Then the page is opened in headless Chromium. Exits with 1 when a bar is missed.
"""

import argparse
import os
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.harness import cores, versions
from bench.pages import put_measured
from bench.report.made_up import make_run
from bench.report.measure import MB, Measured, first_paint_ms, measure_report
from metrics.run_files import REPORT_HTML

SIZES = (10_000, 50_000, 100_000, 1_000_000)
QUICK_SIZES = (10_000, 50_000)
MOST_S = {1_000_000: 60.0}
MOST_BYTES = {50_000: 300 * MB, 1_000_000: 1_500 * MB}
MOST_PAGE_BYTES = 3 * MB
MOST_PAINT_MS = 1_000.0
STEPS = ("imports", "reading", "keeping", "figures", "plots", "page")


def main() -> int:
    """Measure, print, and put the table into docs/performance.md when asked to."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 50,000 requests, a minute")
    parser.add_argument("--requests", type=int, action="append", help="this size, and no other")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/performance.md"
    )
    options = parser.parse_args()
    sizes = options.requests or (QUICK_SIZES if options.quick else SIZES)
    rows: list[Measured] = []
    with tempfile.TemporaryDirectory() as runs:
        for requests in sizes:
            print(f"== making a run of {requests:,} requests", flush=True)
            folder = make_run(Path(runs), requests)
            for source in ("lines", "Parquet"):
                rows.append(measure_report(folder, requests, source))
                print(table(rows[-1:]).splitlines()[-1], flush=True)
        paint_ms = first_paint_ms(folder / REPORT_HTML)
    missed = [*_missed(rows), *_missed_paint(paint_ms)]
    measured = f"{_conditions()}\n\n{table(rows)}\n\n{_of_the_page(rows, paint_ms)}"
    print(f"\n{measured}")
    print("\n".join(f"MISSED: {text}" for text in missed))
    if options.write:
        put_measured("performance.md", "python -m bench.report", measured)
    return 1 if missed else 0


def table(rows: Sequence[Measured]) -> str:
    """A line for each report; steps in CPU seconds."""
    head = ("requests", "rows in", "wall s", "CPU s", "peak MB", *STEPS)
    lines = [f"| {' | '.join(head)} |", f"|{' ---: |' * len(head)}"]
    for row in rows:
        steps = (f"{row.steps_s.get(name, 0.0):.1f}" for name in STEPS)
        figures = (f"{row.wall_s:.0f}", f"{row.cpu_s:.0f}", f"{row.peak_bytes / MB:,.0f}")
        cells = (f"{row.requests:,}", row.source, *figures, *steps)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _conditions() -> str:
    text = (
        f"One report each. {len(cores())} cores; python {versions()['python']}. Load average of "
        f"the host at the end: {os.getloadavg()[0]:.0f}; other work makes wall times longer, and "
        "CPU a little dearer. Columns from imports on are CPU seconds of each step."
    )
    return textwrap.fill(text, 100, break_on_hyphens=False)


def _of_the_page(rows: Sequence[Measured], paint_ms: float | None) -> str:
    last = rows[-1]
    painted = "not measured" if paint_ms is None else f"painted after {paint_ms:,.0f} ms"
    return (
        f"The page of {last.requests:,} requests has {last.page_bytes / MB:.1f} MB; its first "
        f"screen was {painted} in headless Chromium."
    )


def _missed(rows: Iterable[Measured]) -> Iterable[str]:
    for row in rows:
        name = f"{row.requests:,} requests from {row.source}"
        # Time that other work took is no fault of the report's.
        taken_s = min(row.wall_s, row.cpu_s)
        if taken_s > MOST_S.get(row.requests, float("inf")):
            yield f"{name}: {taken_s:.0f} s, the bar is {MOST_S[row.requests]:.0f} s"
        if row.peak_bytes > MOST_BYTES.get(row.requests, float("inf")):
            bar = MOST_BYTES[row.requests] / MB
            yield f"{name}: {row.peak_bytes / MB:,.0f} MB, the bar is {bar:,.0f} MB"
        if row.page_bytes > MOST_PAGE_BYTES:
            yield f"{name}: a page of {row.page_bytes / MB:.1f} MB"


def _missed_paint(paint_ms: float | None) -> Iterable[str]:
    if paint_ms is not None and paint_ms > MOST_PAINT_MS:
        yield f"the first screen after {paint_ms:,.0f} ms, the bar is {MOST_PAINT_MS:,.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
