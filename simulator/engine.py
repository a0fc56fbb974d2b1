"""The capacity model: a queue, slots, KV memory and steps that give every sequence one token.

The engine does no I/O and reads no clock.  A caller submits and cancels at instants of its choice,
asks `next_event_at_s()` when something will happen, and calls `advance(now_s)` to learn what has
happened by then.  The same code therefore runs in virtual time, as fast as it computes, and
against the wall.

A step is planned when it starts and cannot be changed afterwards: who emits, how long it lasts.
Steps follow each other without a gap on the engine's own clock, however late `advance` is called,
so a slow caller delays what it sees but never what is modelled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from simulator.events import (
    AdmitEvent,
    EngineCounters,
    EngineRequest,
    Event,
    FinishEvent,
    PreemptEvent,
    Refusal,
    RefusalReason,
    Submission,
    TokenEvent,
)
from simulator.limiter import Limiter, Limits
from simulator.prefix_cache import PrefixCache
from simulator.profile import Profile
from simulator.step_time import StepTime
from simulator.waiting import Sequence, WaitingRoom


@dataclass(slots=True)
class _Step:
    ends_at_s: float
    emitters: list[Sequence] = field(default_factory=list)


class Engine:
    """One simulated server.  Not thread-safe; times given to it must not go backwards.

    Without `every_token` only the first token of a request is told as an event: that is quicker,
    and changes nothing in the model.
    """

    def __init__(self, profile: Profile, seed: int = 0, *, every_token: bool = True) -> None:
        self.profile = profile
        self.counters = EngineCounters()
        self._every_token = every_token
        self._step_time = StepTime(profile, seed)
        self._limiter = Limiter(profile)
        self._prefix_cache = PrefixCache(profile.kv_tokens // profile.prefix_block_tokens)
        self._room = WaitingRoom(profile.front_slots)
        self._running: dict[str, Sequence] = {}  # in order of admission
        self._kv_used_tokens = 0
        self._kv_blocks_admission = False
        self._step: _Step | None = None
        self._clock_s = -math.inf  # end of the last step: nothing is loaded before the first

    @property
    def running(self) -> int:
        """Sequences that hold a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences without a slot, preempted ones among them; not those in the front."""
        return len(self._room.queue)

    @property
    def front_waiting(self) -> int:
        """Requests that the front holds back; the engine does not know of them."""
        return len(self._room.front)

    @property
    def in_flight(self) -> int:
        """All requests that were taken and have not ended."""
        return self.front_waiting + self.waiting + self.running

    @property
    def kv_usage_ratio(self) -> float:
        """Share of the KV memory that running sequences hold, 0 to 1."""
        return self._kv_used_tokens / self.profile.kv_tokens

    def limits(self, now_s: float) -> Limits:
        """State of the rate limits, for headers."""
        return self._limiter.limits(now_s)

    def submit(self, request: EngineRequest, now_s: float) -> Submission:
        """Queue a request, or refuse it.

        Raises ValueError if it could never run: no token to give, or larger than the KV memory.
        """
        if request.prompt_tokens < 1 or request.output_tokens < 1:
            raise ValueError(f"{request.request_id}: prompt and output need at least one token")
        if request.prompt_tokens + request.output_tokens > self.profile.kv_tokens:
            raise ValueError(f"{request.request_id}: larger than the KV memory")
        waiting, running = self.waiting + self.front_waiting, self.running
        refusal = self._refuse(request, now_s)
        if refusal is None:
            boundary_s = max(now_s, self._step.ends_at_s) if self._step else now_s
            sequence = Sequence(request, now_s, boundary_s, last_token_at_s=now_s)
            self._room.add(sequence, running)
        return Submission(waiting, running, refusal)

    def cancel(self, request_id: str) -> bool:
        """Forget a request and free what it holds at once; False if it is not known (any more).

        The step under way keeps its length: the hardware does not stop for one sequence.
        """
        sequence = self._running.pop(request_id, None)
        if sequence is not None:
            self._kv_used_tokens -= sequence.kv_tokens
            sequence.kv_tokens = 0
            return True
        return self._room.remove(request_id)

    def next_event_at_s(self) -> float | None:
        """When `advance` will next have something to do; None when idle."""
        return self._step.ends_at_s if self._step else self._next_start_at_s()

    def advance(self, now_s: float) -> list[Event]:
        """Run all steps that end by `now_s` and return what happened, in order of time."""
        events = self._room.untold()
        while True:
            if self._step is None:
                starts_at_s = self._next_start_at_s()
                if starts_at_s is None or starts_at_s > now_s:
                    return events
                self._step = self._plan_step(starts_at_s, events)
            if self._step.ends_at_s > now_s:
                return events
            self._finish_step(self._step, events)

    def _refuse(self, request: EngineRequest, now_s: float) -> Refusal | None:
        profile = self.profile
        if profile.max_in_flight is not None and self.in_flight >= profile.max_in_flight:
            return Refusal(RefusalReason.TOO_MANY_IN_FLIGHT)
        # A request that arrived during a step waits for its end even if slots are free:
        # it does not count as queued, unless memory is what it waits for.
        free_slots = 0 if self._kv_blocks_admission else profile.max_num_seqs - self.running
        if profile.max_queue is not None and self.waiting - free_slots >= profile.max_queue:
            return Refusal(RefusalReason.QUEUE_FULL)
        denial = self._limiter.admit(request.charged_tokens, now_s)
        return Refusal(RefusalReason.RATE_LIMITED, denial) if denial else None

    def _next_start_at_s(self) -> float | None:
        if self._running:
            return self._clock_s
        first_s = self._room.first_arrival_s()
        return None if first_s is None else max(self._clock_s, first_s)

    def _plan_step(self, starts_at_s: float, events: list[Event]) -> _Step:
        was_idle_s = starts_at_s - self._clock_s
        self._room.pass_front(starts_at_s, self.running, events)
        if not self._make_room_for_decode(starts_at_s, events):
            # A step that had to preempt admits nobody: the victim would come straight back.
            self._admit(starts_at_s, events)
        left_waiting = self._room.tell_left(starts_at_s, self.running, events)
        prefill_tokens, emitters = self._schedule()
        step_s = self._step_time.step_s(
            starts_at_s, len(emitters), prefill_tokens, was_idle_s, left_waiting
        )
        self.counters.steps += 1
        return _Step(starts_at_s + step_s, emitters)

    def _make_room_for_decode(self, now_s: float, events: list[Event]) -> bool:
        """Reserve one KV token for each decoding sequence; True if that took a preemption."""
        decoding = [s for s in self._running.values() if not s.prefill_left_tokens]
        preempted = False
        while self._kv_used_tokens + len(decoding) > self.profile.kv_tokens:
            request_id, victim = self._running.popitem()  # the latest admitted
            if not victim.prefill_left_tokens:
                decoding.pop()
            self._kv_used_tokens -= victim.kv_tokens
            victim.kv_tokens = victim.prefill_left_tokens = 0
            self._room.queue.appendleft(victim)
            self.counters.preemptions += 1
            events.append(PreemptEvent(request_id, now_s))
            preempted = True
        for sequence in decoding:
            sequence.kv_tokens += 1
        self._kv_used_tokens += len(decoding)
        return preempted

    def _admit(self, now_s: float, events: list[Event]) -> None:
        profile, queue = self.profile, self._room.queue
        self._kv_blocks_admission = False
        while queue and len(self._running) < profile.max_num_seqs:
            sequence = queue[0]
            if sequence.arrived_at_s > now_s:
                return
            # What was said before a preemption is computed again like a prompt; one more
            # token of room is for what the prefill's last chunk gives.
            known_tokens = sequence.request.prompt_tokens + sequence.generated_tokens
            if self._kv_used_tokens + known_tokens + 1 > profile.kv_tokens:
                self._kv_blocks_admission = True
                return
            queue.popleft()
            self._running[sequence.request.request_id] = sequence
            sequence.kv_tokens = known_tokens + 1
            self._kv_used_tokens += sequence.kv_tokens
            cached_tokens = self._cached_tokens(sequence)
            sequence.prefill_left_tokens = known_tokens - cached_tokens
            if not sequence.admitted_before:
                sequence.admitted_before = True
                queue_s = now_s - sequence.arrived_at_s
                request_id = sequence.request.request_id
                held_s = now_s - sequence.could_start_at_s
                front_s = sequence.front_s
                events.append(
                    AdmitEvent(request_id, now_s, queue_s, cached_tokens, held_s, front_s)
                )

    def _cached_tokens(self, sequence: Sequence) -> int:
        if not self.profile.prefix_cache:
            return 0
        request, block_tokens = sequence.request, self.profile.prefix_block_tokens
        # At least one token is computed: without it there is no next one.
        usable_blocks = (request.prompt_tokens - 1) // block_tokens
        keys = request.block_keys[:usable_blocks]
        hit_tokens = self._prefix_cache.hit_blocks(keys) * block_tokens
        if not sequence.admitted_before:
            self.counters.prefix_query_tokens += request.prompt_tokens
            self.counters.prefix_hit_tokens += hit_tokens
        return hit_tokens

    def _schedule(self) -> tuple[int, list[Sequence]]:
        """Spend the step's prefill budget in order of admission; who emits at the step's end."""
        budget_tokens = self.profile.prefill_chunk_tokens
        emitters: list[Sequence] = []
        for sequence in self._running.values():
            if sequence.prefill_left_tokens:
                chunk_tokens = min(sequence.prefill_left_tokens, budget_tokens)
                budget_tokens -= chunk_tokens
                sequence.prefill_left_tokens -= chunk_tokens
                if sequence.prefill_left_tokens:
                    continue
            emitters.append(sequence)
        return self.profile.prefill_chunk_tokens - budget_tokens, emitters

    def _finish_step(self, step: _Step, events: list[Event]) -> None:
        self._step = None
        self._clock_s = now_s = step.ends_at_s
        for sequence in step.emitters:
            request = sequence.request
            if self._running.get(request.request_id) is not sequence:
                continue  # cancelled during the step
            sequence.generated_tokens += 1
            ordinal = sequence.generated_tokens
            if ordinal == 1:
                self.counters.prompt_tokens += request.prompt_tokens
                if self.profile.prefix_cache:
                    self._prefix_cache.add(request.block_keys)
            self.counters.generation_tokens += 1
            since_s = now_s - sequence.last_token_at_s
            sequence.last_token_at_s = now_s
            if ordinal == 1 or self._every_token:
                events.append(TokenEvent(request.request_id, now_s, ordinal, since_s))
            if ordinal == request.output_tokens:
                del self._running[request.request_id]
                self._kv_used_tokens -= sequence.kv_tokens
                elapsed_s = now_s - sequence.arrived_at_s
                events.append(FinishEvent(request.request_id, now_s, elapsed_s, ordinal))
        self._room.tell_empty(now_s, self.running, events)
