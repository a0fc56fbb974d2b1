"""Makes a report in a process of its own, so that neither plots nor data weigh on this one."""

import sys
from dataclasses import dataclass
from pathlib import Path

from gevent import subprocess

SUITE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What ``python -m reports`` printed, and its exit code (``docs/metrics.md``)."""

    text: str
    exit_code: int


def make_report(run: Path) -> ReportResult:
    """Render everything of a finished run."""
    command = [sys.executable, "-m", "reports", str(run.resolve())]
    done = subprocess.run(
        command, cwd=SUITE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return ReportResult(done.stdout.decode("utf-8", "replace").rstrip(), done.returncode)
