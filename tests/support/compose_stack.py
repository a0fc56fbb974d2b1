"""The Compose stack of this checkout on a Docker engine, for tests; all it makes is removed again.

Where no engine answers, the environment variable SWARMGAUGE_DOCKER_ENGINE may name a program that
brings one: ``PROGRAM start`` before the tests and ``PROGRAM stop`` after them.
"""

import contextlib
import json
import os
import secrets
import shutil
import subprocess

import pytest

from tests.support.processes import ROOT, free_port, wait_until

ENGINE_VARIABLE = "SWARMGAUGE_DOCKER_ENGINE"
ENGINE_LIMIT_S = 170
BUILD_LIMIT_S = 900
START_LIMIT_S = 120
FIRST_USER = 1000


def run(*command, env=None, limit_s=START_LIMIT_S, errors_too=False):
    """A command to its end; gives what it printed, fails with it when it fails."""
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=limit_s, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {(done.stdout + done.stderr)[-3000:]}"
    return done.stdout + (done.stderr if errors_too else "")


def answers(*command):
    """Whether a command is there and succeeds."""
    if shutil.which(command[0]) is None:
        return False
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.run(command, timeout=20, check=False, **quiet).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextlib.contextmanager
def engine():
    """How Compose is called, on an engine that is there until the block ends; else skips."""
    program = os.environ.get(ENGINE_VARIABLE)
    brought = False
    if not answers("docker", "info"):
        if not program:
            pytest.skip(f"no Docker engine answers, and {ENGINE_VARIABLE} names none")
        # Its daemon may keep the pipes of whoever started it, so there is no waiting for them.
        subprocess.run(
            [program, "start"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=ENGINE_LIMIT_S,
            check=True,
        )
        brought = True
    try:
        for compose in (("docker", "compose"), ("docker-compose",)):
            if answers(*compose, "version"):
                yield compose
                return
        pytest.skip("Docker has no Compose here")
    finally:
        if brought:
            run(program, "stop")


class Stack:
    """One project: its own name, port, folder of results and key."""

    def __init__(self, compose, folder):
        self.name = f"swarmgauge-test-{secrets.token_hex(4)}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = f"sk-{secrets.token_hex(16)}"
        self.owner = os.getuid() or FIRST_USER
        self.runs = folder / "runs"
        # Root's, when root runs the tests: as an engine makes a folder that is missing.
        self.runs.mkdir()
        key_file = folder / "api-key"
        key_file.write_text(f"{self.key}\n", encoding="utf-8")
        key_file.chmod(0o600)
        if os.getuid() == 0:
            os.chown(key_file, self.owner, self.owner)
        override = folder / "override.json"  # JSON is YAML too
        locked = {"services": {"simulator": {"environment": {"SIMULATOR_API_KEY": self.key}}}}
        override.write_text(json.dumps(locked), encoding="utf-8")
        self._files = ("-f", str(ROOT / "docker-compose.yml"))
        self._locked = ("-f", str(override))
        self._compose = (*compose, "-p", self.name, "--project-directory", str(ROOT))
        # Neither what is set here nor a .env of the checkout must change anything.
        ours = ("SWARMGAUGE_", "LOCUST_", "COMPOSE_", "TARGET_URL", "WEB_PORT")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(ours)} | {
            "TARGET_URL": "http://simulator:8000",
            "WEB_PORT": str(self.port),
            "SWARMGAUGE_RUNS": str(self.runs),
            "SWARMGAUGE_UID": str(self.owner),
            "SWARMGAUGE_GID": str(self.owner),
            "SWARMGAUGE_WORKERS": "2",
            "SWARMGAUGE_API_KEY_FILE": str(key_file),
            "SWARMGAUGE_STAGES": "1,2",
            "SWARMGAUGE_HOLD": "2s",
            "SWARMGAUGE_SETTLE": "0s",
        }

    def compose(self, *arguments, limit_s=START_LIMIT_S):
        """A Compose command on this project, whose simulator asks for the key."""
        command = (*self._compose, *self._files, *self._locked, *arguments)
        return run(*command, env=self.env, limit_s=limit_s)

    def as_written(self):
        """What `config` says of the checkout's file alone."""
        return run(*self._compose, *self._files, "config", env=self.env)

    def containers(self, service=None):
        """The inspected containers of this project, or of one of its services."""
        labels = [f"com.docker.compose.project={self.name}"]
        labels += [f"com.docker.compose.service={service}"] if service else []
        filters = [part for label in labels for part in ("--filter", f"label={label}")]
        ids = run("docker", "ps", "--all", "--quiet", *filters).split()
        return json.loads(run("docker", "inspect", *ids)) if ids else []

    def wait_healthy(self, *services):
        """Wait until each service says that it is."""
        for service in services:
            wait_until(lambda s=service: self._healthy(s), START_LIMIT_S, f"healthy {service}")

    def _healthy(self, service):
        states = [one["State"] for one in self.containers(service)]
        return states and all(one.get("Health", {}).get("Status") == "healthy" for one in states)

    def down(self):
        """Remove everything of every profile."""
        self.compose("--profile", "headless", "down", "--volumes", "--remove-orphans")


@contextlib.contextmanager
def stack(compose, folder):
    """A built stack that is not up yet; nothing of it stays."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Stack(compose, folder)
    made.compose("build", "simulator", limit_s=BUILD_LIMIT_S)
    try:
        yield made
    finally:
        made.down()
