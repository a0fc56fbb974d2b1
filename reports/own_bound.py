"""Levels of more users than this client lets ask at once (``--max-in-flight``)."""

from collections.abc import Mapping, Sequence
from typing import Any

from metrics.stage import Stage
from reports.model import StageRow


def own_bound(meta: Mapping[str, Any], stage: Stage | StageRow) -> str | None:
    """Why a stage was not the closed loop of so many users; None when it was, or was none.

    The users beyond the bound wait in the client, so neither their queue nor their number says
    anything of the endpoint.
    """
    most = _most(meta)
    if not most or stage.rate_rps is not None or stage.target_users <= most:
        return None
    return f"only {most} at once (--max-in-flight)"


def own_bound_notices(meta: Mapping[str, Any], rows: Sequence[StageRow]) -> list[str]:
    """The same for the run as a sentence: which levels, and what to do."""
    bounded = sorted({row.target_users for row in rows if own_bound(meta, row) is not None})
    if not bounded:
        return []
    *first, last = map(str, bounded)
    users = f"{', '.join(first)} and {last}" if first else last
    return [
        f"--max-in-flight {_most(meta)}: at {users} users the client itself was the limit, so that "
        "no knee is read from there; leave it out for that"
    ]


def _most(meta: Mapping[str, Any]) -> int:
    return int((meta.get("settings") or {}).get("max_in_flight") or 0)
