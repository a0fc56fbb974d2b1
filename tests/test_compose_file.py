"""What the Compose files promise: no key on a master, no page on the network, no root."""

import json
import re
from pathlib import Path

import pytest
import yaml

from options import ENV_PREFIX, OPTION_NAMES
from simulator.engine import Engine
from simulator.metrics_page import MetricsPage
from simulator.profile import PROFILES

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
MASTERS = ("master", "ladder")
WORKERS = ("worker", "ladder-worker")
KEY_FILE = "SWARMGAUGE_API_KEY_FILE"
KEY_HOLDERS = (*WORKERS, "gateway")
"""The gateway asks for the key that the workers send."""
OBSERVED = ROOT / "deploy" / "observability"
OTHERS = ("gateway", "prometheus", "grafana")
"""Not ours: their images know their users and files."""
OURS = tuple(name for name in SERVICES if name not in OTHERS)
STOP_TIMEOUT_S = 30
LOCUST_OPTIONS = {"host", "num_users", "spawn_rate", "run_time"}
NOT_PASSED_ON = {"runs_dir"}
"""The mounted folder is always the same one."""


def ignored(name):
    """Whether .dockerignore keeps a file or folder of the top level out of the image."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return f"!{name}" not in lines


def test_the_key_is_on_the_workers_only():
    """Locust shows a master's options in its page, so a master never holds a key."""
    holders = {name for name, one in SERVICES.items() if one.get("secrets") == ["api_key"]}

    assert set(KEY_HOLDERS) == holders
    assert holders == {name for name, one in SERVICES.items() if "secrets" in one}


def test_the_key_is_a_file():
    """`docker inspect` and `docker compose config` print variables, and whoever asks may read."""
    environments = [SERVICES[name]["environment"] for name in WORKERS]

    assert [{KEY_FILE: "/run/secrets/api_key"}] * 2 == environments
    assert {"api_key": {"file": f"${{{KEY_FILE}:-./deploy/no-api-key}}"}} == COMPOSE["secrets"]
    assert "SWARMGAUGE_API_KEY:" not in (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


def test_without_a_key_nothing_is_sent():
    """The default is a file of the checkout, and it is empty."""
    assert b"" == (ROOT / "deploy" / "no-api-key").read_bytes()


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_takes_a_whole_env_file(name):
    """`env_file: .env` would hand the key to whoever has it."""
    assert "env_file" not in SERVICES[name]


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in KEY_HOLDERS])
def test_nothing_but_workers_mentions_a_key(name):
    """Under no other name and in no command either."""
    text = yaml.safe_dump(SERVICES[name])

    assert "api_key" not in text.lower()


def test_pages_are_published_on_loopback_only():
    """None has a login, and Locust's port is not published at all."""
    published = {name: one["ports"] for name, one in SERVICES.items() if "ports" in one}

    assert {
        "master": ["127.0.0.1:${WEB_PORT:-8089}:8089"],
        "prometheus": ["127.0.0.1:${PROMETHEUS_PORT:-9090}:9090"],
        "grafana": ["127.0.0.1:${GRAFANA_PORT:-3000}:3000"],
    } == published


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_leaves_its_network(name):
    """Host networking would publish everything."""
    assert not {"network_mode", "privileged", "cap_add"} & SERVICES[name].keys()


@pytest.mark.parametrize("name", OURS)
def test_a_stop_leaves_time_for_the_drain(name):
    """Compose kills after the grace period; the drain comes first, and then the report."""
    assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) > STOP_TIMEOUT_S


def test_the_drain_is_what_locust_conf_says():
    """The grace period is compared with a constant of this file; it must be the real one."""
    lines = (ROOT / "locust.conf").read_text(encoding="utf-8").splitlines()

    assert f"stop-timeout = {STOP_TIMEOUT_S}" in lines


@pytest.mark.parametrize("name", [*OURS, "gateway"])
def test_files_are_many(name):
    """Locust asks for 10,000; the usual limit is 1,024."""
    limit = SERVICES[name]["ulimits"]["nofile"]

    assert limit["soft"] >= 10_000
    assert limit["soft"] <= limit["hard"]


@pytest.mark.parametrize("name", MASTERS + WORKERS)
def test_results_land_on_the_host(name):
    """A worker's spool lies beside its master's report."""
    assert ["${SWARMGAUGE_RUNS:-./runs}:/app/runs"] == SERVICES[name]["volumes"]


@pytest.mark.parametrize("name", MASTERS)
def test_masters_pass_every_option_on(name):
    """An option that is new in options.py can be set for Compose too."""
    ours = [n for n in OPTION_NAMES if n not in LOCUST_OPTIONS | NOT_PASSED_ON]
    wanted = {ENV_PREFIX + option.upper() for option in ours}
    passed = {n for n in SERVICES[name]["environment"] if n.startswith(ENV_PREFIX)}

    assert wanted == passed


@pytest.mark.parametrize("name", MASTERS)
def test_masters_listen_to_other_containers(name):
    """locust.conf binds to loopback, where no other container comes in."""
    assert "--master-bind-host 0.0.0.0" in SERVICES[name]["command"]
    assert "http://simulator:8000" in SERVICES[name]["environment"]["LOCUST_HOST"]


def test_the_ladder_waits_for_as_many_workers_as_there_are():
    """A number that differs would wait for ever, or start too early."""
    workers = SERVICES["ladder-worker"]["scale"]

    assert f"--expect-workers {workers} " in SERVICES["ladder"]["command"]


@pytest.mark.parametrize("name", [name for name in OURS if name != "runs-folder"])
def test_services_are_not_root(name):
    """Only the one that hands over the folder of results is, and it ends at once."""
    assert "${SWARMGAUGE_UID:-1000}:${SWARMGAUGE_GID:-1000}" == SERVICES[name]["user"]


@pytest.mark.parametrize("name", [name for name in OURS if name != "runs-folder"])
def test_services_can_do_nothing_they_need_not(name):
    """No capability, no way to get one, and nothing to write to but results and /tmp."""
    service = SERVICES[name]

    assert ["ALL"] == service["cap_drop"]
    assert ["no-new-privileges:true"] == service["security_opt"]
    assert service["read_only"] is True
    assert ["/tmp"] == service["tmpfs"]


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_ours_gets_no_privileges(name):
    """Nor is what it reads of ours writable."""
    service = SERVICES[name]

    assert ["no-new-privileges:true"] == service["security_opt"]
    assert all(volume.endswith(":ro") for volume in service["volumes"])


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_ours_is_pinned(name):
    """A version, not whatever is the latest; another registry can be named."""
    default = re.fullmatch(
        r"\$\{[A-Z]+_IMAGE:-[a-z./-]+:v?(\d+\.\d+\.\d+)}", SERVICES[name]["image"]
    )

    assert default


def test_the_gateway_is_the_version_that_is_tested():
    """requirements-gateways.txt has the LiteLLM that the tests run with this configuration."""
    pins = (ROOT / "requirements-gateways.txt").read_text(encoding="utf-8")
    version = SERVICES["gateway"]["image"].rpartition(":v")[2].removesuffix("}")

    assert f"litellm[proxy]=={version}\n" in pins


def test_only_a_plain_up_starts_the_simulator_a_master_and_workers():
    """Everything else has a profile."""
    plain = {name for name, one in SERVICES.items() if "profiles" not in one}
    profiles = {p for one in SERVICES.values() for p in one.get("profiles", [])}

    assert {"simulator", "runs-folder", "master", "worker"} == plain
    assert {"headless", "gateway", "observability"} == profiles


@pytest.mark.parametrize("name", [*OTHERS, "simulator", "replica-a", "replica-b", "master"])
def test_servers_say_whether_they_are_healthy(name):
    """Others wait for it, and `docker compose ps` shows it."""
    assert "CMD" == SERVICES[name]["healthcheck"]["test"][0]


def test_the_gateway_falls_back_from_one_replica_to_the_other():
    """Names and addresses of the two files agree."""
    config = yaml.safe_load((ROOT / "deploy/gateway/litellm.yaml").read_text(encoding="utf-8"))
    deployments = {one["model_name"]: one["litellm_params"] for one in config["model_list"]}
    (fallback,) = config["router_settings"]["fallbacks"]
    environment = SERVICES["gateway"]["environment"]
    servers = {}
    for name, parameters in deployments.items():
        variable = parameters["api_base"].removeprefix("os.environ/")
        servers[name] = environment[variable]

    assert {"simulated-model": ["fallback"]} == fallback
    assert {
        "simulated-model": "http://replica-a:8000/v1",
        "fallback": "http://replica-b:8000/v1",
    } == servers
    assert 0 == config["router_settings"]["num_retries"], "or refusals stay unseen"


def scraped(job_name):
    """The names that Prometheus looks up for a job, and the port."""
    config = yaml.safe_load((OBSERVED / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = [job for job in config["scrape_configs"] if job["job_name"] == job_name]
    (found,) = job["dns_sd_configs"]
    return found


def test_prometheus_asks_every_master():
    """At the port that they answer on, which is not published."""
    found = scraped("swarmgauge")

    assert set(MASTERS) == set(found["names"])
    for name in MASTERS:
        environment = SERVICES[name]["environment"]
        assert (
            f"${{SWARMGAUGE_METRICS_PORT:-{found['port']}}}"
            == (environment["SWARMGAUGE_METRICS_PORT"])
        )
        assert "0.0.0.0" == environment["SWARMGAUGE_METRICS_HOST"]
        assert str(found["port"]) not in str(SERVICES[name].get("ports"))


def test_prometheus_asks_every_simulator():
    """Those of the gateway too, when they are there."""
    found = scraped("simulator")
    ours = {n for n, one in SERVICES.items() if "python -m simulator" in str(one.get("command"))}

    assert ours == set(found["names"])
    assert 8000 == found["port"]


def test_the_dashboard_shows_what_the_simulator_counts():
    """A query for a name that is not on the metrics page draws an empty panel."""
    text = (OBSERVED / "grafana/dashboards/servers.json").read_text(encoding="utf-8")
    queries = [t["expr"] for panel in json.loads(text)["panels"] for t in panel["targets"]]
    wanted = {name for query in queries for name in re.findall(r"vllm:\w+", query)}
    page = MetricsPage(Engine(PROFILES["small"]), "model").render()
    there = {re.split(r"[{ ]", line)[0] for line in page.splitlines() if line[:1] != "#"}

    assert wanted
    assert set() == wanted - there


def test_the_dashboard_asks_the_source_that_is_provisioned():
    """Each panel and query names it by its uid."""
    path = OBSERVED / "grafana/provisioning/datasources/prometheus.yml"
    (source,) = yaml.safe_load(path.read_text(encoding="utf-8"))["datasources"]
    dashboards = sorted((OBSERVED / "grafana/dashboards").glob("*.json"))
    text = "".join(path.read_text(encoding="utf-8") for path in dashboards)
    named = set(re.findall(r'"uid": "(prom[^"]*)"', text))

    assert {source["uid"]} == named
    assert "http://prometheus:9090" == source["url"]


def test_the_image_is_not_root():
    """Without Compose, too; by number, which Kubernetes can check."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]

    assert users
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])


def test_compose_1_29_reads_the_file():
    """It knows these keys at the top, and x- ones; a `version` makes v2 complain."""
    known = {"services", "volumes", "networks", "secrets"}

    assert {key for key in COMPOSE if not key.startswith("x-")} <= known


def test_the_image_holds_every_package():
    """.dockerignore names what goes in, so a new package must be named too."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    modules = {path.name for path in ROOT.glob("*.py")}
    missing = [name for name in sorted(packages | modules) if ignored(name)]

    assert [] == missing


@pytest.mark.parametrize("name", [".env", ".git", ".venv", "runs", "tests", "deploy"])
def test_the_image_holds_nothing_private(name):
    """Everything that is not named stays out."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    assert "*" in lines
    assert ignored(name)


def test_the_example_sets_nothing():
    """A copy of it starts the simulator; what is in it are names that the Compose file reads."""
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    names = [line[1:].split("=")[0] for line in lines if line.startswith("#") and line[1:2] != " "]

    assert [] == [line for line in lines if line and not line.startswith("#")]
    assert [] == [name for name in names if name not in compose]
