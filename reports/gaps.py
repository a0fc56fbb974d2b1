"""Gaps between output chunks: too many for the records, so that histograms answer, within 1 %."""

from collections.abc import Iterable

from metrics.histogram import Histogram
from metrics.statistics import QUANTILES, Summary, samples_needed, summarise
from metrics.tally import TallyBook


def all_gaps(book: TallyBook | None) -> Summary:
    """Of all held windows together; without a value when the run has no tallies."""
    return _summary(_histograms(book))


def gaps_by_stage(book: TallyBook | None) -> dict[int, Summary]:
    """Of each stage that has any, by its id."""
    if book is None:
        return {}
    return {
        stage: _summary([tally.latency["chunk_gap_s"]])
        for stage, tally in book.by_stage.items()
        if tally.latency["chunk_gap_s"].n
    }


def _histograms(book: TallyBook | None) -> Iterable[Histogram]:
    return [tally.latency["chunk_gap_s"] for tally in book.by_stage.values()] if book else []


def _summary(parts: Iterable[Histogram]) -> Summary:
    merged = Histogram()
    for part in parts:
        merged.merge(part)
    if not merged.n:
        return summarise([])
    return Summary(
        n=merged.n,
        mean=merged.mean,
        max=merged.maximum,
        flags=tuple(f"{name}:few" for name, q in QUANTILES if merged.n < samples_needed(q)),
        intervals={},
        **{name: merged.percentile(q) for name, q in QUANTILES},
    )
