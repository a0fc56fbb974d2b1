"""What ``run.json`` tells of a run and every worker knows as well, without secrets."""

import importlib.metadata
import platform
from collections.abc import Sequence
from typing import Any

from metrics.run_files import RUN_SCHEMA
from settings import Settings

_PACKAGES = ("locust", "gevent", "geventhttpclient", "openai", "sseclient-py")


def run_identity(
    settings: Settings, run_id: str, model: str, salt: str, prefix_hashes: Sequence[str]
) -> dict[str, Any]:
    """The part of ``run.json`` that follows from the settings and the run's beginning."""
    return {
        "schema": RUN_SCHEMA,
        "run_id": run_id,
        "name": settings.run_name or settings.shape,
        "url": settings.endpoint.url,
        "model": model,
        "settings": _public_options(settings),
        "versions": _versions(),
        "seed": settings.seed,
        "salt": salt,
        "prefix_hashes": list(prefix_hashes),
        "shape": settings.shape,
        "slo": str(settings.options.get("slo") or ""),
        "max_fail_ratio": settings.max_fail_ratio,
        "insecure": settings.insecure,
    }


def _public_options(settings: Settings) -> dict[str, Any]:
    """The options without values that may be keys: headers keep their names, URLs their bare form.

    The extra body is the user's own text and may hold anything, so only its field names stay.
    """
    options = dict(settings.options)
    options["host"] = settings.endpoint.url
    options["header"] = [header.name for header in settings.headers]
    options["extra_body"] = sorted(settings.extra_body)
    return options


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found
