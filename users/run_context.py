"""What the users of one process share during one run.

``hooks`` makes a context when a run begins and moves it from stage to stage; users only read it,
and count themselves in and out.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from metrics.outcome import Outcome
from metrics.stage import COLD_REQUESTS, Phase, Stage
from settings import Settings
from users.masking import Masker
from users.retry_policy import RetryPolicy
from users.slots import Slots
from users.wire import ChatTransport
from workloads.arrivals import Sharing
from workloads.prompts import PromptPlan
from workloads.retry_budget import RetryBudget
from workloads.traffic import TrafficKind


@dataclass(slots=True, kw_only=True)
class RunContext:
    """One run on one process. ``joined_at_s`` is the origin of this worker's clock."""

    run_id: str
    worker: str
    worker_index: int
    settings: Settings
    model: str
    include_usage: bool
    plan: PromptPlan
    transports: Mapping[TrafficKind, ChatTransport]
    masker: Masker
    retry_policy: RetryPolicy
    retry_budget: RetryBudget
    slots: Slots | None = None
    """This worker's share of ``--max-in-flight``: one for each attempt under way."""
    position: int | None = 0
    """This worker's place in the fleet that shares a schedule; None when it joined too late."""
    workers: int = 1
    """How many share it."""
    shared_anew: list[Sharing] = field(default_factory=list)
    """Who shares the schedule from when on, where that has changed since the run began."""
    next_arrival: dict[int, int] = field(default_factory=dict)
    """By stage: the number from which on this worker has not looked at the schedule yet."""
    sender: object | None = None
    """The user that sends this worker's share of the schedule: only one does."""
    warmup_left: int = 0
    """How many of this worker's next requests are left out of the figures."""
    requests_left: int | None = None
    """How many this worker may still send of its share of ``--max-requests``; None: no bound."""
    on_share_used: Callable[[], None] | None = None
    """Called as the last one of the share is taken."""
    cold_left: int = COLD_REQUESTS
    joined_at_s: float = field(default_factory=time.perf_counter)
    stage: Stage | None = None
    phase: Phase | None = None
    in_flight: int = 0
    pending: int = 0
    """Logical requests begun and not over: in flight, waiting for a slot, or for a retry."""
    on_phase: list[Callable[[], None]] = field(default_factory=list)
    """Called after each announcement, and when who shares the schedule has changed."""
    on_quota: Callable[[str], None] | None = None
    """Called once, with the reason, when the quota turns out to be used up."""
    halted: bool = False
    """No further request is worth sending: users wait for the end of the run."""
    warned_of_limits: bool = False
    """Whether a rate-limit header that cannot be read was told of: once is enough."""
    _quota_refusals: int = 0
    _entered: list[tuple[float, Stage, Phase]] = field(default_factory=list)
    _users: int = 0
    _sequence: int = 0

    def clock_s(self) -> float:
        """Seconds since this worker joined the run, on its monotonic clock."""
        return time.perf_counter() - self.joined_at_s

    def enter(self, stage: Stage, phase: Phase) -> float:
        """Note that a phase begins now; the time on this worker's clock, in seconds."""
        now_s = time.perf_counter()
        self.stage, self.phase = stage, phase
        self._entered.append((now_s, stage, phase))
        self.wake()
        return now_s - self.joined_at_s

    def place_at(self, instant_s: float) -> tuple[Stage | None, Phase | None]:
        """The stage and phase in which an instant (``time.perf_counter``) lies."""
        for began_s, stage, phase in reversed(self._entered):
            if began_s <= instant_s:
                return stage, phase
        return (None, None) if self._entered else (self.stage, self.phase)

    def bounds_s(self, stage: Stage) -> tuple[float | None, float | None]:
        """When a stage's load began and when the stage ended; None for what has not come yet.

        Its load begins with its first phase after the ramp.
        """
        began_s = None
        for at_s, other, phase in self._entered:
            if other.id == stage.id:
                if began_s is None and phase in (Phase.SETTLE, Phase.HOLD):
                    began_s = at_s
            elif began_s is not None:
                return began_s, at_s
        return began_s, None

    @property
    def sharings(self) -> list[Sharing]:
        """Who shares the schedule, from the run's beginning on."""
        return [Sharing(-1, 0.0, self.position, self.workers), *self.shared_anew]

    def share_anew(self, sharing: Sharing) -> None:
        """The schedule is shared otherwise from an instant to come."""
        self.shared_anew.append(sharing)
        self.wake()

    def wake(self) -> None:
        """Have users look again at what the run wants of them."""
        for listener in tuple(self.on_phase):
            listener()

    def takes_cold_request(self) -> bool:
        """Whether the cold start wants one more request; counts it."""
        self.cold_left -= 1
        return self.cold_left >= 0

    def takes_request(self) -> bool:
        """Whether this worker's share has one more logical request; counts it."""
        if self.requests_left is None:
            return True
        if self.requests_left <= 0:
            return False
        self.requests_left -= 1
        if not self.requests_left and self.on_share_used is not None:
            self.on_share_used()
        return True

    def phase_of_record(self, phase: Phase | None) -> Phase | None:
        """The phase a request is recorded under: the run's first ones are warm-up; counts them."""
        if phase is Phase.COLD or self.warmup_left <= 0:
            return phase
        self.warmup_left -= 1
        return Phase.WARMUP

    def note_outcome(self, outcome: Outcome) -> None:
        """Halt once too many answers in a row said that the quota is used up."""
        if outcome is not Outcome.QUOTA_EXHAUSTED:
            self._quota_refusals = 0
            return
        self._quota_refusals += 1
        enough = self.settings.quota_stop
        if not enough or self.halted or self._quota_refusals < enough:
            return
        self.halted = True
        if self.on_quota is not None:
            self.on_quota(f"{self._quota_refusals} answers in a row said the quota is used up")

    def next_sequence(self) -> int:
        """The number of the next logical request of this worker, from 0."""
        sequence = self._sequence
        self._sequence += 1
        return sequence

    def next_user(self) -> int:
        """The number of the next user of this worker, from 0; never used again in this run."""
        user = self._users
        self._users += 1
        return user

    def next_name(self) -> str:
        """The name of this worker's next logical request, which decides what it asks.

        It is its number among the requests of the fleet: worker i of n has every n-th from i on, so
        the first N requests are the same on however many workers. One that joined late has no place
        among them and counts its own.
        """
        if self.position is None:
            return f"late-{self.worker_index}.{self._sequence}"
        return str(self.position + self.workers * self._sequence)

    def request_chance(self, dimension: str, name: str) -> random.Random:
        """A source of chance of its own for each dimension and request, so that none shifts
        another.

        It follows from the plan's salt, which is the seed when one was given.
        """
        return random.Random(f"{self.plan.salt}/{dimension}/{name}")

    def chance(self, dimension: str, user: int) -> random.Random:
        """A source for each dimension and user of this worker, of what decides only when."""
        return random.Random(f"{self.plan.salt}/{dimension}/{self.worker_index}/{user}")

    def schedule_chance(self, stage: Stage, arrival: int | None = None) -> random.Random:
        """The same source on every worker: of a stage's schedule, or of one of its arrivals."""
        who = "schedule" if arrival is None else f"arrival-{arrival}"
        return random.Random(f"{self.plan.salt}/{who}/{stage.id}")


@dataclass(slots=True)
class CurrentRun:
    """The process's run, if there is one: the one place where users look for it."""

    context: RunContext | None = None


CURRENT_RUN = CurrentRun()
