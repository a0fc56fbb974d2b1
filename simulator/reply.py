"""What a reply says: one piece of text per token, decided by seed and request alone."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from enum import Enum, auto

from simulator.chat import ChatRequest, Tool
from simulator.tokens import natural_tokens, reply_rng, reply_words

# Share of a reply that is thought before it is said, if reasoning was asked for.
REASONING_RATIO = 0.4


class Channel(Enum):
    """The field of the delta in which a piece travels."""

    REASONING = auto()
    CONTENT = auto()
    TOOL = auto()


@dataclass(frozen=True, slots=True)
class Reply:
    """The whole reply: the first `reasoning_tokens` pieces are reasoning, the rest `channel`.

    The first piece of a tool call is the start of its arguments, mostly the empty string.
    """

    pieces: tuple[str, ...]
    reasoning_tokens: int
    channel: Channel
    finish_reason: str
    tool: Tool | None
    tool_call_id: str

    def channel_at(self, position: int) -> Channel:
        """Where the piece at `position` (from 0) belongs."""
        return Channel.REASONING if position < self.reasoning_tokens else self.channel

    def text(self, channel: Channel) -> str:
        """All text of one channel."""
        pieces = enumerate(self.pieces)
        return "".join(piece for place, piece in pieces if self.channel_at(place) is channel)


def plan_reply(request: ChatRequest, seed: int, mean_tokens: float) -> Reply:
    """The reply to `request`; `mean_tokens` is the mean length of one that ends by itself."""
    rng = reply_rng(seed, request.fingerprint)
    natural = request.max_tokens + 1 if request.ignore_eos else natural_tokens(rng, mean_tokens)
    tokens = min(natural, request.max_tokens)
    finish_reason = "stop" if natural <= request.max_tokens else "length"
    reasoning_tokens = math.floor(tokens * REASONING_RATIO) if request.reasoning else 0
    words = reply_words(rng, reasoning_tokens)
    rest = tokens - reasoning_tokens
    if request.tool is not None:
        # The call is always whole JSON, also where a real server would cut it at the limit.
        words += _tool_pieces(rng, request.tool, rest)
        finish_reason = "tool_calls"
    else:
        words += reply_words(rng, rest)
    return Reply(
        pieces=tuple(words),
        reasoning_tokens=reasoning_tokens,
        channel=Channel.TOOL if request.tool else Channel.CONTENT,
        finish_reason=finish_reason,
        tool=request.tool,
        tool_call_id=f"call_{rng.getrandbits(64):016x}",
    )


def _tool_pieces(rng: random.Random, tool: Tool, count: int) -> list[str]:
    """Arguments of a call as `count` pieces that join to a JSON object."""
    if count == 1:
        return ["{}"]
    if count == 2:
        return ["", "{}"]
    opening = json.dumps({tool.argument: ""}, ensure_ascii=False)[:-2]
    return ["", opening, *reply_words(rng, count - 3), '"}']
