"""Closed-loop users against the engine in simulated time: what a load test would have measured.

There is no socket and no clock here, and all chance comes from one seed, so a ramp of minutes takes
a fraction of a second and can be repeated.  Beside what the users saw, each level holds what was
true in the server meanwhile.  One `ClosedLoop` is one world: each level begins in the state in
which the one before it ended.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from simulator.engine import Engine
from simulator.events import (
    AdmitEvent,
    EngineRequest,
    Event,
    FinishEvent,
    QueueEvent,
    QueueName,
    Refusal,
    RefusalReason,
    TokenEvent,
)
from simulator.profile import Buffering, Profile
from simulator.workload import Workload


class RequestOutcome(StrEnum):
    OK = "ok"
    RATE_LIMITED = "429"
    QUEUE_FULL = "503"


@dataclass(frozen=True, slots=True)
class Level:
    """`users` at a time until `successes` requests that were sent in this level have succeeded.

    Users that join are spread evenly over `ramp_s`, and users that leave finish their request.
    The level also ends after `longest_s` or `most_requests` ended requests, whatever their outcome.
    Requests that end in one step end together, so it may hold a few more than it was to.
    """

    users: int
    successes: int
    ramp_s: float = 0.0
    longest_s: float = math.inf
    most_requests: float = math.inf

    def __post_init__(self) -> None:
        if self.users < 0 or self.successes < 1:
            raise ValueError(f"{self}: users must be at least 0 and successes at least 1")
        if self.users == 0 and math.isinf(self.longest_s):
            raise ValueError(f"{self}: without users nothing succeeds; give longest_s")


@dataclass(slots=True)
class ClientRequest:
    """One request as its user saw it, seconds of simulated time; None where it got no answer.

    `turn` counts a user's requests in the level in which they arrive, from 0: the first turn is
    warm-up, and so is one that was on its way when the level began.  `tpot_s` is None for an
    answer of one token.  `held_s` and `front_s` are the server's own word on how long the request
    waited for a slot and in the front.
    """

    user: int
    turn: int
    sent_s: float
    prompt_tokens: int
    output_tokens: int
    ttft_s: float | None = None
    latency_s: float = 0.0
    tpot_s: float | None = None
    tokens: int = 0
    outcome: RequestOutcome = RequestOutcome.OK
    held_s: float | None = None
    front_s: float | None = None


@dataclass(slots=True)
class LevelResult:
    """What ended in a level, and the truth about it as means over its time.

    `requests` are in order of their end; those sent before `started_s` belong to the level before
    and have come to their end here.  `mean_running` is sequences with a slot, `mean_waiting` those
    in the engine's queue (among them arrivals that wait for the end of a step), `mean_front` those
    in the front; `queued_ratio` is the share of the time in which a step had left somebody waiting
    for a slot or memory, and `queue_began_s` when that was first so, None if never.
    """

    level: Level
    started_s: float
    ended_s: float = 0.0
    successes: int = 0
    requests: list[ClientRequest] = field(default_factory=list)
    mean_running: float = 0.0
    mean_waiting: float = 0.0
    mean_front: float = 0.0
    queued_ratio: float = 0.0
    queue_began_s: float | None = None
    preemptions: int = 0


class ClosedLoop:
    """One server and its users.  Seconds count from the creation of the world."""

    def __init__(self, profile: Profile, workload: Workload, seed: int = 0) -> None:
        self._profile = profile
        self._workload = workload
        self._engine = Engine(profile, seed, every_token=False)
        self._rng = random.Random(f"{seed}/users")
        self._now_s = 0.0
        self._serial = 0
        self._arrivals: list[tuple[float, int, ClientRequest]] = []  # a heap
        self._open: dict[str, ClientRequest] = {}
        self._busy: set[int] = set()  # users with a request on its way or planned
        self._turns: dict[int, int] = {}
        self._queued = False
        self._result = LevelResult(Level(0, 1, longest_s=0.0), 0.0)

    def run_levels(self, levels: Iterable[Level]) -> list[LevelResult]:
        """Run levels one after the other."""
        return [self.run_level(level) for level in levels]

    def run_level(self, level: Level) -> LevelResult:
        """Run one level from the present state of the world to its end."""
        engine = self._engine
        result = self._result = LevelResult(level, self._now_s)
        preemptions_before = engine.counters.preemptions
        result.queue_began_s = self._now_s if self._queued else None
        self._turns = {}
        self._add_users(level)
        deadline_s = self._now_s + level.longest_s
        while not self._over():
            step_ends_s = engine.next_event_at_s()
            at_s = min(
                math.inf if step_ends_s is None else step_ends_s,
                self._arrivals[0][0] if self._arrivals else math.inf,
            )
            if at_s > deadline_s:
                self._pass_time(deadline_s)
                break
            self._pass_time(at_s)
            for event in engine.advance(at_s):
                self._on_event(event)
            # Who asks again at the instant in which a level ends does so in the next one.
            while not self._over() and self._arrivals and self._arrivals[0][0] <= at_s:
                self._arrive(heapq.heappop(self._arrivals)[2])
        self._conclude(preemptions_before)
        return result

    def _over(self) -> bool:
        result, level = self._result, self._result.level
        return result.successes >= level.successes or len(result.requests) >= level.most_requests

    def _add_users(self, level: Level) -> None:
        joining = [user for user in range(level.users) if user not in self._busy]
        for place, user in enumerate(joining):
            self._busy.add(user)
            self._plan(user, self._now_s + level.ramp_s * place / len(joining))

    def _plan(self, user: int, sent_s: float) -> None:
        prompt_tokens, output_tokens = self._workload.draw_tokens(
            self._rng, self._profile.context_tokens
        )
        request = ClientRequest(user, 0, sent_s, prompt_tokens, output_tokens)
        self._serial += 1
        arrives_s = sent_s + self._workload.rtt_s / 2
        heapq.heappush(self._arrivals, (arrives_s, self._serial, request))

    def _arrive(self, request: ClientRequest) -> None:
        result, user = self._result, request.user
        if user >= result.level.users and request.sent_s >= result.started_s:
            self._busy.discard(user)  # it has left before it would have asked again
            return
        if request.sent_s >= result.started_s:
            request.turn = self._turns.get(user, 0)
            self._turns[user] = request.turn + 1
        self._serial += 1
        request_id = str(self._serial)
        prefix_keys = self._workload.draw_prefix_keys(self._rng, self._profile.prefix_block_tokens)
        submission = self._engine.submit(
            EngineRequest(
                request_id,
                request.prompt_tokens,
                request.output_tokens,
                prefix_keys,
                charged_tokens=request.prompt_tokens + request.output_tokens,
            ),
            self._now_s,
        )
        if submission.refusal is None:
            self._open[request_id] = request
        else:
            self._refused(request, submission.refusal)

    def _refused(self, request: ClientRequest, refusal: Refusal) -> None:
        full = refusal.reason is RefusalReason.QUEUE_FULL
        request.outcome = RequestOutcome.QUEUE_FULL if full else RequestOutcome.RATE_LIMITED
        self._ended(request, self._workload.backoff_s)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TokenEvent):
            request = self._open[event.request_id]
            request.ttft_s = event.at_s + self._workload.rtt_s / 2 - request.sent_s
        elif isinstance(event, FinishEvent):
            self._finished(self._open.pop(event.request_id), event)
        elif isinstance(event, AdmitEvent):
            request = self._open[event.request_id]
            request.held_s, request.front_s = event.held_s, event.front_s
        elif isinstance(event, QueueEvent) and event.queue is QueueName.ENGINE:
            self._queued = event.waiting > 0
            if self._queued and self._result.queue_began_s is None:
                self._result.queue_began_s = event.at_s

    def _finished(self, request: ClientRequest, event: FinishEvent) -> None:
        request.tokens = event.output_tokens
        latency_s = event.at_s + self._workload.rtt_s / 2 - request.sent_s
        if self._profile.buffering is not Buffering.OFF or request.ttft_s is None:
            request.ttft_s = latency_s
        if request.tokens > 1:
            request.tpot_s = (latency_s - request.ttft_s) / (request.tokens - 1)
        if request.sent_s >= self._result.started_s:
            self._result.successes += 1
        self._ended(request, 0.0)

    def _ended(self, request: ClientRequest, pause_s: float) -> None:
        ended_s = self._now_s + self._workload.rtt_s / 2
        request.latency_s = ended_s - request.sent_s
        self._result.requests.append(request)
        if request.user < self._result.level.users:
            think_s = self._workload.draw_think_s(self._rng)
            self._plan(request.user, ended_s + pause_s + think_s)
        else:
            self._busy.discard(request.user)

    def _pass_time(self, to_s: float) -> None:
        """Move the clock; the sums become means at the end of the level."""
        engine, result = self._engine, self._result
        passed_s, self._now_s = to_s - self._now_s, to_s
        result.mean_running += engine.running * passed_s
        result.mean_waiting += engine.waiting * passed_s
        result.mean_front += engine.front_waiting * passed_s
        result.queued_ratio += self._queued * passed_s

    def _conclude(self, preemptions_before: int) -> None:
        result = self._result
        result.ended_s = self._now_s
        result.preemptions = self._engine.counters.preemptions - preemptions_before
        lasted_s = result.ended_s - result.started_s
        if lasted_s > 0:
            result.mean_running /= lasted_s
            result.mean_waiting /= lasted_s
            result.mean_front /= lasted_s
            result.queued_ratio /= lasted_s
