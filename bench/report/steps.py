"""``python -m bench.report.steps RUN``: ``python -m reports RUN --quiet``, and what each step took.

Prints a line of JSON for each step and for the whole: its name, wall and CPU seconds, and the peak
of resident memory so far in bytes.
"""

import json
import resource
import sys
import time
from typing import TextIO

import reports.render
from bench.process_memory import status_bytes
from reports.__main__ import main as reports_main
from reports.faces.progress import Progress

WHOLE = "whole"


class Noted(Progress):
    """Progress that also notes when each step began."""

    def __init__(self, err: TextIO, steps: int, quiet: bool = False) -> None:
        super().__init__(err, steps, quiet)
        note("imports")

    def step(self, what: str, long: bool = False) -> None:
        """The next step begins."""
        super().step(what, long)
        note(what)


def note(what: str) -> None:
    """Tell what begins, or is over, now."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    values = [what, time.perf_counter(), usage.ru_utime + usage.ru_stime, status_bytes("VmHWM")]
    print(json.dumps(values), flush=True)


def main() -> int:
    """Run the command; its exit code."""
    setattr(reports.render, Progress.__name__, Noted)
    code = reports_main([sys.argv[1], "--quiet"])
    note(WHOLE)
    return code


if __name__ == "__main__":
    sys.exit(main())
