"""A run's attempts on the wire: a row each, on one clock, out of the records of requests."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd

from metrics.limits_attempts import LET_IN, TOLD, Attempts, Bools, Floats, known, unread
from metrics.outcome import Outcome
from metrics.record import SEVERAL
from reports.ledger import REFUSALS, lost_values
from reports.memory import give_back
from reports.windows import of_workers

_ALIGNED = "The workers' clocks are aligned by the wall-clock time of each one's first request"
_OF_REQUEST = ("worker", "stage", "counted", "prompt_tokens", "asked_max_tokens", "asked_wait_s")
_OF_LAST = (
    "outcome",
    "error_code",
    "error_sample",
    "completion_tokens",
    "limit_requests",
    "remaining_requests",
    "limit_tokens",
    "remaining_tokens",
    "reset_s",
)
_OF_ATTEMPT = ("attempts", "status", "started_s", "sent_s", "ended_s", "ttft_s")


def attempt_rows(
    records: pd.DataFrame, wall_offsets_s: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """A row for each attempt of each request, in the order they were sent.

    ``sent_s`` is on the worker's clock, ``at_s`` and ``over_s`` (sent and over) on the clock of all
    workers (:func:`clock_offsets_s`), seconds. ``status`` is missing when there was none. ``last``
    tells a request's last attempt, which alone has ``ttft_s`` and what only one answer can say.
    """
    rows = _rows(records[[*_OF_REQUEST, *_OF_LAST, *_OF_ATTEMPT, *SEVERAL]])
    offsets_s = of_workers(rows["worker"], clock_offsets_s(records, wall_offsets_s))
    rows["at_s"] = rows["sent_s"] + offsets_s
    # Two clock readings may round past each other.
    rows["over_s"] = np.maximum(rows["over_s"] + offsets_s, rows["at_s"])
    give_back()
    order = np.argsort(rows["at_s"].to_numpy(), kind="stable")
    rows = rows.iloc[order]
    rows.index = pd.RangeIndex(len(rows))
    return rows


def _rows(records: pd.DataFrame) -> pd.DataFrame:
    """The last attempts of all requests, and before them those that were lost."""
    sent = records["attempts"] > 0
    # Where all were sent no copy is needed, which is the larger part of the rows' memory.
    made = records if sent.all() else records[sent].reset_index(drop=True)
    again, lost_sent_s = lost_values(made, "lost_sent_s")
    _, lost_end_s = lost_values(made, "lost_end_s")
    _, status = lost_values(made, "lost_status")
    began_s = made["started_s"].to_numpy(dtype=np.float64)[again]
    before = (
        made[list(_OF_REQUEST)]
        .iloc[again]
        .assign(
            request=again,
            last=False,
            sent_s=began_s + lost_sent_s,
            over_s=began_s + lost_end_s,
            status=np.where(status == 0, np.nan, status),
        )
    )
    last = made[[*_OF_REQUEST, *_OF_LAST, "ttft_s", "sent_s"]].assign(
        request=made.index,
        last=True,
        over_s=made["ended_s"],
        status=made["status"].astype("float64"),
    )
    return pd.concat([before, last], ignore_index=True) if len(again) else last


def clock_offsets_s(
    records: pd.DataFrame, wall_offsets_s: Mapping[str, float] | None = None
) -> dict[str, float]:
    """What to add to each worker's clock, in seconds, to have that of the worker that joined first.

    A worker's clock counts from when it joined the run; its first record has the wall clock too.
    ``wall_offsets_s`` (:func:`wall_offsets_s_of`) is how far that wall clock is ahead, by worker;
    one that is not in it is taken to be right.
    """
    firsts = records.sort_values("started_s").groupby("worker", observed=True).head(1)
    began = pd.to_datetime(firsts["started_at"], utc=True, errors="coerce", format="ISO8601")
    began_s = (began - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
    ahead_s = firsts["worker"].map(lambda worker: (wall_offsets_s or {}).get(str(worker), 0.0))
    joined_s = began_s - firsts["started_s"] - ahead_s.astype("float64")
    # A label that cannot be read says nothing: that worker's clock is left as it is.
    offsets_s = (joined_s - joined_s.min()).fillna(0.0)
    return {str(worker): float(s) for worker, s in zip(firsts["worker"], offsets_s, strict=True)}


def wall_offsets_s_of(meta: Mapping[str, Any]) -> dict[str, float]:
    """Each worker's wall clock minus the master's, in seconds, where ``run.json`` has it."""
    return {
        str(worker["id"]): float(worker["wall_offset_s"])
        for worker in meta.get("workers") or ()
        if worker.get("wall_offset_s") is not None
    }


def clock_note(workers: Collection[str], meta: Mapping[str, Any]) -> str | None:
    """How the times of these workers were put on one clock; None of a single one."""
    if len(workers) < 2:
        return None
    known = wall_offsets_s_of(meta)
    unknown = sum(worker not in known for worker in workers)
    if unknown == len(workers):
        return f"{_ALIGNED}: machines whose clocks differ shift their attempts against each other."
    measured = f"{_ALIGNED}, less the measured offset of its wall clock"
    errors_s = [
        worker.get("wall_offset_error_s") or 0.0
        for worker in meta["workers"]
        if str(worker["id"]) in known and str(worker["id"]) in workers
    ]
    measured += f" (to within {1000 * max(errors_s):,.0f} ms)" if max(errors_s) >= 0.001 else ""
    if not unknown:
        return f"{measured}."
    return (
        f"{measured}; of {unknown} of the {len(workers)} workers no offset is known, and their "
        "attempts are shifted where their clocks differ."
    )


def accepted(rows: pd.DataFrame) -> Bools:
    """Attempts that were let in, whatever became of them."""
    status = rows["status"]
    no_status = status.isna() & rows["last"] & rows["outcome"].isin(LET_IN)
    return (status.between(200, 299) | no_status).to_numpy(dtype=np.bool_)


def limited(rows: pd.DataFrame) -> Bools:
    """Attempts answered 429."""
    return (rows["status"] == 429).to_numpy(dtype=np.bool_)


def shed(rows: pd.DataFrame) -> Bools:
    """Attempts that were turned away: 429, 503 or 529."""
    return rows["status"].isin(REFUSALS).to_numpy(dtype=np.bool_)


def for_search(rows: pd.DataFrame) -> Attempts:
    """The rows as the search for limits takes them, without what no limiter is known to have told.

    The longest wait that a request was asked for stands for the waits of each of its 429s.
    """
    left = rows["status"].isna() & rows["last"] & (rows["outcome"] == Outcome.CANCELLED.value)
    sent_s, over_s = _numbers(rows, "at_s"), _numbers(rows, "over_s")
    rows = rows[~unread(sent_s, over_s, limited(rows), left.to_numpy(dtype=np.bool_))]
    return Attempts(
        sent_s=_numbers(rows, "at_s"),
        ended_s=_numbers(rows, "over_s"),
        accepted=accepted(rows),
        limited=limited(rows),
        retry_after_s=_known(rows, "asked_wait_s"),
        **{name: _known(rows, name) for name in TOLD},
    )


def _numbers(rows: pd.DataFrame, name: str) -> Floats:
    return rows[name].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)


def _known(rows: pd.DataFrame, name: str) -> Floats | None:
    return known(_numbers(rows, name))
