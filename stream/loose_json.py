"""Reads chat JSON of any shape: whatever a member's type is, nothing here raises.

The typed decoder of ``chat_events`` takes the ordinary chunk; this module takes all others, and the
bodies of plain answers. A member of an unexpected type counts as absent.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stream.chat_chunk import ChatChunk, Delta, MalformedChunk, ReplyError, ToolCallKey, Usage

MAX_COUNT = (1 << 53) - 1
"""The largest whole number that every JSON reader keeps exact; a larger count is absent."""

_REASONING = ("reasoning_content", "reasoning")


def decode_json(payload: bytes) -> object:
    """The JSON value; NaN, Infinity and lone surrogates, which some servers send, are let pass.

    Raises:
        MalformedChunk: not JSON, not UTF-8, or nested beyond reason.
    """
    value: object
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _decode_lenient(payload)
    return value


def _decode_lenient(payload: bytes) -> object:
    try:
        value: object = json.loads(payload.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        # The body itself must not get into a log: name the fault and the length only.
        raise MalformedChunk(f"{type(error).__name__} in {len(payload)} bytes") from None
    return value


def read_chunk(payload: bytes) -> ChatChunk:
    """Read one event's data.

    Raises:
        MalformedChunk: the data is not JSON, or neither an object nor null.
    """
    value = decode_json(payload)
    if not value and (value is None or isinstance(value, dict)):
        return ChatChunk(empty=True)
    if not isinstance(value, dict):
        raise MalformedChunk(f"{type(value).__name__} instead of an object")
    output = answer = False
    indexes: list[int] = []
    deltas: list[Delta] = []
    finish_reasons: dict[int, str] = {}
    calls: set[ToolCallKey] = set()
    for index, choice in read_choices(value):
        indexes.append(index)
        if reason := text_of(choice.get("finish_reason")):
            finish_reasons[index] = reason
        delta = mapping_of(choice.get("delta"))
        if text := content_text(delta.get("content")):
            answer = True
            deltas.append(Delta(index, text))
        calls.update(tool_calls(index, delta))
        output = output or has_output(delta)
    return ChatChunk(
        output=output,
        answer=answer,
        choices=tuple(indexes),
        deltas=tuple(deltas),
        finish_reasons=finish_reasons or None,
        tool_call_starts=frozenset(calls),
        usage=read_usage(value),
        error=read_error(value) or _bare_error(value),
        model=text_of(value.get("model")),
    )


def read_choices(body: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Each choice that is an object, with its index; its place where it has none."""
    choices = body.get("choices")
    if isinstance(choices, list):
        for place, choice in enumerate(choices):
            if isinstance(choice, dict):
                index = count_of(choice.get("index"))
                yield place if index is None else index, choice


def has_output(message: Mapping[str, Any]) -> bool:
    """Whether a delta or message holds generated output of any kind."""
    if message.get("content") and isinstance(message["content"], str | list):
        return True
    if any(isinstance(message.get(key), str) and message[key] for key in ("refusal", *_REASONING)):
        return True
    return any(_is_generated(function) for _, function in _functions(message))


def content_text(content: object) -> str:
    """Visible text of a ``content`` member: a string, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text_of(mapping_of(part).get("text")) or "" for part in content)
    return ""


def tool_calls(choice: int, message: Mapping[str, Any]) -> set[ToolCallKey]:
    """The tool calls that a delta or message of that choice speaks of."""
    return {(choice, key) for key, function in _functions(message) if _is_generated(function)}


def _functions(message: Mapping[str, Any]) -> Iterator[tuple[int | str, Mapping[str, Any]]]:
    calls = message.get("tool_calls")
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        members = mapping_of(call)
        index = count_of(members.get("index"))
        key = text_of(members.get("id")) or place if index is None else index
        yield key, mapping_of(members.get("function"))
    # The member that tool_calls replaced in 2023; some gateways still send it.
    if isinstance(message.get("function_call"), dict):
        yield "function_call", message["function_call"]


def _is_generated(function: Mapping[str, Any]) -> bool:
    # Some servers send arguments as an object instead of JSON text.
    return bool(function.get("name") or function.get("arguments"))


def read_usage(body: Mapping[str, Any]) -> Usage | None:
    """Token counts from any place known to hold them; None when no place holds a count."""
    places = [body.get("usage"), mapping_of(body.get("x_groq")).get("usage")]
    places += [choice.get("usage") for _, choice in read_choices(body)]
    found: Usage | None = None
    for place in places:
        usage = _usage_of(mapping_of(place))
        if usage is not None:
            found = usage if found is None else found.merged(usage)
    return found


def _usage_of(usage: Mapping[str, Any]) -> Usage | None:
    prompt = mapping_of(usage.get("prompt_tokens_details"))
    completion = mapping_of(usage.get("completion_tokens_details"))
    cached_tokens = count_of(prompt.get("cached_tokens"))
    reasoning_tokens = count_of(completion.get("reasoning_tokens"))
    if cached_tokens is None:
        cached_tokens = count_of(usage.get("prompt_cache_hit_tokens"))
    if reasoning_tokens is None:
        reasoning_tokens = count_of(usage.get("reasoning_tokens"))
    found = Usage(
        count_of(usage.get("prompt_tokens")),
        count_of(usage.get("completion_tokens")),
        cached_tokens,
        reasoning_tokens,
    )
    return None if found == Usage() else found


def read_error(body: Mapping[str, Any]) -> ReplyError | None:
    """The error that an object reports in any known shape; None when it reports none."""
    error = body.get("error")
    if isinstance(error, dict):
        return _error_of(error)
    if body.get("object") == "error":
        return _error_of(body)
    if error is None or error is False or error == "":
        return None
    return ReplyError(code_of(body.get("code")), text_of(body.get("type")), _as_text(error))


def _bare_error(event: Mapping[str, Any]) -> ReplyError | None:
    """The error of an event that is nothing else: gateways write it without ``error`` around it."""
    if "choices" in event or "usage" in event:
        return None
    if event.get("detail"):
        return ReplyError(code_of(event.get("code")), None, _as_text(event["detail"]))
    errors = event.get("errors")
    if isinstance(errors, list) and errors:
        return _error_of(mapping_of(errors[0])) if isinstance(errors[0], dict) else None
    named = event.get("code") is not None or event.get("type") is not None
    return _error_of(event) if event.get("message") and named else None


def _error_of(error: Mapping[str, Any]) -> ReplyError:
    message = error.get("message")
    code = code_of(error.get("code"))
    return ReplyError(
        code, text_of(error.get("type")), "" if message is None else _as_text(message)
    )


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def code_of(value: object) -> str | None:
    """An error code as text; None unless it is a number or a text with something in it."""
    if isinstance(value, int | str) and not isinstance(value, bool):
        return str(value) or None
    return None


def text_of(value: object) -> str | None:
    """The value when it is a text with something in it, else None."""
    return value if isinstance(value, str) and value else None


def mapping_of(value: object) -> Mapping[str, Any]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def count_of(value: object) -> int | None:
    """A count of 0 or more, also when sent as 5.0 or "5"; else None."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    return None
