"""The bytes of an answer: server-sent events in vLLM's order, or one JSON document.

Role chunk, one chunk per `interval_tokens` tokens, finish chunk, usage chunk if asked for, [DONE].
All constant parts of a chunk are serialised once per request, as a chunk is sent for every token.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from simulator.reply import Channel, Reply

DONE = b"data: [DONE]\n\n"


@lru_cache(maxsize=4096)
def _json_text(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one answer."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int

    def fields(self) -> dict[str, Any]:
        """The `usage` object; reasoning is told only when there was some."""
        fields: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }
        if self.reasoning_tokens:
            fields["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return fields


class ChunkWriter:
    """Bytes of the events of one streamed reply."""

    def __init__(
        self, reply: Reply, completion_id: str, created: int, model: str, interval_tokens: int
    ) -> None:
        self._reply = reply
        self._interval_tokens = interval_tokens
        head = {
            "id": completion_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }
        self._head = b"data: " + _json_bytes(head)[:-1]
        self._open = self._head + b',"choices":[{"index":0,"delta":{'
        self._close = b'},"logprobs":null,"finish_reason":null}]}\n\n'
        self._pending = 0  # position of the first piece not yet written

    @property
    def written_tokens(self) -> int:
        """Tokens in the chunks that `output` has returned."""
        return self._pending

    def role(self) -> bytes:
        """The chunk that names the speaker and says nothing."""
        return self._open + b'"role":"assistant","content":""' + self._close

    def output(self, tokens: int) -> list[bytes]:
        """Output chunks that are due when the reply has `tokens` tokens in all.

        The first token goes out at once, later ones wait until a chunk is full, and the last
        chunk may be short.
        """
        chunks: list[bytes] = []
        while self._pending < tokens:
            start = self._pending
            end = min(start + (self._interval_tokens if start else 1), len(self._reply.pieces))
            if start < self._reply.reasoning_tokens < end:
                end = self._reply.reasoning_tokens  # a chunk never holds two channels
            if end > tokens:
                break
            chunks.append(self._open + self._delta(start, end) + self._close)
            self._pending = end
        return chunks

    def ending(self, usage: Usage | None) -> bytes:
        """Finish chunk, usage chunk unless None, and the end mark."""
        finish = _json_text(self._reply.finish_reason)
        last = self._open + b'"content":""},"logprobs":null,"finish_reason":' + finish + b"}]}\n\n"
        if usage is not None:
            fields = _json_bytes(usage.fields())
            last += self._head + b',"choices":[],"usage":' + fields + b"}\n\n"
        return last + DONE

    def _delta(self, start: int, end: int) -> bytes:
        reply = self._reply
        pieces = reply.pieces
        text = _json_text(pieces[start] if end == start + 1 else "".join(pieces[start:end]))
        channel = reply.channel_at(start)
        if channel is Channel.CONTENT:
            return b'"content":' + text
        if channel is Channel.REASONING:
            return b'"reasoning_content":' + text
        call = b'"tool_calls":[{"index":0,'
        if start == reply.reasoning_tokens and reply.tool is not None:
            call += b'"id":' + _json_text(reply.tool_call_id) + b',"type":"function",'
            name = _json_text(reply.tool.name)
            return call + b'"function":{"name":' + name + b',"arguments":' + text + b"}}]"
        return call + b'"function":{"arguments":' + text + b"}}]"


def completion_body(
    reply: Reply, completion_id: str, created: int, model: str, usage: Usage
) -> bytes:
    """The answer to a request that does not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text(Channel.CONTENT)}
    if reply.reasoning_tokens:
        message["reasoning_content"] = reply.text(Channel.REASONING)
    if reply.tool is not None:
        function = {"name": reply.tool.name, "arguments": reply.text(Channel.TOOL)}
        call = {"id": reply.tool_call_id, "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": reply.finish_reason,
    }
    return _json_bytes(
        {
            "id": completion_id,
            "object": "chat.completion",
            "created": created,
            "model": model,
            "choices": [choice],
            "usage": usage.fields(),
        }
    )
