"""Answers Prometheus on a port of the master's own, apart from Locust's page."""

import logging
from collections.abc import Callable

from gevent.pywsgi import WSGIServer
from prometheus_client import CollectorRegistry, make_wsgi_app

from hooks.export.families import RunCollector
from hooks.live.run import LiveRun

log = logging.getLogger("swarmgauge")


class MetricsPortError(ValueError):
    """The port cannot be used; the text says which and what to do."""


def serve_metrics(host: str, port: int, current: Callable[[], LiveRun | None]) -> WSGIServer:
    """Answer at ``/metrics`` from now on, for as long as the process lives.

    ``current`` gives the run to tell of, or None.

    Raises:
        MetricsPortError: there is no such port, or it is taken.
    """
    if not 0 < port < 65536:
        raise MetricsPortError(f"--metrics-port {port}: write 1 to 65535, or 0 for none")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunCollector(current))
    # A scrape every few seconds is no line in the log.
    server = WSGIServer((host, port), make_wsgi_app(registry), log=None, error_log=log)
    try:
        server.start()
    except OSError as error:
        reason = error.strerror or str(error)
        raise MetricsPortError(
            f"--metrics-host {host} --metrics-port {port}: {reason}; choose another"
        ) from None
    shown = f"[{host}]" if ":" in host else host
    log.info("metrics for Prometheus on http://%s:%s/metrics", shown, port)
    return server
