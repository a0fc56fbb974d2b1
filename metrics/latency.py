"""Arithmetic on the arrival times of one stream's output chunks."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_LUMP_TOKENS = 8
_LUMP_SHARE_OF_TTFT = 0.02
_LUMP_S_PER_TOKEN = 1e-4


def chunk_gaps_s(output_at_s: Sequence[float]) -> npt.NDArray[np.float64]:
    """The gaps before the output chunks that were read by themselves, in seconds.

    Chunks with one and the same time came in one read, which bears the last one's time: when the
    others arrived is not known, so neither is any gap that ends in that read.
    """
    gaps: npt.NDArray[np.float64] = np.diff(np.asarray(output_at_s, dtype=np.float64))
    if gaps.all():
        return gaps
    # A gap of 0 lies within a read; the one before it ends in that read's first chunk.
    into_merged = np.append(gaps[1:] == 0, False)
    known: npt.NDArray[np.float64] = gaps[(gaps != 0) & ~into_merged]
    return known


def max_gap_s(output_at_s: Sequence[float]) -> float | None:
    """The longest silence between two reads with output; None below two.

    Before a read of several chunks the silence may have been shorter, never longer.
    """
    gaps = np.diff(np.asarray(output_at_s, dtype=np.float64))
    return float(gaps.max()) if gaps.size else None


def arrived_in_one_lump(output_at_s: Sequence[float], completion_tokens: int | None) -> bool:
    """Whether a stream of many tokens arrived all at once, so that its gaps mean nothing.

    A proxy that holds a stream back delivers every chunk together at the end: TTFT is then the
    whole latency and TPOT is near zero. Taken as such when 8 or more tokens came within 2 % of the
    time to the first and in under 0.1 ms a token, faster than any decode step.
    """
    if not output_at_s or completion_tokens is None or completion_tokens < _LUMP_TOKENS:
        return False
    span_s = output_at_s[-1] - output_at_s[0]
    return (
        span_s < _LUMP_SHARE_OF_TTFT * output_at_s[0]
        and span_s < _LUMP_S_PER_TOKEN * completion_tokens
    )
