"""One event's data to a chat chunk: odd members, and the fast way against the loose one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream.chat_chunk import ChatChunk, MalformedChunk, Usage
from stream.chat_events import parse_chunk
from stream.loose_json import read_chunk
from tests.support.case_notation import choice, compact, content, usage


@pytest.mark.parametrize("payload", [b"{}", b" { }", b"null"], ids=["object", "spaced", "null"])
def test_F08_nothing_at_all_is_empty(payload: bytes) -> None:
    """``{}`` and ``null`` mean nothing and are no fault."""
    assert parse_chunk(payload) == ChatChunk(empty=True)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b'{"choices":[{"de', id="cut"),
        pytest.param(b"hello", id="text"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'"ok"', id="string"),
        pytest.param(b"0", id="zero"),
        pytest.param(b'{"choices":[{"delta":{"content":"\xff"}}]}', id="not-utf-8"),
        pytest.param(b'{"a":' * 5000, id="deep"),
        pytest.param(b"[" * 5000 + b"]" * 5000, id="deep-list"),
        pytest.param(b'{"a":%b}' % (b"9" * 5000), id="endless-number"),
    ],
)
def test_F08_what_is_no_object_is_malformed(payload: bytes) -> None:
    """One error kind for all of it, and the body is not in its text."""
    with pytest.raises(MalformedChunk) as caught:
        parse_chunk(payload)

    assert len(str(caught.value)) < 60


@pytest.mark.parametrize(
    ("members", "found"),
    [
        pytest.param({"usage": usage(5, 3)}, Usage(5, 3), id="top"),
        pytest.param({"choices": [{"usage": usage(5, 3)}]}, Usage(5, 3), id="in-choice"),
        pytest.param({"x_groq": {"id": "r", "usage": usage(5, 3)}}, Usage(5, 3), id="x-groq"),
        pytest.param({**choice({}, "stop"), "usage": usage(5, 3)}, Usage(5, 3), id="finish"),
        pytest.param({"usage": {}}, None, id="empty"),
        pytest.param({"usage": {"prompt_tokens": 5}}, Usage(5), id="half"),
        pytest.param({"usage": {"prompt_tokens": "5"}}, Usage(5), id="text"),
        pytest.param({"usage": {"prompt_tokens": 5.0}}, Usage(5), id="float"),
        pytest.param({"usage": {"prompt_tokens": -1}}, None, id="negative"),
        pytest.param({"usage": {"prompt_tokens": True}}, None, id="boolean"),
        pytest.param({"usage": [3]}, None, id="list"),
        pytest.param(
            {"usage": usage(5, 3, completion_tokens_details={"reasoning_tokens": 2})},
            Usage(5, 3, None, 2),
            id="reasoning",
        ),
        pytest.param(
            {"usage": usage(5, 3, reasoning_tokens=2)}, Usage(5, 3, None, 2), id="flat-reasoning"
        ),
    ],
)
def test_usage_is_found_in_every_known_place(members: object, found: Usage | None) -> None:
    """Each place and each spelling of a count; what is no count is absent."""
    assert parse_chunk(compact(members)).usage == found


def test_P07_the_larger_count_wins() -> None:
    """Merging keeps the larger of each and what only one has."""
    merged = Usage(20, 3, None, 1).merged(Usage(20, 2, 16, None))

    assert merged == Usage(20, 3, 16, 1)


@pytest.mark.parametrize(
    ("delta", "output", "answer"),
    [
        pytest.param({"content": "a"}, True, True, id="content"),
        pytest.param({"content": " "}, True, True, id="space"),
        pytest.param({"reasoning_content": "a"}, True, False, id="reasoning-content"),
        pytest.param({"reasoning": "a"}, True, False, id="reasoning"),
        pytest.param({"refusal": "a"}, True, False, id="refusal"),
        pytest.param({"content": "", "reasoning": None}, False, False, id="empty"),
        pytest.param({"content": 7}, False, False, id="number"),
        pytest.param({"content": [{"text": "a"}]}, True, True, id="text-part"),
        pytest.param({"content": [{"type": "thinking"}]}, True, False, id="other-part"),
        pytest.param({"tool_calls": []}, False, False, id="no-call"),
        pytest.param({"tool_calls": [{"index": 0, "id": "t"}]}, False, False, id="call-id-only"),
        pytest.param({"tool_calls": [{"function": {"name": "f"}}]}, True, False, id="call-name"),
        pytest.param(
            {"tool_calls": [{"function": {"arguments": {"a": 1}}}]}, True, False, id="object"
        ),
        pytest.param([1], False, False, id="list"),
    ],
)
def test_output_is_generated_text_of_any_kind(delta: object, output: bool, answer: bool) -> None:
    """Text, reasoning, refusal, a call's name or arguments; nothing else."""
    chunk = parse_chunk(compact(choice(delta)))

    assert (chunk.output, chunk.answer) == (output, answer)


@pytest.mark.parametrize("index", [None, "x", -3], ids=["null", "text", "negative"])
def test_P13_a_choice_without_an_index_takes_its_place(index: object) -> None:
    """The place in the list stands in for an index that is none."""
    chunk = parse_chunk(compact({"choices": [{"index": index, "delta": {"content": "a"}}]}))

    assert chunk.choices == (0,)


def test_numbers_that_are_not_json_do_not_spoil_a_chunk() -> None:
    """Log probabilities of -Infinity, as some servers send them, leave the text readable."""
    payload = json.dumps({**content("a"), "logprobs": float("-inf")}).encode()

    assert parse_chunk(payload).answer


SMALL: st.SearchStrategy[Any] = (
    st.none() | st.text(max_size=3) | st.integers(-2, 5) | st.booleans() | st.just([])
)
COUNTS: st.SearchStrategy[Any] = st.none() | st.integers(-1, 9) | st.just(4.0) | st.just("6")
USAGES = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": COUNTS,
        "completion_tokens": COUNTS,
        "prompt_cache_hit_tokens": COUNTS,
        "reasoning_tokens": COUNTS,
        "prompt_tokens_details": st.none() | st.fixed_dictionaries({"cached_tokens": COUNTS}),
        "completion_tokens_details": st.fixed_dictionaries({"reasoning_tokens": COUNTS}) | SMALL,
    },
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "role": SMALL,
        "content": SMALL,
        "reasoning": SMALL,
        "reasoning_content": SMALL,
        "refusal": SMALL,
        "tool_calls": SMALL,
        "function_call": SMALL,
    },
)
CHOICES = st.fixed_dictionaries(
    {"delta": DELTAS | SMALL},
    optional={"index": SMALL, "finish_reason": SMALL, "usage": SMALL | USAGES},
)
CHUNKS = st.fixed_dictionaries(
    {"choices": st.lists(CHOICES, max_size=2) | SMALL},
    optional={
        "usage": USAGES | SMALL,
        "model": SMALL,
        "object": SMALL | st.just("error"),
        "error": SMALL,
        "x_groq": SMALL,
    },
)


@given(CHUNKS)
def test_the_fast_way_and_the_loose_way_agree(members: dict[str, Any]) -> None:
    """A chunk with members of any type reads the same by either way."""
    payload = json.dumps(members).encode()

    assert parse_chunk(payload) == read_chunk(payload)
