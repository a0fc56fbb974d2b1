"""What a run's load costs: from its records and prices to sentences, a table and plain values."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pandas as pd

from metrics.cost import (
    CostReport,
    CostRow,
    RunCost,
    RunUse,
    StageUse,
    cost_rows,
    run_costs,
)
from metrics.outcome import Outcome
from metrics.prices import CostKind, Prices, Tokens, money
from metrics.run_files import RUN_JSON, RunFileError
from reports.counting import OF_COUNTS, counts_of, mean_prompt_tokens, untold_prompt_attempts
from reports.loads import load_name
from reports.model import StageRow
from reports.wording import MISSING, count, number

COST_COLUMNS = (
    "load",
    "paid by",
    "held s",
    "output tokens",
    "cost of them",
    "per M input",
    "per M output",
    "per M of both",
    "per 1,000 ok",
    "remarks",
)
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_WORDS = {CostKind.TOKENS: "tokens", CostKind.GPU: "GPU hours"}
_REFUSED = {
    Outcome.RATE_LIMITED,
    Outcome.QUOTA_EXHAUSTED,
    Outcome.OVERLOADED,
    Outcome.SERVER_ERROR,
    Outcome.CLIENT_ERROR,
    Outcome.CONTEXT_LENGTH,
    Outcome.AUTH,
    Outcome.NOT_FOUND,
}
# An answer with an error's status is not billed; one that broke off may have been.
_MAY_BE_BILLED = {o.value for o in Outcome if o.reached_wire and o not in _REFUSED}


def cost_of(
    records: pd.DataFrame, meta: Mapping[str, Any], rows: Sequence[StageRow]
) -> CostReport | None:
    """The cost of a run and of each of its stages; None when no price is stored with it.

    Raises:
        RunFileError: the stored prices do not go together.
    """
    options = meta.get("settings") or {}
    try:
        prices, budget = Prices.from_options(options), float(options.get("budget") or 0.0)
    except (TypeError, ValueError) as error:
        raise RunFileError(f"the prices in {RUN_JSON} cannot be used: {error}") from None
    if not prices.given:
        return None
    use = _use_of(records, meta)
    return CostReport(
        prices=prices,
        rows=cost_rows(prices, _stage_uses(records, rows)),
        runs=run_costs(prices, use),
        budget=budget or None,
    )


def _stage_uses(records: pd.DataFrame, rows: Iterable[StageRow]) -> Iterable[StageUse]:
    held = records[list(OF_COUNTS)][records["counted"]]
    for row in rows:
        yield StageUse(
            stage=row.stage,
            users=row.target_users,
            rate_rps=row.rate_rps,
            rate_tokens_per_s=row.rate_tokens_per_s,
            window_s=row.window_s,
            output_tokens_per_s=row.output_tokens_per_s,
            completed_rps=row.completed_rps,
            counts=counts_of(held[held["stage"] == row.stage]),
        )


def _use_of(records: pd.DataFrame, meta: Mapping[str, Any]) -> RunUse:
    billed = records["outcome"].isin(_MAY_BE_BILLED) & (records["attempts"] > 0)
    # Whoever left in a pause after a 429 had no answer that anybody bills.
    billed &= ~(records["status"] >= 400).fillna(False).astype(bool)
    told = records["prompt_tokens"].notna() & records["completion_tokens"].notna()
    lost = records[list(_TOKENS)][records["outcome"] != Outcome.OK.value]
    sent, made = (int(records[name].sum()) for name in ("wasted_prompt_tokens", "wasted_tokens"))
    sent += round(untold_prompt_attempts(records) * (mean_prompt_tokens(records) or 0.0))
    seconds, ended = _seconds(records, meta)
    return RunUse(
        tokens=_tokens(records),
        wasted=_tokens(lost),
        in_vain=Tokens(sent, 0, made),
        unknown_requests=int((billed & ~told).sum()),
        cache_untold=int((told & records["cached_tokens"].isna()).sum()),
        seconds=seconds,
        ended=ended,
    )


def _tokens(records: pd.DataFrame) -> Tokens:
    return Tokens(*(int(records[name].sum()) for name in _TOKENS))


def _seconds(records: pd.DataFrame, meta: Mapping[str, Any]) -> tuple[float | None, bool]:
    """How long the run took, and whether it came to its end.

    The wall clock may have been set back meanwhile: never less than the workers' own clocks say.
    """
    seen_s = float(records["ended_s"].max()) if len(records) else None
    try:
        began = datetime.fromisoformat(str(meta.get("started_at")))
        wall_s = (datetime.fromisoformat(str(meta.get("ended_at"))) - began).total_seconds()
    except (ValueError, TypeError):
        return seen_s, False
    return max(wall_s, seen_s or 0.0), True


def cost_sentences(
    report: CostReport | None, usable: Collection[int], most_users: float | None
) -> tuple[str, ...]:
    """What a million output tokens cost at a level worth running, and what the test cost.

    ``usable`` are the stages whose figures may be cited; ``most_users`` is the knee, or what the
    endpoint carries at least.
    """
    if report is None:
        return ()
    sentences = []
    for kind in report.prices.kinds:
        rows = [r for r in report.rows if r.kind is kind and r.stage in usable]
        sentences.append(_level_sentence(report.prices, rows, most_users))
    sentences += [_run_sentence(report, run) for run in report.runs]
    return tuple(sentence for sentence in sentences if sentence)


def _level_sentence(
    prices: Prices, rows: Sequence[CostRow], most_users: float | None
) -> str | None:
    priced = [row for row in rows if row.per_m_out is not None]
    if not priced:
        return None
    least = min(priced, key=lambda row: row.per_m_out or 0.0)
    limit = float("inf") if most_users is None else most_users * 1.05
    below = [row for row in priced if row.rate_rps is None and row.users <= limit]
    row = max(below, key=lambda row: row.users) if most_users is not None and below else least
    gpu = row.kind is CostKind.GPU
    bound = "at most " if gpu and row.unknown_requests else ""
    how = _gpus(prices) if gpu else "by token prices, their prompts included"
    text = (
        f"A million output tokens cost {bound}{money(row.per_m_out, prices.currency)} "
        f"at {_load(row)} ({how})"
    )
    if gpu and least is not row:
        text += f"; the least is {money(least.per_m_out, prices.currency)} at {_load(least)}"
    return text + "."


def _run_sentence(report: CostReport, run: RunCost) -> str:
    prices, budget, use = report.prices, report.budget, run.use
    sign = prices.currency
    gpu = run.kind is CostKind.GPU
    if run.cost is None:
        why = (
            "no time is known"
            if gpu
            else f"none of {count(use.unknown_requests, 'request')} told its tokens"
        )
        return f"What this test cost by {_WORDS[run.kind]} is unknown: {why}."
    text = f"This test cost {'at least ' if run.at_least else ''}{money(run.cost, sign)}"
    if gpu:
        text += f" by GPU hours, {number(use.seconds)} s of {_gpus(prices)}"
    else:
        text += " by token prices"
    if budget is not None:
        within = "as far as is known within" if run.at_least else "within"
        text += f", {'over' if run.cost > budget else within} the budget of {money(budget, sign)}"
    if run.wasted:
        text += f"; {money(run.wasted, sign)} of it brought no answer"
    if run.in_vain and run.in_vain > (run.wasted or 0.0):
        text += f"; all attempts without an answer, were they billed, {money(run.in_vain, sign)}"
    if not gpu and use.unknown_requests:
        text += f"; {count(use.unknown_requests, 'request')} told no tokens and may be billed"
    if not gpu and use.cache_untold and prices.per_m_cached is not None:
        text += f"; {count(use.cache_untold, 'answer')} told no cached tokens and got no discount"
    return text + "."


def cost_table(report: CostReport | None) -> tuple[tuple[str, ...], ...]:
    """The rows of the table of stages, as text under ``COST_COLUMNS``; none without prices."""
    if report is None:
        return ()

    def sum_of(value: float | None) -> str:
        return money(value, report.prices.currency)

    return tuple(
        (
            _load(row),
            _WORDS[row.kind],
            number(row.window_s),
            MISSING if row.tokens is None else number(row.tokens.completion, 0),
            sum_of(row.cost),
            sum_of(row.per_m_in),
            sum_of(row.per_m_out),
            sum_of(row.per_m_total),
            sum_of(row.per_1000_ok),
            f"{row.unknown_requests:,} without usage" if row.unknown_requests else "",
        )
        for row in report.rows
    )


def cost_values(report: CostReport | None) -> dict[str, Any]:
    """The same as plain values for ``summary.json``; empty when no price is given."""
    if report is None:
        return {}
    return {
        "prices": asdict(report.prices),
        "budget": report.budget,
        "stages": [{**asdict(row), "tokens": _plain(row.tokens)} for row in report.rows],
        "run": [
            {
                "kind": run.kind.value,
                "cost": run.cost,
                "wasted": run.wasted,
                "in_vain": run.in_vain,
                "at_least": run.at_least,
                "tokens": _plain(run.use.tokens),
                "wasted_tokens": _plain(run.use.wasted),
                "in_vain_tokens": _plain(run.use.in_vain),
                "unknown_requests": run.use.unknown_requests,
                "cache_untold": run.use.cache_untold,
                "seconds": run.use.seconds,
            }
            for run in report.runs
        ],
    }


def _plain(tokens: Tokens | None) -> dict[str, float] | None:
    """Without the cached ones: where servers do not tell them, 0 would be a lie."""
    if tokens is None:
        return None
    return {"prompt": tokens.prompt, "completion": tokens.completion}


def _gpus(prices: Prices) -> str:
    return f"{count(prices.gpus, 'GPU')} at {money(prices.gpu_hour, prices.currency)} an hour"


def _load(row: CostRow) -> str:
    return load_name(row.users, row.rate_rps, row.rate_tokens_per_s)
