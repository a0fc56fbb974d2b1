"""What the users of one process share during one run.

``hooks`` makes a context when a run begins and moves it from stage to stage; users only read it,
and count themselves in and out.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from metrics.stage import Phase, Stage
from settings import Settings
from users.masking import Masker
from users.wire import ChatTransport
from workloads.prompts import PromptPlan, PromptSource
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
    joined_at_s: float = field(default_factory=time.perf_counter)
    stage: Stage | None = None
    phase: Phase | None = None
    in_flight: int = 0
    _users: int = 0
    _sequence: int = 0

    def clock_s(self) -> float:
        """Seconds since this worker joined the run, on its monotonic clock."""
        return time.perf_counter() - self.joined_at_s

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

    def prompts(self, user: int) -> PromptSource:
        """The prompts of one user, different from every other user's of the run."""
        return self.plan.stream(self.worker_index, user)

    def chance(self, dimension: str, user: int) -> random.Random:
        """A source of chance of its own for each dimension and user, so that none shifts another.

        It follows from the plan's salt, which is the seed when one was given.
        """
        return random.Random(f"{self.plan.salt}/{dimension}/{self.worker_index}/{user}")


@dataclass(slots=True)
class CurrentRun:
    """The process's run, if there is one: the one place where users look for it."""

    context: RunContext | None = None


CURRENT_RUN = CurrentRun()
