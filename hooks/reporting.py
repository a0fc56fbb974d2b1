"""Makes a report in a process of its own, so that neither plots nor data weigh on this one."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

import gevent
from gevent import subprocess

SUITE = Path(__file__).resolve().parent.parent

log = logging.getLogger("swarmgauge")


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What ``python -m reports`` printed, and its exit code (``docs/metrics.md``)."""

    text: str
    exit_code: int


def make_report(run: Path) -> ReportResult:
    """Render everything of a finished run; its progress and its errors are seen at once."""
    command = [sys.executable, "-m", "reports", str(run.resolve())]
    done = subprocess.run(command, cwd=SUITE, stdout=subprocess.PIPE, check=False)
    return ReportResult(done.stdout.decode("utf-8", "replace").rstrip(), done.returncode)


class Reporter:
    """Has the reports of this process's runs made.

    ``text`` is what is printed as the process ends, ``exit_code`` what it ends with; None when no
    report decides that.
    """

    def __init__(self) -> None:
        self.text = ""
        self.exit_code: int | None = None
        self._making: gevent.Greenlet | None = None

    def clear(self) -> None:
        """A new run begins."""
        self.text, self.exit_code = "", None

    def report(self, run: Path) -> None:
        """Report and wait for it."""
        log.info("writing the report")
        # In a greenlet of its own: when the last worker is lost, Locust ends the one that asks.
        self._making = gevent.spawn(self._keep, run)
        self._making.join()

    def report_later(self, run: Path) -> None:
        """Report while the page goes on; the text goes to the terminal."""
        self._making = gevent.spawn(self._tell, run)

    def join(self) -> None:
        """Wait for the report that is being made."""
        if self._making is not None:
            self._making.join()

    def _keep(self, run: Path) -> None:
        result = make_report(run)
        self.text, self.exit_code = result.text, result.exit_code

    @staticmethod
    def _tell(run: Path) -> None:
        result = make_report(run)
        log.info("report: %s", run / "report.html")
        print(result.text, file=sys.stderr, flush=True)
