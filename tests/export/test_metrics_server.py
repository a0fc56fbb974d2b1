"""A port for Prometheus that cannot be had is told with what to change."""

import pytest

from hooks.export.server import MetricsPortError, serve_metrics


@pytest.mark.parametrize("port", [-1, 65536])
def test_there_is_no_such_port(port):
    """The number, and which there are."""
    with pytest.raises(MetricsPortError, match=f"--metrics-port {port}: write 1 to 65535"):
        serve_metrics("127.0.0.1", port, lambda: None)


def test_an_address_of_another_machine_is_told():
    """The system's own reason, and that another is needed."""
    with pytest.raises(MetricsPortError, match=r"--metrics-host 203\.0\.113\.1 .*: .+; choose"):
        serve_metrics("203.0.113.1", 9646, lambda: None)
