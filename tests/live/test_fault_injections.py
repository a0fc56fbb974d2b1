"""Faults at random times, as ``make fault-injections`` has them, only fewer."""

import re
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

pytestmark = [pytest.mark.live, pytest.mark.patient]


@pytest.mark.timeout(400)
def test_L03_L05_O03_a_dozen_faults_break_no_promise():
    """Two runs of three workers, in them every kind of fault, twelve in all: every request of the
    server's log is in one spool and once in the merged report, but for what a kill may lose; no run
    hangs, exit codes tell the truth, and stages that lost a worker are void."""
    command = [sys.executable, "-m", "bench.faults", "--injections", "12", "--seed", "912"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr
    assert re.search(r"\| injections \| 12 \|", done.stdout), done.stdout
    assert re.search(r"\| broken promises \| 0 \|", done.stdout), done.stdout
    asked = int(re.search(r"the server saw \| ([\d,]+) \|", done.stdout)[1].replace(",", ""))
    assert asked > 100
