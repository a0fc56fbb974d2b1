"""Arithmetic on the arrival times of one stream's output chunks."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_LUMP_TOKENS = 8
_LUMP_SHARE_OF_TTFT = 0.02
_LUMP_S_PER_TOKEN = 1e-4


def chunk_gaps_s(output_at_s: Sequence[float]) -> npt.NDArray[np.float64]:
    """Every gap between neighbouring output chunks, in seconds; empty below two chunks."""
    return np.diff(np.asarray(output_at_s, dtype=np.float64))


def max_gap_s(output_at_s: Sequence[float]) -> float | None:
    """The longest silence between two output chunks; None below two chunks."""
    gaps = chunk_gaps_s(output_at_s)
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
