"""All figures of one run at one load, each with its resamples where it has enough behind it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from metrics.bootstrap import (
    FEWEST_BLOCKS,
    REPLICATES,
    Draws,
    IntArray,
    block_count,
    draw_blocks,
    quantile_draws,
    ratio_draws,
    share_variance,
)
from metrics.histogram import Histogram
from metrics.outcome import TokenSource
from metrics.prices import HOUR_S, MILLION, Prices, Tokens
from metrics.statistics import FloatArray, percentile, samples_needed
from reports.comparison.sides import Load, Side
from reports.comparison.windows import Blocks
from reports.counting import failed, succeeded
from reports.windows import held_windows

PER_BLOCK = 2
"""Fewest values of a quantile for each block, on average."""
_COLUMNS = (
    *("worker", "started_s", "elapsed_s", "think_s", "outcome", "streamed", "buffered"),
    *("read_mode", "token_source", "attempts", "rate_limited_attempts"),
    *("ttft_s", "tpot_s", "max_gap_s", "e2e_latency_s"),
    *("prompt_tokens", "cached_tokens", "completion_tokens"),
)
"""What is read of each request; a row has many more."""
_LATENCIES = (
    ("ttft", "ttft_s", (0.5, 0.95, 0.99), True),
    ("tpot", "tpot_s", (0.5, 0.95, 0.99), True),
    ("longest_gap", "max_gap_s", (0.5, 0.95), True),
    ("e2e_latency", "e2e_latency_s", (0.5, 0.95, 0.99), False),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of one run at one load; without ``draws``, ``why`` says what is missing."""

    value: float | None
    n: int
    draws: Draws | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class _Window:
    """What all figures of one load are taken from."""

    held: pd.DataFrame
    ok: pd.DataFrame
    streamed: pd.DataFrame
    block_of: Mapping[str, IntArray]
    times: IntArray
    blocks: Blocks
    short: str | None
    seconds: float


def figures_of(side: Side, load: Load, rng: np.random.Generator) -> dict[str, Measured]:
    """Every figure that the run has at the load, by the metric's name; none for an empty load."""
    window = _window(side, load, rng)
    if window is None:
        return {}
    found: dict[str, Measured] = {}
    for stem, column, quantiles, streams_only in _LATENCIES:
        _latencies(found, window, stem, column, quantiles, streams_only)
    _gaps(found, side, load)
    _rates(found, window, side)
    _shares(found, window)
    _token_cost(found, window, _prices(side))
    return found


def _window(side: Side, load: Load, rng: np.random.Generator) -> _Window | None:
    run = side.run
    windows = held_windows(run.marks, run.records)
    own = [w for stage in load.stages for w in windows.get(stage, []) if w.length_s > 0]
    records = run.records
    counted = records["counted"] & records["stage"].isin(load.stages)
    held = records.loc[counted, list(_COLUMNS)]
    if not own or not len(held):
        return None
    seconds = sum(w.length_s for w in own) / len({w.worker for w in own})
    cycle_s = float((held["elapsed_s"] + held["think_s"].fillna(0.0)).mean())
    count = block_count(seconds, cycle_s)
    short = None
    if count < FEWEST_BLOCKS:
        short = (
            f"held for {seconds:.0f} s, {seconds / cycle_s:.1f} answers of a user: "
            f"an interval needs {FEWEST_BLOCKS}, so hold for {math.ceil(FEWEST_BLOCKS * cycle_s)} s"
        )
    blocks = Blocks(own, max(count, 1))
    ok = succeeded(held)
    streamed = ok[ok["streamed"]]
    return _Window(
        held=held,
        ok=ok,
        streamed=streamed,
        block_of={
            "held": blocks.of(held),
            "ok": blocks.of(ok),
            "streamed": blocks.of(streamed),
        },
        times=draw_blocks(max(count, 1), REPLICATES, rng),
        blocks=blocks,
        short=short,
        seconds=seconds,
    )


def _measured(
    window: _Window, value: float | None, n: int, draws: Callable[[], Draws | None]
) -> Measured:
    if window.short is not None:
        return Measured(value, n, None, window.short)
    return Measured(value, n, draws())


def _latencies(
    found: dict[str, Measured],
    window: _Window,
    stem: str,
    column: str,
    quantiles: tuple[float, ...],
    streams_only: bool,
) -> None:
    name = "streamed" if streams_only else "ok"
    frame = window.streamed if streams_only else window.ok
    values = frame[column].to_numpy(dtype=np.float64)
    block_of = window.block_of[name]
    if stem == "longest_gap":
        # Only fully read streams know their gaps, and one lump has none.
        known = ~frame["buffered"].to_numpy(dtype=bool) & (frame["read_mode"] == "full").to_numpy()
        values = np.where(known, values, np.nan)
    here = ~np.isnan(values)
    values, block_of = values[here], block_of[here]
    if not len(values):
        return
    enough = {
        q: len(values) >= max(samples_needed(q), PER_BLOCK * window.blocks.blocks)
        for q in quantiles
    }
    judged = [] if window.short else [q for q in quantiles if enough[q]]
    draws = dict(zip(judged, quantile_draws(values, block_of, window.times, judged), strict=True))
    for q in quantiles:
        needed = max(samples_needed(q), PER_BLOCK * window.blocks.blocks)
        few = None if enough[q] else f"{len(values):,} of {needed:,} requests"
        found[f"{stem}_p{round(100 * q)}_s"] = Measured(
            percentile(values, q), len(values), draws.get(q), window.short or few
        )


def _gaps(found: dict[str, Measured], side: Side, load: Load) -> None:
    """Every gap, from the tallies: their histogram has no times, so there is no interval."""
    whole = Histogram()
    for stage in load.stages if side.run.book is not None else ():
        tally = side.run.book.by_stage.get(stage) if side.run.book is not None else None
        if tally is not None:
            whole.merge(tally.latency["chunk_gap_s"])
    why = "gaps are kept as a histogram without their times; see the longest gap"
    for name, q in (("chunk_gap_p50_s", 0.5), ("chunk_gap_p99_s", 0.99)):
        if whole.n:
            found[name] = Measured(whole.percentile(q), whole.n, None, why)


def _rates(found: dict[str, Measured], window: _Window, side: Side) -> None:
    rates = window.blocks.rates(side.run.records)
    ones = np.ones(window.blocks.blocks)
    untold = int((window.ok["token_source"] == TokenSource.UNKNOWN.value).sum())
    n = len(window.ok)
    if n and untold < n:
        value = float(rates.output_tokens_per_s.mean())
        # Rates of so few blocks as a window has are not told apart from their blocks.
        found["output_tokens_per_s"] = _measured(
            window, value, n, lambda: ratio_draws(rates.output_tokens_per_s, ones, window.times)
        )
        _gpu_cost(found, window, rates.output_tokens_per_s, _prices(side))
    found["completed_rps"] = _measured(
        window,
        float(rates.completed_rps.mean()),
        n,
        lambda: ratio_draws(rates.completed_rps, ones, window.times),
    )


def _shares(found: dict[str, Measured], window: _Window) -> None:
    held, count = window.held, window.blocks.blocks
    bad = held.index.isin(failed(held).index).astype(float)
    attempts = held["attempts"].to_numpy(dtype=np.float64)
    limited = held["rate_limited_attempts"].to_numpy(dtype=np.float64)
    parts = (
        ("failed_ratio", bad, np.ones(len(held))),
        ("rate_limited_ratio", limited, attempts),
    )
    for name, part, whole in parts:
        _share(found, window, name, (part, whole), window.block_of["held"], count)
    known = window.ok["cached_tokens"].notna() & window.ok["prompt_tokens"].notna()
    if known.any():
        here = known.to_numpy(dtype=bool)
        cached = window.ok["cached_tokens"].to_numpy(dtype=np.float64, na_value=np.nan)[here]
        prompt = window.ok["prompt_tokens"].to_numpy(dtype=np.float64, na_value=np.nan)[here]
        _share(found, window, "cached_ratio", (cached, prompt), window.block_of["ok"][here], count)


def _share(
    found: dict[str, Measured],
    window: _Window,
    name: str,
    sums: tuple[FloatArray, FloatArray],
    block_of: IntArray,
    count: int,
) -> None:
    parts, wholes = (_by_block(block_of, x, count) for x in sums)
    whole, n = float(wholes.sum()), len(sums[0])
    if not whole:
        return
    # A prompt is cached as one: most of a cached share's variance is in no binomial.
    events = 0.0 if name == "cached_ratio" else float(parts.sum()) / whole * n
    least = share_variance(events, n)
    found[name] = _measured(
        window,
        float(parts.sum()) / whole,
        n,
        lambda: ratio_draws(parts, wholes, window.times, least),
    )


def _by_block(block_of: IntArray, values: FloatArray, count: int) -> FloatArray:
    return np.bincount(block_of, weights=values, minlength=count).astype(np.float64)


def _prices(side: Side) -> Prices | None:
    return side.report.cost.prices if side.report.cost is not None else None


def _token_cost(found: dict[str, Measured], window: _Window, prices: Prices | None) -> None:
    """All that was paid by tokens, prompts too, per million completion tokens."""
    if prices is None or prices.per_m_in is None:
        return
    told = window.ok["token_source"] != TokenSource.UNKNOWN.value
    ok, block_of = window.ok[told], window.block_of["ok"][told.to_numpy(dtype=bool)]
    count = window.blocks.blocks

    def by_block(name: str) -> FloatArray:
        values = ok[name].astype("float64").fillna(0.0).to_numpy()
        return _by_block(block_of, values, count)

    names = ("prompt_tokens", "cached_tokens", "completion_tokens")
    sums = tuple(map(by_block, names))
    cost = np.array([prices.of_tokens(Tokens(*each)) or 0.0 for each in zip(*sums, strict=True)])
    made = sums[2]
    if made.sum() > 0:
        found["cost_per_m_tokens"] = _measured(
            window,
            float(cost.sum() / made.sum() * MILLION),
            len(ok),
            lambda: ratio_draws(cost * MILLION, made, window.times),
        )


def _gpu_cost(
    found: dict[str, Measured], window: _Window, tokens_per_s: FloatArray, prices: Prices | None
) -> None:
    if prices is None or prices.gpu_hour is None or tokens_per_s.sum() <= 0:
        return
    per_s = prices.gpu_hour * prices.gpus / HOUR_S
    paid = np.full(window.blocks.blocks, per_s * MILLION)
    found["cost_per_m_gpu"] = _measured(
        window,
        float(paid.sum() / tokens_per_s.sum()),
        len(window.ok),
        lambda: ratio_draws(paid, tokens_per_s, window.times),
    )
