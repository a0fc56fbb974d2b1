"""What one event of a chat stream says: the values that the rest of the suite reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from msgspec import Struct

ToolCallKey = tuple[int, int | str]
"""Choice index, and the call's own index; its id or its place where a server sends no index."""


class MalformedChunk(ValueError):
    """An event's data that is not a JSON object."""


@dataclass(frozen=True, slots=True)
class ReplyError:
    """What a server said went wrong, unmasked and not yet shortened to a sample.

    ``code`` is the server's own, as text even when it was sent as a number; ``message`` is empty
    when there was none.
    """

    code: str | None
    type: str | None
    message: str


class Usage(Struct, frozen=True):
    """Token counts as the server reports them; None where it does not, never 0 instead."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    def merged(self, other: Self) -> "Usage":
        """The larger of each count: servers repeat running totals, which must not be added."""
        return Usage(
            _larger(self.prompt_tokens, other.prompt_tokens),
            _larger(self.completion_tokens, other.completion_tokens),
            _larger(self.cached_tokens, other.cached_tokens),
            _larger(self.reasoning_tokens, other.reasoning_tokens),
        )


class Delta(Struct, frozen=True):
    """Visible text that a chunk adds to the choice ``index``."""

    index: int
    text: str


# Structs, not dataclasses: one is built for each chunk, and a frozen dataclass costs 1 us more.
class ChatChunk(Struct, frozen=True, kw_only=True):
    """One event of a chat stream; null and missing members are the same thing.

    ``output`` is true for generated output of any kind (text, reasoning, refusal, a tool call's
    name or arguments), ``answer`` only for visible text. ``choices`` are the indexes it speaks of.
    ``empty`` marks ``{}`` and ``null``, which some servers send to keep the connection alive.
    """

    output: bool = False
    answer: bool = False
    choices: tuple[int, ...] = ()
    deltas: tuple[Delta, ...] = ()
    finish_reasons: Mapping[int, str] | None = None
    """By choice index; None, not an empty mapping, when the chunk finishes nothing."""
    tool_call_starts: frozenset[ToolCallKey] = frozenset()
    """The calls that the chunk names or continues; a set of all of them counts each one once."""
    usage: Usage | None = None
    error: ReplyError | None = None
    model: str | None = None
    empty: bool = False


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)
