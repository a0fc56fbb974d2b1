"""An open loop: requests come at a rate, whether or not the earlier ones were answered."""

from collections.abc import Sequence

from metrics.backlog import BacklogTrend, backlog_trend
from metrics.stage import Phase, Stage
from shapes.plan import Observation
from shapes.steps import Step, StepPlan


class OpenLoopPlan(StepPlan):
    """One step for each rate over the fleet; a rate that is not carried is the last.

    Rates are requests/s, or nominal tokens/s where ``tokens_per_request`` is given: how many a
    request has in the mean. There is one user on each of ``workers``, which sends that worker's
    share of the arrivals.
    """

    def __init__(
        self,
        rates: Sequence[float],
        hold_s: float,
        settle_s: float,
        workers: int,
        drain_limit_s: float,
        tokens_per_request: float | None = None,
    ) -> None:
        steps = [
            Step(rate_stage(number, workers, rate, tokens_per_request), settle_s, hold_s)
            for number, rate in enumerate(rates)
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


def rate_stage(
    number: int, workers: int, rate: float, tokens_per_request: float | None = None
) -> Stage:
    """A step of an open loop; the rate's unit is as in :class:`OpenLoopPlan`."""
    if tokens_per_request is None:
        return Stage(number, "rate", workers, rate)
    return Stage(number, "rate", workers, rate / tokens_per_request, rate)
