"""What the Compose profiles configure, run from packages: LiteLLM and Prometheus themselves."""

import contextlib
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from tests.support.litellm_server import LITELLM, START_LIMIT_S, requires_litellm
from tests.support.processes import ROOT, end, free_port, simulator, wait_until
from tests.support.runs import server_log

pytestmark = [pytest.mark.live, pytest.mark.patient]

GATEWAY = ROOT / "deploy" / "gateway"
OBSERVED = ROOT / "deploy" / "observability"
KEY = "sk-parts-AAAA1111BBBB2222"
PLACES = 2
"""Requests that the first replica takes at a time; Compose gives it more."""
requires_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="Prometheus is not installed",
)


def start_gateway(folder, key, port, *replicas):
    """The gateway's start script with the checkout's own configuration."""
    key_file = folder / "api-key"
    key_file.write_text(f"{key}\n" if key else "", encoding="utf-8")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LITELLM_", "OPENAI_"))}
    with (folder / "gateway.log").open("wb") as log:
        return subprocess.Popen(
            [
                *("sh", GATEWAY / "start.sh", "--config", GATEWAY / "litellm.yaml"),
                *("--host", "127.0.0.1", "--port", str(port)),
            ],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={
                **kept,
                "KEY_FILE": str(key_file),
                "LITELLM": str(LITELLM),
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_TELEMETRY": "False",
                **dict(zip(("REPLICA_A_URL", "REPLICA_B_URL"), replicas, strict=False)),
            },
        )


def chat(url, key=KEY):
    """One chat request; the status and which deployment answered."""
    body = {"model": "simulated-model", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    data = json.dumps({**body, "max_tokens": 64}).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return answer.status, answer.headers["x-litellm-model-id"]
    except urllib.error.HTTPError as error:
        return error.code, None


def ready(url):
    """Whether it answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@requires_litellm
def test_the_gateway_gives_the_second_replica_what_the_first_refuses(tmp_path):
    """Every request is answered, by the replica that the answer names; without the key, none."""
    port, url = free_port(), None
    logs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    with (
        simulator("--max-in-flight", str(PLACES), log=logs[0]) as first,
        simulator(log=logs[1]) as second,
    ):
        process = start_gateway(tmp_path, KEY, port, f"{first}/v1", f"{second}/v1")
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: ready(f"{url}/health/liveliness"), START_LIMIT_S, "gateway")
            alone = chat(url)
            with ThreadPoolExecutor(8) as threads:
                answers = list(threads.map(chat, [url] * 8))
            refused = chat(url, key="sk-wrong-CCCC3333")
        finally:
            end(process)

    served = [[one for one in server_log(log) if one["outcome"] == "ok"] for log in logs]
    by = [
        sum(model == name for _, model in [alone, *answers]) for name in ("replica-a", "replica-b")
    ]
    assert (200, "replica-a") == alone
    assert [200] * 8 == [status for status, _ in answers]
    assert by == [len(entries) for entries in served]
    assert by[1] > 0, "some fell back"
    assert 400 <= refused[0] < 500


@pytest.mark.parametrize("key", ["", "no-prefix"])
def test_the_gateway_says_what_key_it_wants(tmp_path, key):
    """It would serve nobody, or not start with a traceback."""
    process = start_gateway(tmp_path, key, free_port())
    code = process.wait(20)

    text = (tmp_path / "gateway.log").read_text()
    assert 1 == code
    assert "SWARMGAUGE_API_KEY_FILE in .env must name a file" in text
    assert not key or key not in text


@contextlib.contextmanager
def prometheus(folder, **targets):
    """Prometheus with the checkout's configuration, but for the names, which only Compose has.

    ``targets`` are the addresses to ask, by job.
    """
    config = yaml.safe_load((OBSERVED / "prometheus.yml").read_text(encoding="utf-8"))
    for job in config["scrape_configs"]:
        del job["dns_sd_configs"]
        target = targets.get(job["job_name"])
        labels = {"__meta_dns_name": job["job_name"]}
        job["static_configs"] = [{"targets": [target], "labels": labels}] if target else []
    changed = folder / "prometheus.yml"
    changed.write_text(yaml.safe_dump(config), encoding="utf-8")
    url = f"127.0.0.1:{free_port()}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *("prometheus", f"--config.file={changed}", f"--web.listen-address={url}"),
                f"--storage.tsdb.path={folder / 'data'}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    try:
        wait_until(lambda: ready(f"http://{url}/-/ready"), 30, "Prometheus")
        yield f"http://{url}"
    finally:
        end(process)


def _address(url):
    return urllib.parse.urlsplit(url).netloc


def ask(url, query):
    """What a query gives now, by labels."""
    query = query.replace("$__rate_interval", "8s")
    asked = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"{url}/api/v1/query?{asked}", timeout=10) as answer:
        return json.loads(answer.read())["data"]["result"]


@requires_prometheus
def test_prometheus_takes_the_configuration():
    """Its own check of the very file."""
    command = ["promtool", "check", "config", OBSERVED / "prometheus.yml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr


@requires_prometheus
def test_every_panel_has_something_to_draw(tmp_path):
    """Each query of the dashboard finds the simulator by its name, after a few requests."""
    text = (OBSERVED / "grafana/dashboards/servers.json").read_text(encoding="utf-8")
    queries = [t["expr"] for panel in json.loads(text)["panels"] for t in panel["targets"]]
    with simulator() as host, prometheus(tmp_path, simulator=_address(host)) as url:
        wait_until(lambda: ask(url, "vllm:num_requests_running"), 30, "first scrape")
        for _ in range(3):
            assert 200 == chat(host)[0]
        tokens = "rate(vllm:generation_tokens_total[8s]) > 0"
        wait_until(lambda: ask(url, tokens), 30, "tokens")
        found = {query: ask(url, query) for query in queries}

    assert queries
    assert [] == [query for query, result in found.items() if not result]
    assert {"simulator"} == {one["metric"]["server"] for r in found.values() for one in r}
