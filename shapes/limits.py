"""The search for a rate limit as a load plan: holds the steps that are wanted, then drains."""

import math
from collections.abc import Mapping
from dataclasses import replace

from metrics.backlog import backlog_trend
from metrics.rate_bracket import LimitStep, RateBracket, limit_step, rate_bracket
from metrics.stage import Phase, Stage
from shapes.limits_search import (
    Estimate,
    LimitsBounds,
    LimitsEnd,
    LimitsSearch,
    StepOrder,
    longest_asked_wait_s,
)
from shapes.open_loop import rate_stage
from shapes.plan import Directive, Measured, Observation, Progress, ramp_limit_s
from shapes.plan_parts import SearchedPlan

ENOUGH_REFUSED = 20
"""429s after which a limited step shows nothing more."""
LAG_S = 2.0
"""Until what is sent is known here and what is announced is known there."""
LEAST_ROOM_S = 5.0
"""A step begins when the budget has room for so much of it; a limited one needs no more."""
GROWS_HOLDS = 4.0
"""A step that fills up is held on for so many times its length, 30 s at least."""
HOPELESS_FAILURES = 40
HOPELESS_RATIO = 0.2
"""The search ends when so many, and this share, fail by anything but a 429."""


class LimitsPlan(SearchedPlan):
    """Steps of an open loop with one user on each of ``workers``; then a drain.

    ``estimate`` says which limits explain the attempts so far. ``drain_limit_s`` bounds each wait
    for answers under way.
    """

    def __init__(
        self, bounds: LimitsBounds, estimate: Estimate, workers: int, drain_limit_s: float
    ) -> None:
        super().__init__()
        self._bounds = bounds
        self._search = LimitsSearch(bounds, estimate)
        self._workers = workers
        self._drain_limit_s = drain_limit_s
        self._orders: list[StepOrder] = []
        self._whole: list[bool] = []
        self._offered: list[float] = []
        self._phase = Phase.RAMP
        self._reason = ""
        self._began_s: float | None = None
        self._run_began_s = 0.0
        self._began_with = 0
        self._samples: list[tuple[float, int]] = []
        self._steps: tuple[LimitStep, ...] = ()
        self._ended_by: str | None = None

    @property
    def void_reasons(self) -> Mapping[int, str]:
        """None is set aside."""
        return {}

    @property
    def ended_by(self) -> str | None:
        """What ended the search before the limit was bracketed, as a sentence; else None."""
        return self._ended_by

    @property
    def steps(self) -> tuple[LimitStep, ...]:
        """What each step that is over showed."""
        return self._steps

    @property
    def bracket(self) -> RateBracket:
        """Between which rates the limit lies, as far as it is known."""
        return rate_bracket(self._steps)

    def next(self, seen: Observation) -> Directive | None:
        """The directive from now on; None when the drain is over."""
        if self._began_s is None:
            self._run_began_s = seen.now_s
            self._begin(self._search.next((), None, None), seen)
        if self._phase is Phase.DRAIN:
            if seen.users == 0 or self._for_s(seen) >= self._drain_limit_s:
                return None
        elif self._phase is Phase.IDLE:
            alone = seen.users == 0 or self._for_s(seen) >= self._drain_limit_s
            if alone and self._for_s(seen) >= self._orders[-1].pause_s:
                self._enter(Phase.RAMP, seen)
        elif self._phase is Phase.RAMP:
            self._ramp(seen)
        else:
            self._hold(seen)
        return Directive(self._stages[-1], self._phase, float(self._workers), self._reason)

    def _for_s(self, seen: Observation) -> float:
        return seen.now_s - (self._began_s or 0.0)

    def _ramp(self, seen: Observation) -> None:
        if seen.users == self._workers:
            self._enter(Phase.HOLD, seen)
            return
        change = self._workers - self._began_with
        if self._for_s(seen) > ramp_limit_s(change, float(self._workers), self._drain_limit_s):
            self._not_reached.add(self._stages[-1].id)
            self._end("its users never all ran", seen)

    def _hold(self, seen: Observation) -> None:
        """One look at the step under way: whether it is over, and what comes next."""
        measured, stage = seen.measured, self._stages[-1]
        if seen.in_flight is not None:
            self._samples.append((seen.now_s, seen.in_flight))
        if measured is None:
            return
        self._offered[-1] = self._rps(stage) * self._for_s(seen)
        progress = measured.progress(stage.id)
        step = self._step(stage, measured)
        trouble = self._trouble(progress, step, seen)
        over = self._for_s(seen) >= self._orders[-1].hold_s and not self._still_fills(step, seen)
        if trouble is None and over and not step.limited and self._client_limited(seen, measured):
            trouble = f"this client is at its end at {self._bounds.text(self._orders[-1].rate)}"
        if trouble is not None:
            self._whole[-1] = step.limited
            self._steps = self._all_steps(measured)
            self._end(trouble, seen)
        elif over or (step.limited and step.refused >= ENOUGH_REFUSED):
            self._whole[-1] = True
            self._steps = self._all_steps(measured)
            asked_wait_s = longest_asked_wait_s(measured.attempts(stage.id))
            wish = self._search.next(self._steps, measured.attempts(), asked_wait_s)
            self._begin(wish, seen)

    def _client_limited(self, seen: Observation, measured: Measured) -> bool:
        return measured.level(self._stages[-1], self._for_s(seen)).client_limited

    def _trouble(self, progress: Progress, step: LimitStep, seen: Observation) -> str | None:
        """Why the search cannot go on; None when it can."""
        if progress.spoilt:
            return "a worker was lost, so that less is offered than asked for"
        broken = progress.failed - progress.rate_limited
        if broken >= HOPELESS_FAILURES and broken > HOPELESS_RATIO * (progress.ok + broken):
            return f"{broken:,} requests failed by something other than a rate limit"
        if self._piles_up() and not step.limited:
            return f"requests pile up at {self._bounds.text(self._orders[-1].rate)}"
        late = LAG_S * self._rps(self._stages[-1])
        if self._bounds.most_requests and sum(self._offered) + late > self._bounds.most_requests:
            return self._spent_requests()
        if self._bounds.most_s and seen.now_s - self._run_began_s >= self._bounds.most_s:
            return f"the budget of {self._bounds.most_s:,.0f} s was spent"
        return None

    def _spent_requests(self) -> str:
        return f"the budget of {self._bounds.most_requests:,} requests leaves no room"

    def _piles_up(self) -> bool | None:
        """Whether requests surely pile up; None while it is too early to say."""
        if len(self._samples) < 2:
            return None
        trend = backlog_trend(*zip(*self._samples, strict=True), self._rps(self._stages[-1]))
        return None if trend is None else trend.unstable

    def _still_fills(self, step: LimitStep, seen: Observation) -> bool:
        """Whether more and more are in flight, and it is too early to say for how long."""
        longest_s = max(GROWS_HOLDS * self._orders[-1].hold_s, 30.0)
        if step.limited or len(self._samples) < 2 or self._for_s(seen) >= longest_s:
            return False
        if self._piles_up() is not None:
            return False
        middle = self._samples[len(self._samples) // 2][1]
        chance = 3 * math.sqrt(max(1.0, self._rps(self._stages[-1]) * self._for_s(seen) / 2))
        return self._samples[-1][1] > middle + chance

    def _step(self, stage: Stage, measured: Measured) -> LimitStep:
        rate = self._orders[self._stages.index(stage)].rate
        return limit_step(rate, self._rps(stage), measured.attempts(stage.id))

    def _all_steps(self, measured: Measured) -> tuple[LimitStep, ...]:
        """Each step anew: late answers may have come in since it was over."""
        held = zip(self._stages, self._whole, strict=True)
        return tuple(replace(self._step(stage, measured), whole=whole) for stage, whole in held)

    def _rps(self, stage: Stage) -> float:
        return stage.rate_rps or 0.0

    def _begin(self, wish: StepOrder | LimitsEnd, seen: Observation) -> None:
        if isinstance(wish, LimitsEnd):
            self._end(None if wish.known else "it could not be narrowed", seen, wish.sentence)
            return
        bounds = self._bounds
        rps = bounds.rps(wish.rate)
        most = bounds.most_requests
        room_s = min(wish.hold_s, LEAST_ROOM_S) + LAG_S
        if most and self._stages and sum(self._offered) + rps * room_s > most:
            self._end(self._spent_requests(), seen)
            return
        number, tokens = len(self._stages), bounds.tokens_per_request
        self._stages.append(rate_stage(number, self._workers, wish.rate, tokens))
        self._orders.append(wish)
        self._whole.append(False)
        self._offered.append(0.0)
        self._reason = wish.reason
        self._enter(Phase.IDLE if wish.pause_s else Phase.RAMP, seen)
        if self._phase is Phase.RAMP and seen.users == self._workers:
            # Nothing to ramp: a tick without arrivals would let a bucket refill.
            self._enter(Phase.HOLD, seen)

    def _end(self, why: str | None, seen: Observation, sentence: str | None = None) -> None:
        sentence = sentence or self._search.sentence(self._steps)
        self._ended_by = f"{sentence}: {why}" if why else None
        if why is None and self.bracket.high is None:
            self._ended_by = sentence
        self._reason = f"the search is over: {self._ended_by or sentence}"
        self._stages.append(Stage(len(self._stages), "drain", 0))
        self._enter(Phase.DRAIN, seen)

    def _enter(self, phase: Phase, seen: Observation) -> None:
        self._phase = phase
        self._began_s = seen.now_s
        if phase is Phase.RAMP:
            self._began_with = seen.users
        elif phase is Phase.HOLD:
            self._samples = []
