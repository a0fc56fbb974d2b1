"""Exact counts and tables of failures from the table of requests."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from metrics.outcome import Outcome
from metrics.slo import SloLimit
from metrics.statistics import Summary, summarise
from metrics.tally import Counts
from reports.model import CacheUse, FailureRow, Lengths, ModeRow

LATENCY_COLUMNS = (
    "ttft_s",
    "ttfa_s",
    "tpot_s",
    "e2e_latency_s",
    "user_ttft_s",
    "user_latency_s",
    "client_wait_s",
)
OF_COUNTS = (
    *LATENCY_COLUMNS,
    *("stage", "counted", "outcome", "streamed", "stream_asked", "end_s", "chunks"),
    *("attempts", "rate_limited_attempts", "reconnects", "connections_opened"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "wasted_tokens"),
    *("wasted_prompt_tokens", "finish_reason", "token_source"),
)
"""Columns for counts, latencies and goodput: rows of all columns are slow to pick."""
_NEVER_SENT = {outcome.value for outcome in Outcome if not outcome.reached_wire}
_FAILED = {outcome.value for outcome in Outcome if outcome.failed}
STREAMED_ONLY = frozenset({"ttft_s", "ttfa_s", "tpot_s", "user_ttft_s"})


def succeeded(records: pd.DataFrame) -> pd.DataFrame:
    """The rows of successes."""
    return records[records["outcome"] == Outcome.OK.value]


def failed(records: pd.DataFrame) -> pd.DataFrame:
    """The rows of failures; what we cancelled ourselves is none."""
    return records[records["outcome"].isin(_FAILED)]


def counts_of(records: pd.DataFrame) -> Counts:
    """The same counts as the tallies', from the records."""
    outcome = records["outcome"]
    ok = (outcome == Outcome.OK.value).to_numpy(dtype=np.bool_)
    left = (outcome == Outcome.CANCELLED.value).to_numpy(dtype=np.bool_)
    again = (records["attempts"] > 1).to_numpy(dtype=np.bool_)
    asked = (records["stream_asked"] & ~records["streamed"]).to_numpy(dtype=np.bool_)

    def total(name: str, of: npt.NDArray[np.bool_] | None = None) -> int:
        return int((records[name] if of is None else records[name][of]).sum())

    def kinds(name: str, missing: str | None = None) -> Counter[str]:
        values = records[name][ok]
        values = values if missing is None else values.fillna(missing)
        return Counter(values.value_counts().to_dict())

    return Counts(
        offered=len(records),
        sent=int((~outcome.isin(_NEVER_SENT) & (records["attempts"] > 0)).sum()),
        ok=int(ok.sum()),
        failed=int(outcome.isin(_FAILED).sum()),
        cancelled=int(left.sum()),
        attempts=total("attempts"),
        rate_limited_attempts=total("rate_limited_attempts"),
        retried=int(again.sum()),
        ok_after_retry=int((ok & again).sum()),
        wasted_tokens=total("wasted_tokens"),
        wasted_prompt_tokens=total("wasted_prompt_tokens"),
        failed_prompt_tokens=total("prompt_tokens", ~ok),
        failed_cached_tokens=total("cached_tokens", ~ok),
        failed_completion_tokens=total("completion_tokens", ~ok),
        cancelled_chunks=total("chunks", left),
        reconnects=total("reconnects"),
        connections_opened=total("connections_opened"),
        asked_stream_got_json=int((ok & asked).sum()),
        prompt_tokens=total("prompt_tokens", ok),
        completion_tokens=total("completion_tokens", ok),
        cached_tokens=total("cached_tokens", ok),
        by_outcome=Counter(outcome.value_counts().to_dict()),
        by_finish_reason=kinds("finish_reason", missing="none"),
        token_sources=kinds("token_source"),
    )


def untold_prompt_attempts(records: pd.DataFrame) -> int:
    """Attempts of requests of which no answer told the prompt tokens, so that they were in vain."""
    untold = records["prompt_tokens"].isna() & ~records["outcome"].isin(_NEVER_SENT)
    return int(records.loc[untold & (records["outcome"] != Outcome.OK.value), "attempts"].sum())


def mean_prompt_tokens(records: pd.DataFrame) -> float | None:
    """Of the successes that tell; None when none does."""
    ok = records["outcome"] == Outcome.OK.value
    told = records["prompt_tokens"][ok].dropna()
    return float(told.mean()) if len(told) else None


def latency_of(records: pd.DataFrame) -> dict[str, Summary]:
    """Summaries of successes; a metric of streams has samples from streams alone.

    Each says how many of the requests that should have had it failed, because an endpoint that
    refuses what it cannot serve well has fine percentiles.
    Several levels together get no intervals: their sections would compare the levels.
    """
    ok = (records["outcome"] == Outcome.OK.value).to_numpy(dtype=np.bool_)
    bad = records["outcome"].isin(_FAILED)
    streamed = ok & records["streamed"].to_numpy(dtype=np.bool_)
    bad_streams = int((bad & records["stream_asked"]).sum())
    found = {
        name: summarise(records[name].to_numpy()[streamed], bad_streams)
        if name in STREAMED_ONLY
        else summarise(records[name].to_numpy()[ok], int(bad.sum()))
        for name in LATENCY_COLUMNS
    }
    if records["stage"][ok].nunique() > 1:
        return {name: replace(summary, intervals={}) for name, summary in found.items()}
    return found


MOST_CODES = 10
"""Of one outcome and status, so many error codes have a row of their own."""


def lengths_of(records: pd.DataFrame) -> Lengths:
    """Asked against got, over all successes whose tokens the server counted."""
    told = ["asked_max_tokens", "completion_tokens"]
    ok = succeeded(records[["outcome", *told]]).dropna(subset=told)
    return Lengths(
        n=len(ok),
        asked_tokens=int(ok["asked_max_tokens"].sum()),
        completion_tokens=int(ok["completion_tokens"].sum()),
        short=int((ok["completion_tokens"] < ok["asked_max_tokens"]).sum()),
    )


def cache_of(records: pd.DataFrame) -> CacheUse:
    """The server's prefix cache, over all successes that told of it."""
    told = ["cached_tokens", "prompt_tokens"]
    ok = succeeded(records[["outcome", *told]])
    known = ok.dropna(subset=told)
    cached, prompt = int(known["cached_tokens"].sum()), int(known["prompt_tokens"].sum())
    return CacheUse(
        known=len(known),
        unknown=len(ok) - len(known),
        cached_tokens=cached,
        prompt_tokens=prompt,
        ratio=cached / prompt if prompt else None,
    )


def modes_of(records: pd.DataFrame) -> tuple[ModeRow, ...]:
    """A row for each user class and for whether its answers really came as streams.

    A failure belongs to what was asked for.
    """
    asked = ("user_class", "streamed", "stream_asked", "stage", "outcome")
    records = records[[*asked, *LATENCY_COLUMNS]]
    ok, bad = succeeded(records), failed(records)
    rows = []
    for (user_class, streamed), part in ok.groupby(["user_class", "streamed"], observed=True):
        mode = "streamed" if streamed else "plain"
        of_class = (bad["user_class"] == user_class) & (bad["stream_asked"] == streamed)
        rows.append(ModeRow(mode, str(user_class), latency_of(pd.concat([part, bad[of_class]]))))
    return tuple(rows)


def failures_of(records: pd.DataFrame) -> tuple[FailureRow, ...]:
    """Failures by kind, the most frequent first; of many codes of one kind the rare ones are one.

    Some servers put a request's own number into the code.
    """
    rows = []
    bad = failed(records[["outcome", "status", "error_code", "error_sample", "elapsed_s"]])
    keys = ["outcome", "status", _few_codes(bad)]
    for (outcome, status, code), part in bad.groupby(keys, dropna=False, observed=True):
        samples = part["error_sample"].dropna()
        rows.append(
            FailureRow(
                outcome=str(outcome),
                status=None if pd.isna(status) else int(status),
                error_code=None if pd.isna(code) else str(code),
                count=len(part),
                latency=summarise(part["elapsed_s"].dropna().to_numpy()),
                sample=str(samples.iloc[0]) if len(samples) else None,
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.count))


def _few_codes(bad: pd.DataFrame) -> pd.Series:
    """The error codes, those beyond the most frequent of an outcome and status put together."""
    codes = bad["error_code"].astype(object)
    for _, part in bad.groupby(["outcome", "status"], dropna=False, observed=True):
        rare = part["error_code"].value_counts().index[MOST_CODES:]
        if len(rare) > 1:
            chosen = part.index[part["error_code"].isin(rare)]
            codes.loc[chosen] = f"{len(rare):,} other codes"
    return codes


def good_requests(records: pd.DataFrame, limits: Sequence[SloLimit]) -> pd.Series | None:
    """Whether each request met the objectives, as ``metrics.slo.request_is_good`` judges one.

    None when no objective speaks of single requests.
    """
    if not any(lim.statistic or lim.metric == "good_ratio" for lim in limits):
        return None
    good = records["outcome"] == Outcome.OK.value
    for limit in limits:
        if limit.metric in LATENCY_COLUMNS:
            values = records[limit.metric]
            good &= values.isna() | (
                values <= limit.limit if limit.below else values >= limit.limit
            )
    return good
