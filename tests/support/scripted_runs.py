"""The case server for whole runs: what an attempt gets follows from its own ``X-Request-Id``.

    python -m tests.support.scripted_runs --port 0 --log requests.jsonl

So a test knows the fate of every logical request beforehand, whatever the order of arrival.
"""

import contextlib
import json

from metrics.outcome import Outcome
from tests.support import case_server
from tests.support.case_failures import FAILURES, limited
from tests.support.case_notation import C, R, at, stream
from tests.support.case_scripts import CASES
from tests.support.case_streams import GOOD
from tests.support.processes import python_process
from tests.support.runs import PREFLIGHT

PERIOD = 20
"""The fates of the mix repeat after so many logical requests of a worker."""
FATES = {
    0: ("endless", 1, Outcome.CANCELLED),
    2: ("E01", 1, Outcome.STREAM_ERROR),
    3: ("E05", 1, Outcome.INTERRUPTED),
    5: ("twice", 3, Outcome.OK),
    7: ("always", 4, Outcome.RATE_LIMITED),
    9: ("twice", 3, Outcome.OK),
    13: ("E01", 1, Outcome.STREAM_ERROR),
}
"""By place in the period: the script, its attempts with three retries, and the end; else good."""
WAITS_S = (0.3, 0.75, 1.1)
"""What the refused attempts of ``waits`` are told, by turns."""
LONG_WAIT_S = 20

_ENDLESS = stream(R, *(at(100 * n, C("x")) for n in range(1, 600)))
_SOON = limited(("Retry-After", "0.05"))


def fate(sequence):
    """(script, attempts, outcome) of a logical request of the mix, were it asked to its end."""
    return FATES.get(sequence % PERIOD, ("good", 1, Outcome.OK))


def place(request_id):
    """(worker's count of logical requests, number of the attempt from 0) of an id of ours."""
    logical, _, attempt = request_id.partition(".")
    return int(logical.rpartition("-")[2]), int(attempt or 0)


def logical_id(request_id):
    """The id that all attempts of a logical request have in common."""
    return request_id.partition(".")[0]


def refusals_of(sequence):
    """How many attempts of a logical request ``waits`` refuses: 0 to 3."""
    return sequence % 4


def asked_wait_s(sequence, attempt):
    """The wait that a refused attempt of ``waits`` is told."""
    return WAITS_S[(sequence + attempt) % len(WAITS_S)]


def _unless_preflight(choose):
    """The trial request passes, so that the run begins."""

    def script(ask):
        request_id = ask.headers["x-request-id"]
        return GOOD if request_id.endswith(PREFLIGHT) else choose(*place(request_id))

    return script


def _mix(sequence, attempt):
    name = fate(sequence)[0]
    refused = {"twice": 2, "always": 99}.get(name, 0)
    if attempt < refused:
        return _SOON
    scripts = {
        "endless": _ENDLESS,
        "E01": FAILURES["E01_error"],
        "E05": FAILURES["E05_rst"],
    }
    return scripts.get(name, GOOD)


def _waits(sequence, attempt):
    if attempt >= refusals_of(sequence):
        return GOOD
    return limited(("Retry-After", str(asked_wait_s(sequence, attempt))))


def _come_back_later(sequence, attempt):
    return limited(("Retry-After", str(LONG_WAIT_S)))


RUNS = {"mix": _mix, "waits": _waits, "later": _come_back_later}


class ScriptedRuns:
    """A running server, and what it was asked, the trial requests left out."""

    def __init__(self, url, log):
        self._url = url
        self._log = log

    def host(self, case):
        """What a user would write as ``--host`` for a case."""
        return f"{self._url}/{case}/v1"

    def asked(self):
        """The chat requests so far: id, and arrival in seconds of the server's clock."""
        lines = map(json.loads, self._log.read_text(encoding="utf-8").splitlines())
        asked = [
            (line["headers"]["x-request-id"], line["received_monotonic_s"])
            for line in lines
            if line["method"] == "POST"
        ]
        return [one for one in asked if not one[0].endswith(PREFLIGHT)]


@contextlib.contextmanager
def scripted_runs(folder):
    """The server until the block ends."""
    log = folder / "scripted.jsonl"
    arguments = ("--port", "0", "--log", str(log))
    ready = "case server ready on "
    with python_process("tests.support.scripted_runs", *arguments, ready=ready) as (url, _):
        yield ScriptedRuns(url, log)


if __name__ == "__main__":
    CASES.update({name: _unless_preflight(choose) for name, choose in RUNS.items()})
    case_server.main()
