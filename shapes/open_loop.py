"""An open loop: requests come at a rate, whether or not the earlier ones were answered."""

from collections.abc import Sequence

from metrics.backlog import BacklogTrend, backlog_trend
from metrics.stage import Phase, Stage
from shapes.plan import Observation
from shapes.steps import Step, StepPlan


class OpenLoopPlan(StepPlan):
    """One step for each rate (requests/s over the fleet); a rate that is not carried is the last.

    There is one user on each of ``workers``, which sends that worker's share of the arrivals.
    """

    def __init__(
        self,
        rates_rps: Sequence[float],
        hold_s: float,
        settle_s: float,
        workers: int,
        drain_limit_s: float,
    ) -> None:
        steps = [
            Step(Stage(number, "rate", workers, rate), settle_s, hold_s)
            for number, rate in enumerate(rates_rps)
        ]
        super().__init__(steps, float(workers), drain_limit_s)
        self._samples: list[tuple[float, int]] = []
        self._sampled_stage = -1
        self.trend: BacklogTrend | None = None
        """Of the step that was stopped because its backlog grew; None when none was."""

    def _ends_early(self, seen: Observation) -> bool:
        stage = self._steps[self._position].stage
        if stage.id != self._sampled_stage:
            self._sampled_stage, self._samples = stage.id, []
        if seen.in_flight is None:
            return False
        self._samples.append((seen.now_s, seen.in_flight))
        if self._phase is not Phase.HOLD:
            return False
        trend = backlog_trend(*zip(*self._samples, strict=True), stage.rate_rps or 0.0)
        if trend is None or not trend.unstable:
            return False
        self.trend = trend
        return True
