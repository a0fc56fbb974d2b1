"""Measures the report of one run, in a process of its own, and its page in a browser."""

import itertools
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.harness import SUITE
from bench.report.steps import WHOLE
from metrics.run_files import REPORT_HTML

MB = 1e6
WIDTH, HEIGHT = 1280, 900
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAINTED = """() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime"""
WAIT_MS = 30_000
GROUPS = {"reading the rows": "reading", "rows": "keeping", "figures": "figures", "page": "page"}
"""Steps of the report as columns; plots are one."""
LONGEST_S = 1_800.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One report: seconds of wall and CPU time, peak memory in bytes, CPU seconds by step."""

    requests: int
    source: str
    wall_s: float
    cpu_s: float
    peak_bytes: float
    steps_s: dict[str, float]
    page_bytes: int


def measure_report(folder: Path, requests: int, source: str) -> Measured:
    """Render a run anew and look at the process that does it.

    Raises:
        SystemExit: the report was not made.
    """
    began_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench.report.steps", str(folder)],
        cwd=SUITE,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    wall_s = time.perf_counter() - began_s
    notes = [json.loads(line) for line in done.stdout.splitlines()]
    page = folder / REPORT_HTML
    if not notes or notes[-1][0] != WHOLE or not page.exists():
        raise SystemExit(f"no report of {folder}:\n{done.stderr[-2000:]}")
    steps_s: dict[str, float] = {"imports": notes[0][2]}
    for (what, _, begin_s, _), (_, _, end_s, _) in itertools.pairwise(notes):
        if what != notes[0][0]:
            name = "plots" if what.startswith("plot ") else GROUPS.get(what, what)
            steps_s[name] = steps_s.get(name, 0.0) + end_s - begin_s
    _, _, cpu_s, peak_bytes = notes[-1]
    size = page.stat().st_size
    return Measured(requests, source, wall_s, cpu_s, peak_bytes, steps_s, size)


def first_paint_ms(page_file: Path) -> float | None:
    """From asking for the page until its first screen is painted, in milliseconds.

    None when there is no Chromium, or when it did not tell.
    """
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.goto("about:blank")
            page.goto(page_file.resolve().as_uri(), wait_until="commit")
            page.wait_for_function(PAINTED, timeout=WAIT_MS)
            painted = page.evaluate(PAINTED)
        finally:
            browser.close()
    return None if painted is None else float(painted)
