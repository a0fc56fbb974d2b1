"""LiteLLM's proxy in front of another endpoint, as a process for tests; nothing of ours.

It needs versions that our own requirements exclude, so it lives in an environment of its own,
which ``make gateways`` sets up.
"""

import contextlib
import json
import os
import secrets
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.support.processes import ROOT, end, free_port, is_ready, wait_until

GATEWAYS = ROOT / ".venv-litellm" / "bin"
LITELLM = GATEWAYS / "litellm"
START_LIMIT_S = 120
"""It imports for 6 s on a free core, ten times as long on a machine that is busy with others."""

requires_litellm = pytest.mark.skipif(
    not LITELLM.exists(), reason="LiteLLM's proxy is not installed (make gateways)"
)

_QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # its list of prices would be fetched at the start
    "LITELLM_TELEMETRY": "False",
    "LITELLM_LOG": "ERROR",
    "DO_NOT_TRACK": "1",
}
_OURS = ("LITELLM_", "OPENAI_", "SWARMGAUGE_", "REDIS_", "DATABASE_")


class LiteLlmServer:
    """A running LiteLLM proxy, and the key that it wants."""

    def __init__(self, url, key):
        self.url = url
        self.key = key

    def host(self, model):
        """What a user would write as ``--host`` when the URL names the model, not the body."""
        return f"{self.url}/engines/{model}/chat/completions"

    def refused(self, model):
        """How many requests for a model it says it has answered with 429 so far."""
        headers = {"Authorization": f"Bearer {self.key}"}
        page = urllib.request.Request(f"{self.url}/metrics/", headers=headers)
        with urllib.request.urlopen(page, timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        counts = [line for line in lines if line.startswith("litellm_proxy_failed_requests_metric")]
        wanted = (f'requested_model="{model}"', 'exception_status="429"')
        found = [line for line in counts if all(label in line for label in wanted)]
        return sum(int(float(line.rpartition(" ")[2])) for line in found if "_created" not in line)


@contextlib.contextmanager
def litellm(folder, models, served_model, cooldown_s=None):
    """LiteLLM's proxy until the block ends.

    ``models`` maps each name that clients may ask for to its one deployment: ``upstream`` (a base
    URL that serves ``served_model``) and more of LiteLLM's parameters, such as ``rpm``. Limits are
    enforced, nothing is retried, and clients' ``x-`` headers are passed on, so that the upstream's
    log has the request ids. With ``cooldown_s`` a deployment that has failed three times, be it by
    a limit of its own, is then left alone for so long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = f"sk-{secrets.token_hex(16)}"  # without one, or with a weak one, it does not start
    configuration = folder / "litellm.json"  # JSON is YAML too
    configuration.write_text(
        json.dumps(_configuration(models, served_model, key, cooldown_s)), encoding="utf-8"
    )
    port = free_port()
    command = [LITELLM, "--config", configuration, "--host", "127.0.0.1", "--port", str(port)]
    # A key or a cache of the person who runs the tests must change nothing.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    log = folder / "litellm.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**kept, **_QUIET},
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(
                lambda: is_ready(f"{url}/health/liveliness", process, log),
                START_LIMIT_S,
                f"LiteLLM's proxy (see {log})",
            )
            yield LiteLlmServer(url, key)
        finally:
            end(process)


def _configuration(models, served_model, key, cooldown_s):
    cooldown = {"disable_cooldowns": True}
    if cooldown_s is not None:
        cooldown = {"allowed_fails": 2, "cooldown_time": cooldown_s}
    return {
        "model_list": [_deployment(name, served_model, **more) for name, more in models.items()],
        "router_settings": {
            "optional_pre_call_checks": ["enforce_model_rate_limits"],
            "num_retries": 0,
            **cooldown,
        },
        "litellm_settings": {"callbacks": ["prometheus"]},
        "general_settings": {"master_key": key, "forward_client_headers_to_llm_api": True},
    }


def _deployment(name, served_model, *, upstream, **limits):
    parameters = {"model": f"openai/{served_model}", "api_base": f"{upstream}/v1"}
    return {
        "model_name": name,
        "litellm_params": {**parameters, "api_key": "unused", **limits},
        "model_info": {"id": f"deployment-of-{name}"},
    }
