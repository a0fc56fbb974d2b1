"""What the run's host was found to do as a client, beside what the run asked of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from metrics.calibration import CALIBRATION_JSON, CALIBRATION_SCHEMA, RUN_HOST, host_id
from reports.model import ClientRow
from reports.wording import number

NONE = "no calibration: run make calibrate"
_PACKAGES = ("python", "gevent")


def calibration_sentence(folder: Path, meta: Mapping[str, Any], rows: Sequence[ClientRow]) -> str:
    """One sentence, also when there is no calibration or it is of another client."""
    try:
        values = json.loads((folder / CALIBRATION_JSON).read_text(encoding="utf-8"))
        if values["schema"] != CALIBRATION_SCHEMA:
            return f"no calibration of this version (schema {values['schema']}): run make calibrate"
        differences = list(_differences(values, meta))
        if differences:
            return f"the calibration is of {', '.join(differences)}: run make calibrate"
        return _headroom(values, rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return NONE


def host_cores(folder: Path) -> int | None:
    """Cores of the host that the run was made on; None where no calibration tells."""
    try:
        values = json.loads((folder / CALIBRATION_JSON).read_text(encoding="utf-8"))
        return int(values[RUN_HOST]["cores"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _differences(values: Mapping[str, Any], meta: Mapping[str, Any]) -> Iterator[str]:
    """In what the calibrated client is not the one that made the run."""
    then, now = values["host"], values[RUN_HOST]
    hosts = {host_id(str(worker["host"])) for worker in meta.get("workers") or ()} or {now["id"]}
    if hosts != {then["id"]} or then["machine"] != now["machine"]:
        yield "another host than the workers'"
    elif then["cores"] != now["cores"]:
        yield f"{then['cores']} cores (the run had {now['cores']})"
    versions = meta.get("versions") or {}
    for name in _PACKAGES:
        old, new = values["versions"][name], versions.get(name)
        if old != new:
            yield f"{name} {old} (the run had {new or 'an unknown one'})"


def _headroom(values: Mapping[str, Any], rows: Sequence[ClientRow]) -> str:
    measured = values["paced"].values()
    most = max(measured, key=lambda paced: int(paced["streams"]))
    error_ms = most["ttft_error_ms"]["p99"]
    text = (
        f"this host as a client, without Locust: {most['streams']:,} streams at "
        f"{most['events_per_s_per_stream']:g} events/s each used "
        f"{number(most['core_used']['median'], 2)} of a core with a TTFT stamp error of "
        f"{number(error_ms, 2)} ms (p99)"
    )
    memory_kb = values.get("rss_per_stream_kb")
    if memory_kb is not None:
        text += f" and {number(memory_kb, 0)} kB for each stream"
    if most["disturbed"]:
        text += ", while other work held it up"
    used = [row.cpu_max_ratio for row in rows if row.cpu_max_ratio is not None]
    if used:
        text += f"; this run used at most {number(max(used), 2)} of a core per worker"
    return text
