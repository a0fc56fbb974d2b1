"""The ledger: what users asked for, what went on the wire for it, what came back, what was wasted.

Counts, tokens and waits are of all requests of a stage, whether its window was held or not, so that
the rows add up to the total. Times to first token are of held windows, as everywhere else.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from metrics.outcome import Outcome
from metrics.record import SEVERAL
from metrics.statistics import Summary, mean, percentile
from reports.counting import (
    LATENCY_COLUMNS,
    failed,
    latency_of,
    mean_prompt_tokens,
    succeeded,
    untold_prompt_attempts,
)
from reports.load import SavedRun
from reports.loads import load_name, plan_of, rates_of
from reports.stages import planned_stages

REFUSALS = frozenset({429, 503, 529})
"""Statuses by which a server says that it takes no more."""
TOTAL, OUTSIDE = "total", "outside the stages"
_OF_BOOKS = (
    *LATENCY_COLUMNS,
    *("outcome", "stage", "counted", "streamed", "stream_asked", "status", "error_sample"),
    *("attempts", "rate_limited_attempts", "lost_status", "retry_wait_s", "asked_wait_s"),
    *("prompt_tokens", "completion_tokens", "wasted_tokens", "wasted_prompt_tokens", "elapsed_s"),
)
_LISTS = {tuple, list, np.ndarray}
"""What a record that lists its attempts has for them; older records have nothing."""
_GAVE_UP = re.compile(r"gave up: ([^;]+);")
_WAIT_OVER_CAP = re.compile(r"(wait of|resets in) [0-9][^ ]* s, over")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """The books of one stage, of what belongs to none, or of the whole run; times in seconds."""

    stage: int | None
    """None for the total and for what was started outside the planned stages."""
    load: str
    planned: int
    """Logical requests that were wanted."""
    ok: int
    failed: int
    cancelled: int
    not_sent: int
    """Due, and never sent by this client."""
    sent: int
    """Logical requests with an attempt."""
    attempts: int
    rate_limited_attempts: int
    refused_attempts: int
    """Answered 429, 503 or 529; of lost attempts as far as their statuses are recorded."""
    retried: int
    ok_after_retry: int
    retry_wait_mean_s: float | None
    """Of requests that were sent more than once; the next likewise."""
    retry_wait_p95_s: float | None
    retry_wait_s: float
    users_wait_s: float
    """From wanting to the end, over all sent requests."""
    asked_wait_max_s: float | None
    useful_tokens: int
    """Completion tokens of successes."""
    useful_prompt_tokens: int
    wasted_tokens: int
    wasted_prompt_tokens: int
    """As far as answers told how many tokens a prompt has."""
    untold_attempts: int
    """Attempts in vain of requests of which no answer told it."""
    prompt_tokens_mean: float | None
    """Of the run's successes; it stands for the prompts that are not told."""
    gave_up: Mapping[str, int]
    attempt_ttft: Summary
    """From the sending of the attempt that succeeded; of held windows, as ``user_ttft``."""
    user_ttft: Summary
    """From the moment the user wanted the answer."""
    faults: tuple[str, ...]
    """Where these books do not agree with themselves."""

    @property
    def amplification(self) -> float | None:
        """Attempts per logical request that was sent at all."""
        return self.attempts / self.sent if self.sent else None

    @property
    def retry_wait_share(self) -> float | None:
        """Share (0-1) of the users' waiting that was pauses before retries."""
        return self.retry_wait_s / self.users_wait_s if self.users_wait_s else None

    @property
    def wasted_tokens_ratio(self) -> float | None:
        """Wasted completion tokens per useful one."""
        return self.wasted_tokens / self.useful_tokens if self.useful_tokens else None

    @property
    def wasted_prompt_ratio(self) -> float | None:
        """Wasted prompt tokens per useful one."""
        useful, wasted = self.useful_prompt_tokens, self.wasted_prompt_estimate
        return wasted / useful if useful and wasted is not None else None

    @property
    def wasted_prompt_estimate(self) -> float | None:
        """All prompt tokens sent in vain, untold prompts taken for mean ones; None: no success."""
        if not self.untold_attempts:
            return self.wasted_prompt_tokens
        if self.prompt_tokens_mean is None:
            return None
        return self.wasted_prompt_tokens + self.untold_attempts * self.prompt_tokens_mean


@dataclass(frozen=True, slots=True)
class Ledger:
    """A row for each stage, one for what belongs to none if there is any, and the total."""

    rows: tuple[LedgerRow, ...]
    total: LedgerRow

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not add up, and where."""
        every = (*self.rows, self.total)
        return tuple(f"{row.load}: {fault}" for row in every for fault in row.faults)


def ledger_of(run: SavedRun) -> Ledger:
    """The books of a run from its records."""
    records = run.records[list(_OF_BOOKS)]
    mean_prompt = mean_prompt_tokens(records)
    plan = plan_of(run)
    stages = planned_stages(run)
    rows = [
        _row(records[records["stage"] == s], mean_prompt, load_name(users, *rates_of(plan, s)), s)
        for s, _, users in stages
    ]
    inside = records["stage"].isin([stage for stage, _, _ in stages])
    if not inside.all():
        rows.append(_row(records[~inside], mean_prompt, OUTSIDE))
    return Ledger(tuple(rows), _row(records, mean_prompt, TOTAL))


def _row(
    records: pd.DataFrame, prompt_tokens_mean: float | None, load: str, stage: int | None = None
) -> LedgerRow:
    ok, sent = succeeded(records), records[records["attempts"] > 0]
    retried = records[records["attempts"] > 1]
    waits_s = retried["retry_wait_s"].dropna().to_numpy()
    asked_s = records["asked_wait_s"].max()
    latency = latency_of(records[records["counted"]])
    row = LedgerRow(
        stage=stage,
        load=load,
        planned=len(records),
        ok=len(ok),
        failed=len(failed(records)),
        cancelled=_number_of(records, Outcome.CANCELLED),
        not_sent=_number_of(records, Outcome.NOT_SENT),
        sent=len(sent),
        attempts=int(records["attempts"].sum()),
        rate_limited_attempts=int(records["rate_limited_attempts"].sum()),
        refused_attempts=int(np.isin(statuses(sent), list(REFUSALS)).sum()),
        retried=len(retried),
        ok_after_retry=len(succeeded(retried)),
        retry_wait_mean_s=mean(waits_s),
        retry_wait_p95_s=percentile(waits_s, 0.95),
        retry_wait_s=float(records["retry_wait_s"].sum()),
        # Who left in a pause had waited longer than to the end of the last attempt.
        users_wait_s=float(sent[["elapsed_s", "retry_wait_s"]].max(axis=1).sum()),
        asked_wait_max_s=None if pd.isna(asked_s) else float(asked_s),
        useful_tokens=int(ok["completion_tokens"].sum()),
        useful_prompt_tokens=int(ok["prompt_tokens"].sum()),
        wasted_tokens=int(records["wasted_tokens"].sum()),
        wasted_prompt_tokens=int(records["wasted_prompt_tokens"].sum()),
        untold_attempts=untold_prompt_attempts(records),
        prompt_tokens_mean=prompt_tokens_mean,
        gave_up=_gave_up(records),
        attempt_ttft=latency["ttft_s"],
        user_ttft=latency["user_ttft_s"],
        faults=(*_unbalanced(records), *_miscounted(sent)),
    )
    return row


def _number_of(records: pd.DataFrame, outcome: Outcome) -> int:
    return int((records["outcome"] == outcome.value).sum())


def lost_values(
    records: pd.DataFrame, name: str
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """What a column has of attempts before the last: the place of each one's request, its value.

    Nothing of requests of which it was not recorded.
    """
    if name not in SEVERAL:
        raise ValueError(f"{name} is no column of lost attempts; take one of {', '.join(SEVERAL)}")
    found = [(n, v) for n, v in enumerate(records[name]) if v.__class__ in _LISTS and len(v)]
    places = np.repeat([n for n, _ in found], [len(v) for _, v in found]).astype(np.intp)
    return places, np.array([one for _, several in found for one in several], dtype=np.float64)


def statuses(sent: pd.DataFrame) -> npt.NDArray[np.float64]:
    """The statuses of all attempts of these requests; 0 where there was none."""
    _, lost = lost_values(sent, "lost_status")
    return np.concatenate([sent["status"].to_numpy(dtype=np.float64, na_value=0.0), lost])


def _gave_up(records: pd.DataFrame) -> dict[str, int]:
    """Why there was no further attempt, the most frequent reason first.

    The waits that servers ask for differ from answer to answer, the reason does not.
    """
    found = records["error_sample"].dropna().astype(str).map(_GAVE_UP.match).dropna()
    reasons = Counter(_WAIT_OVER_CAP.sub(r"\1 more than", match[1]) for match in found)
    return dict(reasons.most_common())


def _unbalanced(records: pd.DataFrame) -> list[str]:
    parts = (
        len(succeeded(records)),
        len(failed(records)),
        _number_of(records, Outcome.CANCELLED),
        _number_of(records, Outcome.NOT_SENT),
    )
    if sum(parts) == len(records):
        return []
    ok, bad, left, unsent = parts
    return [
        f"{len(records)} planned are not {ok} ok + {bad} failed + {left} cancelled + "
        f"{unsent} not sent"
    ]


def _miscounted(sent: pd.DataFrame) -> list[str]:
    """Attempts and 429s must be those that the records list; older records list none."""
    # As an array: an empty list would choose no column instead of no row.
    told = sent[np.array([v.__class__ in _LISTS for v in sent["lost_status"]], dtype=bool)]
    listed = statuses(told)
    faults = []
    for name, seen in (
        ("attempts", len(listed)),
        ("rate_limited_attempts", int((listed == 429).sum())),
    ):
        booked = int(told[name].sum())
        if booked != seen:
            words = "attempts" if name == "attempts" else "attempts answered 429"
            faults.append(f"{booked} {words} are booked, {seen} are listed")
    return faults
