"""A wrong URL, model or key ends the run at once, with the server's own words."""

import subprocess

import pandas
import pytest

from tests.support.processes import free_port, simulator
from tests.support.runs import run_headless

pytestmark = pytest.mark.live

SHORT = ("-u", "20", "-r", "20", "-t", "2s", "--settle", "0s")
RUN_S = 60
"""Of the runs that are to be refused: long, so that having sent no load shows in the time."""


def run(tmp_path, host, *options, **keywords):
    """A short constant load, or what became of it."""
    return run_headless(tmp_path / "runs", "--host", host, *SHORT, *options, **keywords)


def run_long(tmp_path, host, *options, **keywords):
    """The same load for a minute: what is to be refused ends long before."""
    return run(tmp_path, host, *options, "-t", f"{RUN_S}s", **keywords)


def refused_at_once(finished):
    """Over long before its time, not with exit code 0, and without a run folder."""
    assert finished.exit_code != 0
    assert finished.folder is None
    assert finished.seconds < RUN_S
    assert "the run did not start" in finished.output
    return True


def test_E09_a_wrong_model_costs_one_request(tmp_path, case_server):
    """20 users for 2 s: one request is sent, and the server's message is printed."""
    finished = run_long(tmp_path, case_server.host("E09_model"), "--model", "osprey-x")

    assert refused_at_once(finished)
    assert len(case_server.asked("E09_model")) == 1
    assert "model 'osprey-x' does not exist" in finished.output


def test_E09_a_wrong_key_is_told_by_its_status(tmp_path, case_server):
    """401 and what to do; the key itself appears nowhere."""
    key = {"SWARMGAUGE_API_KEY": "sk-wrong-AAAA1111"}
    finished = run_long(tmp_path, case_server.host("E09_key"), "--model", "m", env=key)

    assert refused_at_once(finished)
    assert "401" in finished.output
    assert "SWARMGAUGE_API_KEY" in finished.output
    assert "AAAA1111" not in finished.output


@pytest.mark.parametrize(
    ("switch", "workers"),
    [((), 0), (("--no-preflight",), 2)],
    ids=["refused", "two workers"],
)
def test_O05_credentials_that_a_401_repeats_are_told_nowhere(
    tmp_path, case_server, switch, workers
):
    """The key, three headers' and the URL's query's: in no file and no output, neither when the
    run is refused nor when it is made all the same."""
    keys = ("sk-test-AAAA1111", "zz-BBBB2222", "CCCC3333", "goog-EEEE5555", "azure-FFFF6666")
    variables = ("SWARMGAUGE_API_KEY", "CORP", "", "GOOG", "AZURE")
    env = {name: key for name, key in zip(variables, keys, strict=True) if name}
    headers = ("api-key: env:AZURE", "x-goog-api-key: env:GOOG", "X-Corp-Auth: env:CORP")
    options = [word for header in headers for word in ("--header", header)]
    host = f"{case_server.host('O05_echo')}?key={keys[2]}"
    finished = run_headless(
        tmp_path / "runs",
        *("--host", host, "--model", "m", "-u", "2", "-t", "1s", "--settle", "0s"),
        *(*options, *switch),
        workers=workers,
        env={**env, "CORP": f"Bearer {env['CORP']}"},
    )

    asked = case_server.asked("O05_echo")[-1]
    sent = asked["path"] + str(asked["headers"])
    assert {keys[0]} == {key for key in keys if key not in sent}, "api-key goes before it"
    assert 1 == finished.exit_code
    assert "no such key: [" in finished.output
    assert bool(switch) == (finished.folder is not None)
    told = [path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    if switch:
        assert finished.summary["totals"]["failed"] == finished.summary["totals"]["offered"] > 0
        told.append(pandas.read_parquet(finished.folder / "requests.parquet").to_csv().encode())
    assert [] == [key for key in keys if any(key.encode() in text for text in told)]


@pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])
def test_E09_a_server_that_needs_its_key_everywhere_is_tested(tmp_path, case_server, workers):
    """No /health, no /v1/models without the key: with the key and a model the run starts."""
    key = {"SWARMGAUGE_API_KEY": "right-key"}
    host = case_server.host("E09_key")
    finished = run(tmp_path, host, "--model", "m", workers=workers, env=key)

    assert finished.sound, finished.output[-2000:]
    assert finished.summary["totals"]["ok"] > 0
    wanted = {request["headers"].get("authorization") for request in case_server.asked("E09_key")}
    assert {"Bearer right-key"} == wanted
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "cases.jsonl":
            assert b"right-key" not in path.read_bytes(), path


def test_E09_nothing_listens(tmp_path):
    """A refused connection is told at once, with what to check."""
    finished = run_long(tmp_path, f"http://127.0.0.1:{free_port()}")

    assert refused_at_once(finished)
    assert "check --host" in finished.output


def test_E09_no_preflight_goes_on_without(tmp_path, case_server):
    """The switch: no trial request, and the failures are the run's."""
    finished = run(tmp_path, case_server.host("E09"), "--model", "osprey-x", "--no-preflight")

    assert finished.exit_code == 1
    assert finished.summary["totals"]["by_outcome"].keys() == {"not_found"}
    assert len(case_server.asked("E09")) == finished.summary["totals"]["offered"]


def test_C05_the_fix_for_a_refused_field_is_named(tmp_path, case_server):
    """max_tokens refused: stopped with the option that helps, and with it the run is fine."""
    stopped = run_long(tmp_path / "a", case_server.host("C05"), "--model", "m")
    fine = run(
        tmp_path / "b",
        case_server.host("C05"),
        *("--model", "m", "--max-tokens-field", "max_completion_tokens"),
    )

    assert refused_at_once(stopped)
    assert "--max-tokens-field max_completion_tokens" in stopped.output
    assert fine.sound, fine.output[-2000:]
    assert fine.summary["totals"]["failed"] == 0


def test_C08_without_stream_options_the_run_goes_on_and_says_so(tmp_path, case_server):
    """422 on stream_options: the run works, its tokens are marked unknown, and that is told."""
    finished = run(tmp_path, case_server.host("C08"), "--model", "m")

    totals = finished.summary["totals"]
    assert totals["ok"] > 0
    assert totals["ok"] == totals["offered"]
    assert list(totals["token_sources"]) == ["unknown"]
    assert totals["completion_tokens"] == 0
    assert any("stream_options" in notice for notice in finished.summary["notices"])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1: its file and its key's."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return folder / "cert.pem", folder / "key.pem"


def test_C09_a_private_certificate(tmp_path, certificate):
    """Refused with the reason; fine with its CA file; fine and marked with --insecure."""
    cert, key = certificate
    with simulator("--ssl-certfile", str(cert), "--ssl-keyfile", str(key)) as url:
        assert url.startswith("https://")
        default = run_long(tmp_path / "default", url, "--model", "simulated-model")
        trusted = run(tmp_path / "trusted", url, "--ca-file", cert, workers=2)
        blind = run(tmp_path / "blind", url, "--insecure", "--traffic", "stream:1,sdk:1,block:1")

    assert refused_at_once(default)
    assert "certificate" in default.output.lower()
    assert "--ca-file" in default.output
    for finished in (trusted, blind):
        assert finished.sound, finished.output[-2000:]
        assert finished.summary["totals"]["failed"] == 0
        assert finished.summary["totals"]["ok"] > 0
    assert any("not verified" in sentence for sentence in blind.summary["headline"])
    assert not any("not verified" in sentence for sentence in trusted.summary["headline"])


def test_a_wrong_option_is_a_usage_error(tmp_path, case_server):
    """Exit code 2, the option, the value, and what to write."""
    finished = run(tmp_path, case_server.host("good"), "--prompt-tokens", "many")

    assert finished.exit_code == 2
    assert "--prompt-tokens" in finished.output
    assert "'many'" in finished.output
    assert case_server.asked("good") == []
