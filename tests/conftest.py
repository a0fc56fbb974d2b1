"""Fixtures that several folders of tests use."""

import json
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.processes import python_process

# Locust patches the standard library when it is imported, under pytest's own threads; the runs that
# need it are processes of their own.
os.environ.setdefault("LOCUST_SKIP_MONKEY_PATCH", "1")

# How long an example takes says more of what else the machine does than of the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


class CaseServer:
    """The scripted server of the cases, and what it was asked."""

    def __init__(self, url, log):
        self.url = url
        self._log = log

    def host(self, case):
        """What a user would write as ``--host`` for a case."""
        return f"{self.url}/{case}/v1"

    def asked(self, case):
        """The chat requests that a case has got so far."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["case"] == case and line["method"] == "POST"]


@pytest.fixture
def case_server(tmp_path):
    """A fresh scripted server: cases whose answers differ from request to request start anew."""
    log = tmp_path / "cases.jsonl"
    ready = "case server ready on "
    arguments = ("--port", "0", "--log", str(log))
    with python_process("tests.support.case_server", *arguments, ready=ready) as (url, _):
        yield CaseServer(url, log)
