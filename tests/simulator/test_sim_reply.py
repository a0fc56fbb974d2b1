"""Replies: their length, their words, and the bytes that carry them."""

from __future__ import annotations

import json

import pytest

from simulator.chat import parse_chat
from simulator.reply import Channel, plan_reply
from simulator.sse import ChunkWriter, Usage, completion_body
from simulator.tokens import tokenize

TOOLS = {
    "tools": [{"function": {"name": "find", "parameters": {"properties": {'a "b"': {}}}}}],
    "tool_choice": "required",
}
THINK = {"reasoning_effort": "high"}


def plan(text: str = "Hello there.", seed: int = 0, mean_tokens: float = 48.0, **fields):
    body = {"model": "m", "messages": [{"role": "user", "content": text}]} | fields
    return plan_reply(parse_chat(json.dumps(body).encode(), "m", 100_000), seed, mean_tokens)


def stream(reply, interval_tokens: int = 1, usage: Usage | None = None) -> list[str]:
    """Payloads of a whole stream whose tokens come one by one."""
    writer = ChunkWriter(reply, "id-1", 7, "m", interval_tokens)
    body = writer.role()
    for tokens in range(1, len(reply.pieces) + 1):
        body += b"".join(writer.output(tokens))
    body += writer.ending(usage)
    events = body.decode().split("\n\n")
    assert events.pop() == ""
    assert all(event.startswith("data: ") for event in events)
    return [event.removeprefix("data: ") for event in events]


def deltas(reply, interval_tokens: int = 1) -> list[dict]:
    """Deltas of the output chunks alone."""
    chunks = [json.loads(payload) for payload in stream(reply, interval_tokens)[1:-2]]
    return [chunk["choices"][0]["delta"] for chunk in chunks]


@pytest.mark.parametrize("tokens", [1, 2, 3, 48])
@pytest.mark.parametrize("extra", [{}, THINK, TOOLS, THINK | TOOLS], ids=["", "r", "t", "rt"])
def test_ignore_eos_gives_exactly_max_tokens(tokens, extra):
    """One piece per token on whichever channel."""
    reply = plan(max_tokens=tokens, ignore_eos=True, **extra)

    assert len(reply.pieces) == tokens
    assert reply.finish_reason == ("tool_calls" if "tools" in extra else "length")
    assert reply.reasoning_tokens == (int(tokens * 0.4) if "reasoning_effort" in extra else 0)


def test_a_reply_is_as_many_tokens_as_it_says():
    """Counting its text again gives the same number."""
    reply = plan(max_tokens=500, ignore_eos=True)

    assert len(tokenize(reply.text(Channel.CONTENT))) == 500


def test_natural_lengths_have_the_asked_mean_and_say_stop():
    """Geometric with mean 48 over 2000 different questions."""
    replies = [plan(f"question {i}", max_tokens=5000) for i in range(2000)]

    mean_tokens = sum(len(reply.pieces) for reply in replies) / len(replies)
    assert mean_tokens == pytest.approx(48, rel=0.08)
    assert {reply.finish_reason for reply in replies} == {"stop"}


def test_max_tokens_cuts_natural_lengths_and_says_length():
    """Both reasons occur, and only a cut reply has exactly max_tokens with `length`."""
    replies = [plan(f"question {i}", max_tokens=30) for i in range(300)]

    assert {reply.finish_reason for reply in replies} == {"stop", "length"}
    for reply in replies:
        assert len(reply.pieces) <= 30
        assert reply.finish_reason == "stop" or len(reply.pieces) == 30


def test_a_reply_depends_on_seed_and_request_and_on_nothing_else():
    """Same in, same out; in any order."""
    first, other, again = plan("one"), plan("two"), plan("one")

    assert first == again
    assert first.pieces != other.pieces
    assert first.pieces != plan("one", seed=1).pieces


@pytest.mark.parametrize("tokens", [1, 2, 3, 20])
def test_a_tool_call_is_whole_json_with_the_schema_s_argument(tokens):
    """Also where hardly any token is left for it, and with a quote in the name."""
    reply = plan(max_tokens=tokens, ignore_eos=True, **TOOLS)

    arguments = json.loads(reply.text(Channel.TOOL))
    assert list(arguments) == (['a "b"'] if tokens > 2 else [])


def test_the_stream_is_role_output_finish_usage_done():
    """In this order; the finish chunk says nothing and the usage chunk has no choice."""
    reply = plan(max_tokens=3, ignore_eos=True)
    *chunks, done = stream(reply, usage=Usage(5, 3, 2, 0))
    role, *output, finish, usage = [json.loads(chunk) for chunk in chunks]

    assert done == "[DONE]"
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["choices"][0]["delta"]["content"] for chunk in output] == list(reply.pieces)
    assert {chunk["choices"][0]["finish_reason"] for chunk in (role, *output)} == {None}
    assert finish["choices"][0] == {
        "index": 0,
        "delta": {"content": ""},
        "logprobs": None,
        "finish_reason": "length",
    }
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    heads = [{k: chunk[k] for k in ("id", "object", "created", "model")} for chunk in (role, usage)]
    assert heads[0] == heads[1]
    assert heads[0]["object"] == "chat.completion.chunk"


@pytest.mark.parametrize(
    ("interval_tokens", "sizes"), [(1, [1] * 10), (4, [1, 4, 4, 1]), (50, [1, 9])]
)
def test_a_stream_interval_packs_tokens_after_the_first(interval_tokens, sizes):
    """The first token comes alone, the last chunk may be short."""
    reply = plan(max_tokens=10, ignore_eos=True)
    texts = [delta["content"] for delta in deltas(reply, interval_tokens)]

    assert [len(tokenize(text)) for text in texts] == sizes
    assert "".join(texts) == reply.text(Channel.CONTENT)


def test_a_chunk_never_holds_two_channels():
    """Reasoning ends its chunk early, and answer text starts a new one."""
    reply = plan(max_tokens=10, ignore_eos=True, **THINK)
    parts = deltas(reply, interval_tokens=5)

    assert [next(iter(delta)) for delta in parts] == ["reasoning_content"] * 2 + ["content"] * 2
    assert reply.text(Channel.REASONING) == "".join(d.get("reasoning_content", "") for d in parts)


def test_tool_call_deltas_name_the_function_once_and_join_to_its_arguments():
    """Id and name in the first delta, argument text in all."""
    reply = plan(max_tokens=12, ignore_eos=True, **TOOLS)
    calls = [delta["tool_calls"][0] for delta in deltas(reply)]

    assert len(calls) == 12
    assert calls[0]["id"] == reply.tool_call_id
    assert [call["function"].get("name") for call in calls] == ["find"] + [None] * 11
    joined = "".join(call["function"]["arguments"] for call in calls)
    assert joined == reply.text(Channel.TOOL)


def test_the_unstreamed_answer_says_the_same_as_the_stream():
    """Text, reasoning and usage agree."""
    reply = plan(max_tokens=20, ignore_eos=True, **THINK)
    body = json.loads(completion_body(reply, "id", 7, "m", Usage(4, 20, 0, 8)))
    message = body["choices"][0]["message"]

    assert message["content"] == "".join(d.get("content", "") for d in deltas(reply))
    assert message["reasoning_content"] == reply.text(Channel.REASONING)
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": 8}
    assert body["choices"][0]["finish_reason"] == "length"
