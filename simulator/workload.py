"""What simulated users ask, how long they think, and how far they are from the server."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import lru_cache

from simulator.prefix_cache import BlockKey


@dataclass(frozen=True, slots=True)
class Workload:
    """Sizes and pauses of closed-loop users; seconds and tokens as the names say.

    A `cv` is the ratio of standard deviation to mean of a lognormal; 0 makes every draw the mean.
    `rtt_s` is half before the server and half after it.  A refused user waits `backoff_s` longer
    than it thinks.  With `prefixes`, each prompt begins with one of that many system prompts of
    `prefix_tokens`, which count as part of it.
    """

    prompt_tokens: float = 200.0
    prompt_cv: float = 0.3
    output_tokens: float = 48.0
    output_cv: float = 0.3
    think_s: float = 0.0
    think_cv: float = 1.0
    rtt_s: float = 0.002
    backoff_s: float = 1.0
    prefixes: int = 0
    prefix_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "output_tokens"):
            if not 1 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if not 0 < self.backoff_s < math.inf:
            # Without a pause a refused user would ask for ever at one instant.
            raise ValueError(f"backoff_s is {self.backoff_s}: it must be over 0")
        names = ("prompt_cv", "output_cv", "think_s", "think_cv", "rtt_s")
        for name in (*names, "prefixes", "prefix_tokens"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be a number from 0")

    def draw_tokens(self, rng: random.Random, context_tokens: int) -> tuple[int, int]:
        """Tokens of a prompt and its answer, cut so that both fit `context_tokens`."""
        shortest = self.prefix_tokens + 1 if self.prefixes else 1
        prompt = max(shortest, round(_draw(rng, self.prompt_tokens, self.prompt_cv)))
        prompt = min(prompt, context_tokens - 1)
        output = max(1, round(_draw(rng, self.output_tokens, self.output_cv)))
        return prompt, min(output, context_tokens - prompt)

    def draw_think_s(self, rng: random.Random) -> float:
        """Seconds until a user asks again."""
        return _draw(rng, self.think_s, self.think_cv)

    def draw_prefix_keys(self, rng: random.Random, block_tokens: int) -> tuple[BlockKey, ...]:
        """Block keys of a system prompt; none without prefixes."""
        if not self.prefixes:
            return ()
        return _prefix_keys(rng.randrange(self.prefixes), self.prefix_tokens // block_tokens)


def _draw(rng: random.Random, mean: float, cv: float) -> float:
    if not cv or not mean:
        return mean
    variance = math.log(1.0 + cv * cv)  # of the logarithm
    return rng.lognormvariate(math.log(mean) - variance / 2, math.sqrt(variance))


@lru_cache(maxsize=1024)
def _prefix_keys(prefix: int, blocks: int) -> tuple[BlockKey, ...]:
    return tuple(f"{prefix}/{block}".encode() for block in range(blocks))
