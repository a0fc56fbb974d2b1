"""Failures that a search was made to find, and that are therefore no fault of its run."""

from collections.abc import Sequence

import pandas as pd

from metrics.knee_level import Level
from metrics.outcome import Outcome
from metrics.validity_levels import LIMITS
from reports.load import SavedRun
from reports.model import StageRow

KNEE = "knee"


def looked_for(run: SavedRun, rows: Sequence[StageRow], records: pd.DataFrame) -> int:
    """How many of the records are refusals that the run's search went to.

    A search for a limit wants its 429s. One for the knee climbs until requests are refused, and
    leaves a level for that: its 429s count, and its 503s and 529s where fewer users were served.
    """
    shape, outcome = run.meta.get("shape"), records["outcome"]
    limited = outcome == Outcome.RATE_LIMITED.value
    if shape == LIMITS:
        return int(limited.sum())
    if shape != KNEE:
        return 0
    refused = {row.stage: row.target_users for row in rows if _refused(run, row)}
    served = [row.target_users for row in rows if row.completed and row.stage not in refused]
    above = {stage for stage, users in refused.items() if served and users > min(served)}
    full = outcome == Outcome.OVERLOADED.value
    stage = records["stage"]
    return int(((limited & stage.isin(refused)) | (full & stage.isin(above))).sum())


def _refused(run: SavedRun, row: StageRow) -> bool:
    """Whether refusals decided what the level showed, so that the search left it."""
    records = run.records
    held = records[(records["stage"] == row.stage) & records["counted"]]["outcome"]
    level = Level(
        users=row.target_users,
        ttft_s=(),
        tpot_s=(),
        latency_s=(),
        requests=row.offered - row.cancelled - row.not_sent,
        rate_limited=int((held == Outcome.RATE_LIMITED.value).sum()),
        failed=int((held == Outcome.OVERLOADED.value).sum()),
    )
    return level.refused()
