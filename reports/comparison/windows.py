"""The held windows of one load cut into blocks of time, and what fell into each block.

Each worker has its own clock, so each one's window is cut on that clock; block k of the fleet is
block k of all workers. A level that was held twice is one window of both lengths.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from metrics.bootstrap import IntArray
from metrics.outcome import Outcome
from metrics.statistics import FloatArray
from reports.windows import Window, overlap_ratio

_OF_RATES = ("worker", "sent_s", "ended_s", "ttft_s", "e2e_latency_s", "completion_tokens")


@dataclass(frozen=True, slots=True)
class BlockRates:
    """Output tokens/s and successes/s in each block."""

    output_tokens_per_s: FloatArray
    completed_rps: FloatArray


class Blocks:
    """The windows of one load, by worker, in so many blocks."""

    def __init__(self, windows: Sequence[Window], blocks: int) -> None:
        self.blocks = blocks
        self._by_worker: dict[str, list[Window]] = {}
        for window in windows:
            if window.length_s > 0:
                self._by_worker.setdefault(window.worker, []).append(window)

    def of(self, held: pd.DataFrame) -> IntArray:
        """The block in which each request was started."""
        found = np.zeros(len(held), dtype=np.int64)
        workers = held["worker"].astype(str).to_numpy()
        started_s = held["started_s"].to_numpy()
        for worker, windows in self._by_worker.items():
            own = np.flatnonzero(workers == worker)
            total_s = sum(window.length_s for window in windows)
            place_s, before_s = np.zeros(len(own)), 0.0
            for window in windows:
                inside = started_s[own] >= window.begin_s
                place_s[inside] = before_s + np.minimum(
                    started_s[own][inside] - window.begin_s, window.length_s
                )
                before_s += window.length_s
            found[own] = np.clip(place_s / total_s * self.blocks, 0, self.blocks - 1).astype(
                np.int64
            )
        return found

    def rates(self, records: pd.DataFrame) -> BlockRates:
        """Rates by block, over the fleet; a request or token counts where it happened."""
        tokens, ended = np.zeros(self.blocks), np.zeros(self.blocks)
        ok = records.loc[records["outcome"] == Outcome.OK.value, list(_OF_RATES)]
        for worker, windows in self._by_worker.items():
            own = ok[ok["worker"] == worker]
            block_s = sum(window.length_s for window in windows) / self.blocks
            sent_s, ended_s = own["sent_s"].to_numpy(), own["ended_s"].to_numpy()
            first_s = sent_s + own["ttft_s"].fillna(0.0).to_numpy()
            last_s = sent_s + own["e2e_latency_s"].to_numpy()
            made = own["completion_tokens"].astype("float64").fillna(0.0).to_numpy()
            for block, begin_s, end_s in _pieces(windows, block_s, self.blocks):
                near = (ended_s >= begin_s) & (sent_s < end_s)
                share = overlap_ratio(first_s[near], last_s[near], begin_s, end_s)
                tokens[block] += float((made[near] * share).sum()) / block_s
                done = (ended_s >= begin_s) & (ended_s < end_s)
                ended[block] += float(done.sum()) / block_s
        return BlockRates(tokens, ended)


def _pieces(
    windows: Sequence[Window], block_s: float, blocks: int
) -> list[tuple[int, float, float]]:
    """(block, begin, end) of every stretch of one worker's clock; a block may span two windows."""
    pieces, passed_s = [], 0.0
    for window in windows:
        first = int(passed_s / block_s)
        last = min(blocks - 1, int((passed_s + window.length_s) / block_s))
        for block in range(first, last + 1):
            begin_s = max(window.begin_s, window.begin_s + block * block_s - passed_s)
            end_s = min(window.end_s, window.begin_s + (block + 1) * block_s - passed_s)
            if block == blocks - 1:
                end_s = window.end_s
            if end_s > begin_s:
                pieces.append((block, begin_s, end_s))
        passed_s += window.length_s
    return pieces
