"""What the Compose files promise: no key on a master, no page on the network, no root."""

from pathlib import Path

import pytest
import yaml

from options import ENV_PREFIX, OPTION_NAMES

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES = COMPOSE["services"]
MASTERS = ("master", "ladder")
WORKERS = ("worker", "ladder-worker")
KEY = "SWARMGAUGE_API_KEY"
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
    holders = [name for name, one in SERVICES.items() if KEY in one.get("environment", {})]

    assert list(WORKERS) == holders


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_takes_a_whole_env_file(name):
    """`env_file: .env` would hand the key to whoever has it."""
    assert "env_file" not in SERVICES[name]


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in WORKERS])
def test_nothing_but_workers_mentions_a_key(name):
    """Under no other name and in no command either."""
    text = yaml.safe_dump(SERVICES[name])

    assert "API_KEY" not in text


def test_only_the_page_is_published_and_on_loopback():
    """Page and port have no login."""
    published = {name: one["ports"] for name, one in SERVICES.items() if "ports" in one}

    assert {"master": ["127.0.0.1:${WEB_PORT:-8089}:8089"]} == published


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_leaves_its_network(name):
    """Host networking would publish everything."""
    assert not {"network_mode", "privileged", "cap_add"} & SERVICES[name].keys()


@pytest.mark.parametrize("name", SERVICES)
def test_a_stop_leaves_time_for_the_drain(name):
    """Compose kills after the grace period; the drain comes first, and then the report."""
    assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) > STOP_TIMEOUT_S


def test_the_drain_is_what_locust_conf_says():
    """The grace period is compared with a constant of this file; it must be the real one."""
    lines = (ROOT / "locust.conf").read_text(encoding="utf-8").splitlines()

    assert f"stop-timeout = {STOP_TIMEOUT_S}" in lines


@pytest.mark.parametrize("name", SERVICES)
def test_files_are_many(name):
    """Locust asks for 10,000; the usual limit is 1,024."""
    limit = SERVICES[name]["ulimits"]["nofile"]

    assert limit["soft"] >= 10_000
    assert limit["soft"] <= limit["hard"]


@pytest.mark.parametrize("name", MASTERS + WORKERS)
def test_results_land_on_the_host(name):
    """A worker's spool lies beside its master's report."""
    assert ["./runs:/app/runs"] == SERVICES[name]["volumes"]


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


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "runs-folder"])
def test_services_are_not_root(name):
    """Only the one that hands over the folder of results is, and it ends at once."""
    assert "${SWARMGAUGE_UID:-1000}:${SWARMGAUGE_GID:-1000}" == SERVICES[name]["user"]


def test_the_image_is_not_root():
    """Without Compose, too."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]

    assert users
    assert users[-1] not in {"root", "0"}


def test_compose_1_29_reads_the_file():
    """It knows these keys at the top, and x- ones; a `version` makes v2 complain."""
    known = {"services", "volumes", "networks"}

    assert {key for key in COMPOSE if not key.startswith("x-")} <= known


def test_the_image_holds_every_package():
    """.dockerignore names what goes in, so a new package must be named too."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    modules = {path.name for path in ROOT.glob("*.py")}
    missing = [name for name in sorted(packages | modules) if ignored(name)]

    assert [] == missing


@pytest.mark.parametrize("name", [".env", ".git", ".venv", "runs", "tests"])
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
