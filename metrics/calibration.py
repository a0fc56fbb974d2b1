"""The name and form of the calibration file: what a host can do as a client.

``python -m bench.calibrate`` writes it, a run copies it into its folder, reports cite it.
"""

import hashlib

CALIBRATION_JSON = "calibration.json"
CALIBRATION_SCHEMA = 2
RUN_HOST = "run_host"
"""Where a run's copy says on which host the run was made; in the form of ``host``."""

_ID_CHARS = 12


def host_id(hostname: str) -> str:
    """A short digest of a host's name: enough to tell hosts apart without naming them."""
    return hashlib.sha256(hostname.encode("utf-8", "replace")).hexdigest()[:_ID_CHARS]
