"""The scripted server itself: it sends the bytes of a script, at its times, and logs requests."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.case_scripts import one_script

pytestmark = pytest.mark.live
ROOT = Path(__file__).resolve().parent.parent.parent


class Running:
    """A case server of this test and its log."""

    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self._log = log

    def ask(self, case: str, body: bytes = b"{}", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("POST", f"/{case}/v1/chat/completions?k=1", body, headers)
        response = connection.getresponse()
        try:
            return response.status, response.read()
        finally:
            connection.close()

    def lines(self, case: str) -> list[dict[str, Any]]:
        lines = (json.loads(line) for line in self._log.read_text().splitlines())
        return [line for line in lines if line["case"] == case]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("cases") / "requests.jsonl"
    command = [sys.executable, "-m", "tests.support.case_server", "--log", str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().split()[-1]
        yield Running(urlsplit(url).port or 0, log)
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.mark.parametrize("name", ["F01", "F03_cuts", "F10", "F14", "P13", "E02", "C10_echo"])
def test_the_body_is_exactly_the_script(server: Running, name: str) -> None:
    """Byte for byte what the case says."""
    assert server.ask(name) == (200, one_script(name).body)


def test_the_request_is_logged_whole(server: Running) -> None:
    """Path with query, headers in lower case, and the body's exact text."""
    server.ask("F09", '{"a":"東京"}'.encode(), Authorization="Bearer right-key")
    line = server.lines("F09")[0]

    assert line["path"] == "/F09/v1/chat/completions?k=1"
    assert line["headers"]["authorization"] == "Bearer right-key"
    assert line["body"] == '{"a":"東京"}'


def test_requests_of_a_case_are_counted(server: Running) -> None:
    """429, 429, then the answer: one script for each request in turn."""
    statuses = [server.ask("R07")[0] for _ in range(3)]

    assert statuses == [429, 429, 200]
    assert [line["nth"] for line in server.lines("R07")] == [0, 1, 2]


def test_steps_are_timed_from_the_request(server: Running) -> None:
    """A plain answer due at 400 ms is not there before."""
    began_s = time.monotonic()
    server.ask("F14")

    assert 0.39 < time.monotonic() - began_s < 2.0


def test_E05_a_reset_and_a_cut_chunk_break_the_body(server: Running) -> None:
    """A TCP reset, and an end inside a chunk, reach the client as such."""
    with pytest.raises(ConnectionResetError):
        server.ask("E05_rst")
    with pytest.raises(http.client.IncompleteRead):
        server.ask("E05_fin")


def test_E09_the_key_is_looked_at(server: Running) -> None:
    """401 without the right key, an answer with it."""
    assert server.ask("E09_key")[0] == 401
    assert server.ask("E09_key", Authorization="Bearer right-key")[0] == 200


def test_an_unknown_case_is_an_error(server: Running) -> None:
    """A misspelt case does not look like a server."""
    assert server.ask("F99")[0] == 404
