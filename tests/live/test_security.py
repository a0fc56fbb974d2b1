"""Whoever comes too near: a rogue worker, a foreign page, other machines, another user's `ps`."""

import contextlib
import importlib.metadata
import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import msgpack
import psutil
import pytest
import zmq

from hooks.messages import BEGIN, PRESENT, ROLL_CALL
from tests.live.test_page_runs import FORM, answers, post, state
from tests.support.processes import end, free_port, simulator, wait_until
from tests.support.runs import start_locust

pytestmark = [pytest.mark.live, pytest.mark.patient]

KEY = "sk-security-AAAA1111BBBB"
HEADER = "header-value-CCCC2222"
PROXY = "proxy-pass-DDDD3333"
SECRETS = (KEY, HEADER, PROXY)
ENVIRONMENT = {
    "SWARMGAUGE_API_KEY": KEY,
    "TEAM_KEY": HEADER,
    "HTTP_PROXY": f"http://someone:{PROXY}@127.0.0.1:9",
    "HTTPS_PROXY": f"http://someone:{PROXY}@127.0.0.1:9",
}
SECRET_OPTIONS = ("--header", "X-Team: env:TEAM_KEY")
VERSION = importlib.metadata.version("locust")
EVIL = "http://evil.example"


class RogueWorker:
    """Speaks Locust's protocol to a master, sends no load, and keeps all that it is sent."""

    def __init__(self, port):
        self.name = "rogue"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, self.name.encode())
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(f"tcp://127.0.0.1:{port}")
        self.received = b""
        self.kinds = []

    def say(self, kind, data):
        """Send one message."""
        self._socket.send(msgpack.dumps((kind, data, self.name)))

    def listen(self, until, limit_s):
        """Take messages until one is of the kind; a heartbeat each time, or it would be dropped."""
        until_s = time.monotonic() + limit_s
        while time.monotonic() < until_s:
            self.say("heartbeat", {"state": "ready", "current_cpu_usage": 0})
            if not self._socket.poll(500):
                continue
            raw = self._socket.recv()
            self.received += raw
            kind, data, _ = msgpack.loads(raw, strict_map_key=False)
            self.kinds.append(kind)
            if kind == ROLL_CALL:  # or the run would be refused, and little more be sent
                now_s = time.time()
                times = {"heard_s": now_s, "answered_s": now_s, "asked_s": data["asked_s"]}
                who = {"run_id": data["run_id"], "client_id": self.name, "worker": self.name}
                self.say(PRESENT, {**who, **times, "trouble": None})
            if self.kinds[-1] == until:
                return True
        return False

    def close(self):
        """Hang up."""
        self._socket.close()
        self._context.term()


@contextlib.contextmanager
def page(tmp_path, host, *options, env=None):
    """Locust with its page until the block ends; the process and the page's URL."""
    port = free_port()
    arguments = ("--host", host, "--web-port", port, "--runs-dir", tmp_path / "runs", *options)
    process = start_locust(*arguments, log=tmp_path / "locust.log", env=env)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(url), 30, "page")
        yield process, url
    finally:
        end(process, wait_s=40)


def ask(url, path, method, **headers):
    """One request of a page; its status, headers and text."""
    data = urllib.parse.urlencode(FORM).encode() if method == "POST" else None
    request = urllib.request.Request(f"{url}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def listening(process):
    """Where a process listens, by port."""
    found = psutil.Process(process.pid).net_connections("tcp")
    return {one.laddr.port: one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN}


def test_a_rogue_worker_is_sent_no_key(tmp_path):
    """It is taken for a worker and sent the run's options, although the master has the key too."""
    port = free_port()
    with simulator(env={"SIMULATOR_API_KEY": KEY}) as host:
        log = tmp_path / "locust.log"
        process = start_locust(
            *("--master", "--master-bind-port", port, "--headless", "--expect-workers", 2),
            *("--host", host, "--runs-dir", tmp_path / "runs", *SECRET_OPTIONS),
            *("--shape", "ladder", "--stages", "2", "--hold", "3s", "--settle", "0s"),
            log=log,
            env=ENVIRONMENT,
        )
        worker = start_locust(
            *("--worker", "--master-port", port), log=tmp_path / "worker.log", env=ENVIRONMENT
        )
        rogue = RogueWorker(port)
        try:
            # The preflight is asked of the first.
            wait_until(lambda: "1 workers connected" in log.read_text(), 40, "worker")
            rogue.say("client_ready", VERSION)
            assert rogue.listen("ack", 30), rogue.kinds
            rogue.say("locustfile", {"version": VERSION})
            assert rogue.listen("locustfile", 30), rogue.kinds
            assert rogue.listen("spawn", 60), (rogue.kinds, log.read_text()[-3000:])
            rogue.listen("quit", 5)
        finally:
            rogue.close()
            end(worker)
            end(process, wait_s=60)

    assert BEGIN in rogue.kinds, rogue.kinds
    assert b"TEAM_KEY" in rogue.received, "it was sent the options"
    assert [] == [secret for secret in SECRETS if secret.encode() in rogue.received]


def test_no_secret_in_page_command_logs_or_results(tmp_path):
    """A whole run with a key, a secret header and a proxy's password in the environment."""
    with (
        simulator(env={"SIMULATOR_API_KEY": KEY}) as host,
        page(tmp_path, host, *SECRET_OPTIONS, env=ENVIRONMENT) as (process, url),
    ):
        assert post(url, "/swarm", **FORM, stages="2", hold="2s")["success"]
        wait_until(lambda: state(url) == "running", 30, "run")
        arguments = subprocess.run(
            ["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True
        ).stdout
        wait_until(lambda: list((tmp_path / "runs").glob("*/report.html")), 60, "report")
        paths = ("/", "/stats/requests", "/exceptions", "/stats/report", "/tasks", "/logs")
        told = {path: ask(url, path, "GET")[2] for path in paths}
        told["live"] = ask(url, "/swarmgauge/live.json", "GET")[2]

    told["ps"] = arguments
    for path in tmp_path.rglob("*"):
        if path.is_file():
            told[path.name] = path.read_bytes().decode("latin-1")
    (summary,) = (tmp_path / "runs").glob("*/summary.json")
    totals = json.loads(summary.read_text(encoding="utf-8"))["totals"]
    assert totals["ok"] > 0, "the key was used"
    assert str(process.pid) in arguments
    assert "max_fail_ratio" in told["/"], "the page shows the options"
    assert {"run.json", "report.html", "locust.log", "requests.parquet"} <= told.keys()
    found = [
        (where, secret) for where, text in told.items() for secret in SECRETS if secret in text
    ]
    assert [] == found


def test_a_foreign_page_starts_and_reads_nothing(tmp_path):
    """What a browser sends for another site's script is refused, and no answer is shared."""
    with simulator() as host, page(tmp_path, host) as (_, url):
        status, _, text = ask(url, "/swarm", "POST", Origin=EVIL)
        assert 403 == status
        assert repr(EVIL) in json.loads(text)["message"]
        named = ask(url, "/", "GET", Host="evil.example")
        read = [ask(url, path, "GET", Origin=EVIL) for path in ("/", "/stats/requests")]
        # Before a request that is more than a form, a browser asks for leave.
        wish = {"Origin": EVIL, "Access-Control-Request-Method": "POST"}
        leave = ask(url, "/swarm", "OPTIONS", **wish)
        assert "ready" == state(url)
        assert not list((tmp_path / "runs").glob("*"))

        own = ask(url, "/swarm", "POST", Origin=url)
        assert json.loads(own[2])["success"], "the page's own Start"

    assert 403 == named[0], "a name of theirs that leads here"
    for _, headers, _ in (*read, leave):
        assert "Access-Control-Allow-Origin" not in headers


def test_page_and_port_are_for_this_machine_only(tmp_path):
    """Neither has a login, so other machines must be let in by name."""
    web, port = free_port(), free_port()
    ports = ("--web-port", web, "--master-bind-port", port, "--runs-dir", tmp_path / "runs")
    log = tmp_path / "locust.log"
    process = start_locust("--master", *ports, "--host", "http://127.0.0.1:1", log=log)
    try:
        at = wait_until(
            lambda: {web, port} <= (found := listening(process)).keys() and found, 30, "ports"
        )
    finally:
        end(process)

    assert {web: "127.0.0.1", port: "127.0.0.1"} == at


def test_other_machines_are_let_in_by_name(tmp_path):
    """What docs tell to say: --master-bind-host with an address."""
    port, log = free_port(), tmp_path / "locust.log"
    options = ("--master-bind-host", "127.0.0.2", "--master-bind-port", port)
    web = ("--web-port", free_port(), "--host", "http://127.0.0.1:1")
    process = start_locust("--master", *options, *web, log=log)
    try:
        wait_until(lambda: port in listening(process), 30, "port")
        at = listening(process)
    finally:
        end(process)

    assert "127.0.0.2" == at[port]


def test_a_page_that_others_can_reach_is_still_not_for_foreign_pages(tmp_path):
    """As in a container: any name may lead there, another origin may not start."""
    with simulator() as host, page(tmp_path, host, "--web-host", "0.0.0.0") as (_, url):
        name = {"Host": "load.example:8089", "Origin": "http://load.example:8089"}
        read = ask(url, "/", "GET", **name)
        foreign = ask(url, "/swarm", "POST", **{**name, "Origin": EVIL})
        assert "ready" == state(url)
        own = ask(url, "/swarm", "POST", **name)

    assert (200, 403) == (read[0], foreign[0])
    assert json.loads(own[2])["success"]
