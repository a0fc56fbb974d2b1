"""Prompts as chat services see them: a few shared system prefixes, and a user text that is unique.

The shared part comes first and is byte for byte the same on every worker, because it follows from
the run's salt alone; everything that varies comes after it. A server's prefix cache can therefore
serve exactly the prefix, and nothing else.
"""

import hashlib
import random
from dataclasses import dataclass
from typing import Self

from workloads.lengths import Distribution
from workloads.words import filler


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked in one request. ``nominal_prompt_tokens`` counts words, not a tokenizer's."""

    prompt_id: str
    prefix_id: str | None
    messages: tuple[Message, ...]
    nominal_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """All prompts of a run: ``stream`` deals them out to users."""

    prefix_texts: tuple[str, ...]
    prefix_tokens: int
    prompt_tokens: Distribution
    salt: str
    """What every random choice follows from: the seed when one was given, else drawn per run."""

    @classmethod
    def build(
        cls,
        *,
        prefixes: int,
        prefix_tokens: int,
        prompt_tokens: Distribution,
        salt: str,
        seed: int | None,
    ) -> Self:
        """A plan of ``prefixes`` shared system prompts of ``prefix_tokens`` words each.

        ``prompt_tokens`` is the length of the user's part alone. With a ``seed`` the same options
        give the same prompts in the same order, whatever the salt.
        """
        root = salt if seed is None else f"seed-{seed}"
        texts = []
        if prefix_tokens:
            for number in range(prefixes):
                rng = random.Random(f"{root}/prefix/{number}")
                texts.append(filler(rng, prefix_tokens))
        return cls(tuple(texts), prefix_tokens, prompt_tokens, root)

    @property
    def prefix_ids(self) -> tuple[str, ...]:
        """A short hash of each prefix's bytes: another character gives another id."""
        return tuple(_short_hash(text) for text in self.prefix_texts)

    def stream(self, worker_index: int, user_index: int) -> "PromptSource":
        """The prompts of one user: no other user of the run gets the same ones."""
        return PromptSource(self, worker_index, user_index)

    def first_nominal_tokens(self, worker_index: int, user_index: int) -> int:
        """``nominal_prompt_tokens`` of the first prompt of one user, without making its text."""
        words = self.draw_words(self.chance(f"{worker_index}.{user_index}"))
        return self.nominal_tokens(words)

    def chance(self, who: str) -> random.Random:
        """The source of chance of one user's prompts."""
        return random.Random(f"{self.salt}/prompts/{who}")

    def draw_words(self, rng: random.Random) -> int:
        """The length of a user text: a prompt's first draw."""
        return self.prompt_tokens.sample_tokens(rng, minimum=2)

    def nominal_tokens(self, words: int) -> int:
        """Of a prompt whose user text has so many words."""
        return words + (self.prefix_tokens if self.prefix_texts else 0)


class PromptSource:
    """Deals one user's prompts, one after the other."""

    def __init__(self, plan: PromptPlan, worker_index: int, user_index: int) -> None:
        self._plan = plan
        self._who = f"{worker_index}.{user_index}"
        self._rng = plan.chance(self._who)
        self._ids = plan.prefix_ids
        self._systems = tuple(Message("system", text) for text in plan.prefix_texts)
        self._count = 0

    def next_prompt(self) -> Prompt:
        """The next prompt: one of the prefixes at random, and a text never sent before.

        The text begins with a marker made of the salt, the user and a count, so that a cache has
        nothing in common to serve beyond the prefix.
        """
        plan, rng = self._plan, self._rng
        prompt_id = f"{self._who}.{self._count}"
        marker = _short_hash(f"{plan.salt}/{prompt_id}")
        self._count += 1
        words = plan.draw_words(rng)
        user = Message("user", f"[{marker}] {filler(rng, words - 1)}")
        if not self._systems:
            return Prompt(prompt_id, None, (user,), plan.nominal_tokens(words))
        chosen = rng.randrange(len(self._systems))
        return Prompt(
            prompt_id,
            self._ids[chosen],
            (self._systems[chosen], user),
            plan.nominal_tokens(words),
        )


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
