"""Watches the present stage while it runs: what voids it is told to the search at once.

The report finds the same by its own rules afterwards; a search that went on from a void level
would have gone the wrong way by then.
"""

from collections.abc import Set

from hooks.level_watch import LevelWatch
from metrics.client_limit import client_limit
from metrics.stage import Phase, Stage
from metrics.tally import TallyBook

FEWEST_SAMPLES = 200
"""Of the event loop's lateness, four seconds' worth: of fewer the p99 is the one latest, and a
single hiccup of a busy host would void the stage for good."""


class StageGuard:
    """Voids stages in a watch: for a worker that was lost, or a client at its end."""

    def __init__(self, watch: LevelWatch) -> None:
        self._watch = watch
        self._stage: Stage | None = None
        self._phase: Phase | None = None
        self._workers: frozenset[str] = frozenset()

    def enter(self, stage: Stage, phase: Phase, workers: Set[str]) -> None:
        """A phase begins with these workers."""
        if self._stage is None or stage.id != self._stage.id or phase is Phase.RAMP:
            # Who is lost in the pause before a level takes no part in it.
            self._workers = frozenset(workers)
        self._stage, self._phase = stage, phase

    def check(self, workers: Set[str], book: TallyBook) -> None:
        """Look at the present stage; asked about once a second."""
        stage = self._stage
        if stage is None or self._phase in (Phase.DRAIN, Phase.IDLE):
            return
        lost = self._workers - workers
        if lost:
            self._watch.void(stage.id, f"worker {', '.join(sorted(lost))} was lost")
        tally = book.by_stage.get(stage.id)
        if tally is None or tally.health["loop_lag_s"].n < FEWEST_SAMPLES:
            return
        limit = client_limit(
            tally.health["loop_lag_s"].percentile(0.99),
            tally.health["cpu_ratio"].mean,
            self._watch.median_ttft_s(stage.id),
        )
        if limit is not None:
            self._watch.void(stage.id, limit, client_limited=True)
