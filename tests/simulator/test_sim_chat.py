"""What a request body means, and what is wrong with a bad one."""

from __future__ import annotations

import json

import pytest

from simulator.chat import DEFAULT_MAX_TOKENS, Tool, parse_chat
from simulator.errors import ApiError
from simulator.tokens import MESSAGE_OVERHEAD_TOKENS

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi, you!"}]
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"properties": {"q": {}}}}}
OTHER_TOOL = {"type": "function", "function": {"name": "other"}}


def parse(context_tokens: int = 1000, **fields):
    body = {"model": "m", "messages": MESSAGES} | fields
    return parse_chat(json.dumps(body).encode(), "m", context_tokens)


def test_prompt_tokens_are_words_and_punctuation_runs_plus_overhead_per_message():
    """`Be brief .` and `Hi , you !` are 7 tokens, two messages add 3 each."""
    assert len(parse().prompt) == 3 + 4 + 2 * MESSAGE_OVERHEAD_TOKENS


@pytest.mark.parametrize(
    ("fields", "attribute", "expected"),
    [
        ({}, "max_tokens", DEFAULT_MAX_TOKENS),
        ({}, "asked_max_tokens", None),
        ({"max_tokens": 7}, "max_tokens", 7),
        ({"max_tokens": 7, "max_completion_tokens": 9}, "max_tokens", 9),
        ({"context_tokens": 20}, "max_tokens", 7),
        ({"stream": True}, "stream", True),
        ({"stream": None}, "stream", False),
        ({"stream_options": {"include_usage": True}}, "include_usage", True),
        ({"ignore_eos": True}, "ignore_eos", True),
        ({"reasoning_effort": "low"}, "reasoning", True),
        ({"reasoning_effort": "none"}, "reasoning", False),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "reasoning", True),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "reasoning", False),
        ({"tools": [TOOL]}, "tool", None),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool", None),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool", Tool("find", "q")),
        (
            {
                "tools": [TOOL, OTHER_TOOL],
                "tool_choice": {"type": "function", "function": {"name": "other"}},
            },
            "tool",
            Tool("other", "text"),
        ),
        ({}, "system_text", "Be brief."),
        ({}, "user_text", "Hi, you!"),
        ({"messages": [{"role": "assistant", "tool_calls": []}]}, "user_text", None),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "in parts"}]}]},
            "user_text",
            "in parts",
        ),
        ({"n": 1}, "model", "m"),
    ],
)
def test_fields_are_read(fields, attribute, expected):
    """Each field has its meaning and its default."""
    assert expected == getattr(parse(**fields), attribute)


@pytest.mark.parametrize(
    ("fields", "status", "code", "says"),
    [
        ({"model": "x"}, 404, "model_not_found", "The model 'x' does not exist"),
        ({"model": None}, 400, "invalid_value", "model is missing"),
        ({"messages": None}, 400, "invalid_value", "messages is missing"),
        ({"messages": []}, 400, "invalid_value", "messages is missing"),
        ({"messages": ["hi"]}, 400, "invalid_value", "messages[0]"),
        ({"messages": [{"role": "user"}]}, 400, "invalid_value", "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            *(400, "invalid_value", "text parts"),
        ),
        ({"max_tokens": 0}, 400, "invalid_value", "max_tokens"),
        ({"max_tokens": 1.5}, 400, "invalid_value", "max_tokens"),
        ({"max_tokens": True}, 400, "invalid_value", "max_tokens"),
        ({"max_completion_tokens": -1}, 400, "invalid_value", "max_completion_tokens"),
        ({"n": 2}, 400, "invalid_value", "n must be 1"),
        ({"stream": "yes"}, 400, "invalid_value", "stream"),
        ({"stream_options": []}, 400, "invalid_value", "stream_options"),
        ({"max_tokens": 988}, 400, "context_length_exceeded", "1000 tokens"),
        ({"context_tokens": 13}, 400, "context_length_exceeded", "13 tokens"),
        ({"tool_choice": "required"}, 400, "invalid_value", "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "maybe"}, 400, "invalid_value", "tool_choice"),
        (
            {"tools": [TOOL], "tool_choice": {"function": {"name": "absent"}}},
            *(400, "invalid_value", "tool_choice"),
        ),
    ],
)
def test_a_bad_field_is_named(fields, status, code, says):
    """Status, code, and a message with the field or the numbers."""
    with pytest.raises(ApiError) as caught:
        parse(**fields)

    assert (status, code) == (caught.value.status, caught.value.code)
    assert says in caught.value.message
    assert caught.value.message == json.loads(caught.value.body())["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_a_json_object_is_a_bad_request(body):
    """Never a crash, whatever the bytes."""
    with pytest.raises(ApiError) as caught:
        parse_chat(body, "m", 1000)

    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


def test_a_request_that_just_fits_the_context_is_taken():
    """13 tokens of prompt and 987 of reply are 1000."""
    assert parse(max_tokens=987).max_tokens == 987


def test_streaming_does_not_change_the_fingerprint_but_a_word_does():
    """The same question gets the same answer, however it travels."""
    plain = parse()

    assert (
        plain.fingerprint == parse(stream=True, stream_options={"include_usage": True}).fingerprint
    )
    assert plain.fingerprint != parse(temperature=0.5).fingerprint
