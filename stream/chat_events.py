"""One event's data to a chat chunk: thousands a second, so the ordinary shape has a fast way.

The fast way decodes straight into typed structs, which skips every member that nobody reads. It
takes one choice with text, reasoning, a finish_reason and running usage. What it cannot take (tool
calls, an error, several choices, a member of another type, text that is not JSON) goes to
``loose_json``, which reads anything; where both can read a chunk they agree, and a test says so.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from stream.chat_chunk import ChatChunk, Delta, MalformedChunk, ReplyError, ToolCallKey, Usage
from stream.loose_json import MAX_COUNT, read_chunk

__all__ = [
    "ChatChunk",
    "Delta",
    "MalformedChunk",
    "ReplyError",
    "ToolCallKey",
    "Usage",
    "parse_chunk",
]

_Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]


class _Delta(Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: None = None
    function_call: None = None


class _Choice(Struct):
    index: _Count = 0
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: None = None


class _PromptDetails(Struct):
    cached_tokens: _Count | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: _Count | None = None


class _Usage(Struct):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    model: str | None = None
    error: None = None
    x_groq: None = None
    object: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_NO_DELTA = _Delta()


def parse_chunk(payload: bytes) -> ChatChunk:
    """Read one event's data (UTF-8 as sent, not ``[DONE]``).

    Raises:
        MalformedChunk: the data is not JSON, or neither an object nor null.
    """
    try:
        wire = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return read_chunk(payload)
    if wire.choices is None or len(wire.choices) > 1 or wire.object == "error":
        return read_chunk(payload)
    if not wire.choices:
        usage = None if wire.usage is None else _usage_of(wire.usage)
        return ChatChunk(usage=usage, model=wire.model or None)
    choice = wire.choices[0]
    delta = choice.delta or _NO_DELTA
    text = delta.content
    return ChatChunk(
        output=bool(text or delta.reasoning_content or delta.reasoning or delta.refusal),
        answer=bool(text),
        choices=(choice.index,),
        deltas=(Delta(choice.index, text),) if text else (),
        finish_reasons={choice.index: choice.finish_reason} if choice.finish_reason else None,
        usage=None if wire.usage is None else _usage_of(wire.usage),
        model=wire.model or None,
    )


def _usage_of(usage: _Usage) -> Usage | None:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    cached_tokens = None if prompt is None else prompt.cached_tokens
    reasoning_tokens = None if completion is None else completion.reasoning_tokens
    found = Usage(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.prompt_cache_hit_tokens if cached_tokens is None else cached_tokens,
        usage.reasoning_tokens if reasoning_tokens is None else reasoning_tokens,
    )
    return None if found == Usage() else found
