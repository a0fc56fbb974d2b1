"""How long a step takes: the batch, the prompts, and what slows a server down from outside.

Each slowdown is a factor of its own, and all of them multiply.  Time counts from the start of the
first step, so a server is no older than its first request.
"""

from __future__ import annotations

import math
import random

from simulator.profile import Profile


class StepTime:
    """Durations of the steps of one server, in order.  Times must not go backwards."""

    def __init__(self, profile: Profile, seed: int) -> None:
        self._profile = profile
        self._rng = random.Random(seed)
        # A stream of its own: turning the neighbour on must not change the jitter of any step.
        self._drift_phase = random.Random(f"{seed}/drift").random()
        self._first_at_s: float | None = None
        self._overloaded = False
        self._queue_seen_at_s = -math.inf

    @property
    def overloaded(self) -> bool:
        """Whether the last step was slowed because of an overload before it."""
        return self._overloaded

    def step_s(
        self,
        starts_at_s: float,
        batch: int,
        prefill_tokens: int,
        was_idle_s: float,
        left_waiting: int,
    ) -> float:
        """Seconds of a step with `batch` sequences that give a token at its end.

        `left_waiting` is how many requests its start left in the queue.
        """
        profile = self._profile
        step_s = profile.decode_base_s + profile.decode_per_seq_s * batch
        step_s += prefill_tokens / profile.prefill_tokens_per_s
        step_s *= self._age_factor(starts_at_s) * self._overload_factor(starts_at_s, left_waiting)
        if profile.jitter_ratio:
            sigma = profile.jitter_ratio
            step_s *= math.exp(self._rng.gauss(-sigma * sigma / 2, sigma))  # mean 1
        if profile.stall_probability and self._rng.random() < profile.stall_probability:
            step_s += profile.stall_s
        if was_idle_s > 0 and was_idle_s >= profile.idle_after_s:
            step_s += profile.cold_start_s
        return step_s

    def _age_factor(self, now_s: float) -> float:
        """Slowdown by leak and noisy neighbour at this age of the server."""
        profile = self._profile
        if self._first_at_s is None:
            self._first_at_s = now_s
        age_s = now_s - self._first_at_s
        factor = 1.0 + profile.leak_percent_per_minute / 100.0 * age_s / 60.0
        if profile.drift_depth_ratio:
            turn = age_s / profile.drift_period_s + self._drift_phase
            factor *= 1.0 + profile.drift_depth_ratio * (1.0 + math.sin(math.tau * turn)) / 2.0
        return factor

    def _overload_factor(self, now_s: float, left_waiting: int) -> float:
        profile = self._profile
        if profile.overload_waiting is None:
            return 1.0
        if left_waiting:
            self._queue_seen_at_s = now_s
        elif now_s - self._queue_seen_at_s >= profile.overload_recovery_s:
            self._overloaded = False
        if left_waiting >= profile.overload_waiting:
            self._overloaded = True
        return 1.0 + profile.overload_slowdown_ratio if self._overloaded else 1.0
