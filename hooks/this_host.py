"""Which host this is, as calibrations tell hosts apart."""

import os
import platform
import socket
from typing import Any

from metrics.calibration import host_id


def this_host() -> dict[str, Any]:
    """The digest of its name, its kind of machine, and how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return {
        "id": host_id(socket.gethostname()),
        "machine": platform.machine(),
        "cores": cores,
    }
