"""The search for the knee as a load plan: the search says which level comes next, this holds it.

A level lasts until it holds enough: first until every user has finished a request sent at this
level (the burst of their start is over), then until the wanted successes have come. Time only
bounds it. After a void level nobody asks for a while before the next one.
"""

from collections.abc import Mapping

from metrics.knee import verdict
from metrics.knee_assess import assess
from metrics.knee_level import Level
from metrics.knee_result import KneeEstimate
from metrics.knee_search import SLOW_S, KneeSearch, LevelOrder, OrderKind
from metrics.more_levels import more_levels
from metrics.stage import Phase, Stage
from shapes.plan import Directive, Observation, Progress, ramp_limit_s
from shapes.plan_parts import SearchedPlan

LEAST_HOLD_S = 5.0
WARM_LIMIT_S = 120.0
PAUSE_S = 10.0
# Longer than a gateway commonly leaves out a replica that failed (5 s), than the seconds for which
# other work keeps a client busy, and than a fleet takes to agree on who is left of it.
"""How long nobody asks after a void level, from when its users have left."""
MISSING_TICKS = 2
# One tick may fall between the reports of two workers.
"""Looks in a row without all users after which a level is void."""
HOPELESS_FAILURES = 40
HOPELESS_RATIO = 0.2
"""A level is cut when so many, and this share, have failed: more of it would only hurt."""


class KneePlan(SearchedPlan):
    """Levels that ``search`` asks for, one after the other; then a drain.

    ``spawn_rate`` None adds all users of a level at once. ``level_limit_s`` bounds the hold of one
    level, ``drain_limit_s`` the wait for answers under way at the end.
    """

    def __init__(
        self,
        search: KneeSearch,
        settle_s: float,
        level_limit_s: float,
        spawn_rate: float | None,
        drain_limit_s: float,
    ) -> None:
        super().__init__()
        self._search = search
        self._settle_s = settle_s
        self._level_limit_s = level_limit_s
        self._spawn_rate = spawn_rate
        self._drain_limit_s = drain_limit_s
        self._orders: list[LevelOrder] = []
        self._phase = Phase.RAMP
        self._reason = ""
        self._began_s: float | None = None
        self._run_began_s = 0.0
        self._began_with = 0
        self._users_missing = 0
        self._alone_since_s: float | None = None

    @property
    def void_reasons(self) -> Mapping[int, str]:
        """Why levels were set aside while they ran, by their ids."""
        return {
            level.stage: level.void
            for level in self._search.levels
            if level.stage is not None and level.void is not None
        }

    @property
    def result(self) -> KneeEstimate | None:
        """The verdict; None while the search goes on."""
        wish = self._search.next()
        return self._advised(wish) if isinstance(wish, KneeEstimate) else None

    @property
    def orders(self) -> tuple[LevelOrder, ...]:
        """What was asked for at each level, in order."""
        return tuple(self._orders)

    @property
    def ended_by(self) -> str | None:
        """The budget that ended the search before it knew enough, as a sentence; else None."""
        bounds = self._search.settings
        spent = {
            "levels": f"the budget of {bounds.most_levels} levels was spent",
            "requests": f"the budget of {bounds.most_requests or 0:,} requests was spent: "
            f"after {self._search.spent_requests:,} there was no room for another level",
            "seconds": f"the budget of {bounds.most_s or 0:,.0f} s was spent",
        }
        return spent[self._search.ended_by] if self._search.ended_by else None

    def next(self, seen: Observation) -> Directive | None:
        """The directive from now on; None when the drain is over."""
        if self._began_s is None:
            self._run_began_s = seen.now_s
            self._next_level(seen)
        if self._phase is Phase.DRAIN:
            if seen.users == 0 or self._for_s(seen) >= self._drain_limit_s:
                return None
        else:
            self._move_on(seen)
        stage = self._stages[-1]
        return Directive(stage, self._phase, self._rate(stage), self._reason)

    def _rate(self, stage: Stage) -> float:
        # As many a second as there are at most: Locust starts a fleet anew from no users a minute
        # after it lost a worker, and a lower rate would thin out the level that is held then.
        return self._spawn_rate or float(max(1, stage.target_users, self._began_with))

    def _for_s(self, seen: Observation) -> float:
        return seen.now_s - (self._began_s or 0.0)

    def _move_on(self, seen: Observation) -> None:
        stage = self._stages[-1]
        for_s = self._for_s(seen)
        if self._phase is Phase.IDLE:
            if self._rested(seen):
                self._enter(Phase.RAMP, seen)
            return
        progress = self._progress(seen)
        if progress.spoilt:
            self._finish_level(seen)
        elif self._phase is Phase.RAMP:
            change = stage.target_users - self._began_with
            if seen.users == stage.target_users:
                self._enter(Phase.SETTLE, seen)
            elif for_s > ramp_limit_s(change, self._rate(stage), self._drain_limit_s):
                self._not_reached.add(stage.id)
                self._finish_level(seen, void="its users never all ran")
        elif self._phase is Phase.SETTLE:
            warm = progress.warm_users >= stage.target_users
            if (warm and for_s >= self._settle_s) or for_s >= max(WARM_LIMIT_S, self._settle_s):
                self._enter(Phase.HOLD, seen)
        else:
            self._count_missing(seen)
            if self._enough(progress, for_s):
                missing = self._users_missing >= MISSING_TICKS
                self._finish_level(
                    seen, "its users did not all run throughout" if missing else None
                )

    def _rested(self, seen: Observation) -> bool:
        """Whether nobody has asked for long enough; leaving users are waited for within bounds."""
        if self._alone_since_s is None and (
            seen.users == 0 or self._for_s(seen) >= self._drain_limit_s
        ):
            self._alone_since_s = seen.now_s
        return self._alone_since_s is not None and seen.now_s - self._alone_since_s >= PAUSE_S

    def _count_missing(self, seen: Observation) -> None:
        """Count the looks in a row that missed users; enough of them stay counted."""
        if seen.users != self._stages[-1].target_users:
            self._users_missing += 1
        elif self._users_missing < MISSING_TICKS:
            self._users_missing = 0

    def _enough(self, progress: Progress, for_s: float) -> bool:
        order = self._orders[-1]
        if for_s >= self._level_limit_s:
            return True
        ended = progress.failed + progress.ok
        if progress.failed >= HOPELESS_FAILURES and progress.failed > HOPELESS_RATIO * ended:
            # A level that looks into a limit is held to its end, by all that was answered.
            return not order.uncut or ended >= order.successes
        slow = progress.mean_latency_s > SLOW_S
        wanted = order.few_successes if slow else order.successes
        return progress.ok >= wanted and for_s >= LEAST_HOLD_S

    def _progress(self, seen: Observation) -> Progress:
        if seen.measured is None:
            return Progress(0, 0, 0)
        return seen.measured.progress(self._stages[-1].id)

    def _finish_level(self, seen: Observation, void: str | None = None) -> None:
        self._search.add(
            self._level(seen, void),
            elapsed_s=seen.now_s - self._run_began_s,
            spent_requests=self._progress(seen).ended,
        )
        self._next_level(seen)

    def _level(self, seen: Observation, void: str | None) -> Level:
        stage = self._stages[-1]
        if seen.measured is None or void is not None:
            return Level(
                users=stage.target_users,
                stage=stage.id,
                ttft_s=(),
                tpot_s=(),
                latency_s=(),
                requests=0,
                void=void or "nothing was reported",
            )
        return seen.measured.level(stage, self._for_s(seen))

    def _next_level(self, seen: Observation) -> None:
        wish = self._search.next()
        number = len(self._stages)
        if isinstance(wish, LevelOrder):
            self._orders.append(wish)
            self._reason = f"{wish.users} users: {wish.reason}"
            kind = "down" if wish.kind is OrderKind.DOWN else "level"
            self._stages.append(Stage(number, kind, wish.users))
            void = any(level.void is not None for level in self._search.levels[-1:])
            self._enter(Phase.IDLE if void else Phase.RAMP, seen)
        else:
            self._stages.append(Stage(number, "drain", 0))
            ended = f" ({self.ended_by})" if self.ended_by else ""
            self._reason = f"the search is over{ended}: {self._advised(wish).sentence()}"
            self._enter(Phase.DRAIN, seen)

    def _advised(self, found: KneeEstimate) -> KneeEstimate:
        """The verdict with advice that helps: more users are no help when a budget was spent."""
        search = self._search
        if search.ended_by is None:
            return found
        advice = more_levels("knee", ended_early=True)
        return verdict(assess(search.levels), *advice, search.settings.slo_ratio)

    def _enter(self, phase: Phase, seen: Observation) -> None:
        self._phase = phase
        self._began_s = seen.now_s
        self._users_missing, self._alone_since_s = 0, None
        if phase is Phase.RAMP:
            self._began_with = seen.users
