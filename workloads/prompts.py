"""Prompts as chat services see them: a few shared system prefixes, and a user text that is unique.

The shared part comes first and is byte for byte the same on every worker, because it follows from
the run's salt alone; everything that varies comes after it. A server's prefix cache can therefore
serve exactly the prefix, and nothing else.

A prompt follows from the salt and the name of its request, not from who sends it: so the same
requests are the same prompts, on however many workers.
"""

import hashlib
import random
from dataclasses import dataclass
from functools import lru_cache
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
    """All prompts of a run, each by the name of its request."""

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
        give the same requests the same prompts, whatever the salt.
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
        return tuple(prefix.prefix_id for prefix in _prefixes(self.prefix_texts))

    def prompt(self, name: str) -> Prompt:
        """What the request of this name asks: one of the prefixes at random, and a text of its own.

        Names are unique in a run. The text begins with a marker made of the salt and the name, so
        that a cache has nothing in common to serve beyond the prefix.
        """
        rng = self._chance(name)
        words = self._draw_words(rng)
        marker = _short_hash(f"{self.salt}/{name}")
        user = Message("user", f"[{marker}] {filler(rng, words - 1)}")
        if not self.prefix_texts:
            return Prompt(name, None, (user,), words)
        chosen = _prefixes(self.prefix_texts)[rng.randrange(len(self.prefix_texts))]
        messages = (chosen.message, user)
        return Prompt(name, chosen.prefix_id, messages, words + self.prefix_tokens)

    def nominal_prompt_tokens(self, name: str) -> int:
        """Of the prompt of this name, without making its text."""
        words = self._draw_words(self._chance(name))
        return words + (self.prefix_tokens if self.prefix_texts else 0)

    def _chance(self, name: str) -> random.Random:
        return random.Random(f"{self.salt}/prompts/{name}")

    def _draw_words(self, rng: random.Random) -> int:
        """The length of a user text: a prompt's first draw."""
        return self.prompt_tokens.sample_tokens(rng, minimum=2)


@dataclass(frozen=True, slots=True)
class _Prefix:
    prefix_id: str
    message: Message


@lru_cache(maxsize=4)
def _prefixes(texts: tuple[str, ...]) -> tuple[_Prefix, ...]:
    # Hashed once, not for each request: a prefix may be long.
    return tuple(_Prefix(_short_hash(text), Message("system", text)) for text in texts)


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
