"""From the body of a chat completion request to a typed request, or to an `ApiError`.

Fields that change neither size nor shape of a reply (temperature, stop, logprobs, ...) are
accepted and ignored, as a load test does not look at words.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from simulator.errors import ApiError, bad_request
from simulator.tokens import message_tokens, tokenize

DEFAULT_MAX_TOKENS = 64

# How the reply travels does not change what it says.
_TRANSPORT_FIELDS = frozenset({"stream", "stream_options"})


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the reply has to call, and the name of its one argument."""

    name: str
    argument: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A valid chat completion request.

    `fingerprint` stands for everything that decides the reply; `asked_max_tokens` is None
    if the client left the limit out, `max_tokens` is the limit in force.
    """

    model: str
    stream: bool
    include_usage: bool
    prompt: tuple[str, ...]
    asked_max_tokens: int | None
    max_tokens: int
    ignore_eos: bool
    reasoning: bool
    tool: Tool | None
    system_text: str | None
    user_text: str | None
    fingerprint: bytes


def parse_chat(body: bytes, model: str, context_tokens: int) -> ChatRequest:
    """Read a request for `model`, whose prompt and reply may hold `context_tokens` together.

    Raises ApiError 400 or 404 with a message that names the field.
    """
    fields = _parse_json(body)
    messages = _messages(fields)
    asked_model = fields.get("model")
    if not isinstance(asked_model, str):
        raise bad_request("model is missing: it must be a string", "model")
    if asked_model != model:
        message = f"The model '{asked_model}' does not exist"
        raise ApiError(404, message, "model_not_found", kind="not_found_error", param="model")
    if fields.get("n") not in (None, 1):
        raise bad_request("n must be 1: this server gives one choice", "n")

    prompt = [token for role, text in messages for token in message_tokens(role, text)]
    if fields.get("tools"):
        prompt += tokenize(json.dumps(fields["tools"]))
    asked_max_tokens = _asked_max_tokens(fields)
    return ChatRequest(
        model=model,
        stream=_boolean(fields, "stream"),
        include_usage=_boolean(_mapping(fields, "stream_options"), "include_usage"),
        prompt=tuple(prompt),
        asked_max_tokens=asked_max_tokens,
        max_tokens=_max_tokens(asked_max_tokens, len(prompt), context_tokens),
        ignore_eos=_boolean(fields, "ignore_eos"),
        reasoning=_wants_reasoning(fields),
        tool=_required_tool(fields),
        system_text=_joined(messages, ("system", "developer")),
        user_text=next((text for role, text in reversed(messages) if role == "user"), None),
        fingerprint=json.dumps(
            {name: value for name, value in fields.items() if name not in _TRANSPORT_FIELDS},
            sort_keys=True,
        ).encode(),
    )


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}", code="invalid_json") from error
    if not isinstance(fields, dict):
        raise bad_request("The body must be a JSON object", code="invalid_json")
    return fields


def _messages(fields: dict[str, Any]) -> list[tuple[str, str]]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages is missing: it must be a list with a message", "messages")
    return [_message(message, f"messages[{place}]") for place, message in enumerate(messages)]


def _message(message: object, where: str) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise bad_request(f"{where} must be an object with a role", where)
    content = message.get("content")
    if content is None and message["role"] == "assistant":
        # A turn that called tools says nothing itself; the calls are its text.
        return "assistant", json.dumps(message.get("tool_calls", ""))
    if isinstance(content, str):
        return message["role"], content
    if isinstance(content, list):
        return message["role"], "\n".join(_part_text(part, where) for part in content)
    raise bad_request(f"{where}.content must be a string or a list of text parts", where)


def _part_text(part: object, where: str) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise bad_request(f"{where}.content may hold text parts only", where)


def _boolean(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise bad_request(f"{name} must be true or false", name)
    return bool(value)


def _mapping(fields: dict[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"{name} must be an object", name)
    return value


def _asked_max_tokens(fields: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = fields.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise bad_request(f"{name} must be a whole number from 1, got {value!r}", name)
        return value
    return None


def _max_tokens(asked: int | None, prompt_tokens: int, context_tokens: int) -> int:
    room_tokens = context_tokens - prompt_tokens
    if room_tokens < (asked or 1):
        message = (
            f"This model's maximum context length is {context_tokens} tokens, but the request "
            f"needs {prompt_tokens + (asked or 1)}: {prompt_tokens} in the messages and "
            f"{asked or 1} in the completion"
        )
        raise bad_request(message, "messages", code="context_length_exceeded")
    return asked or min(DEFAULT_MAX_TOKENS, room_tokens)


def _wants_reasoning(fields: dict[str, Any]) -> bool:
    effort = fields.get("reasoning_effort")
    template = _mapping(fields, "chat_template_kwargs")
    return effort not in (None, "none") or template.get("enable_thinking") is True


def _required_tool(fields: dict[str, Any]) -> Tool | None:
    choice = fields.get("tool_choice")
    if choice in (None, "none", "auto"):
        return None
    tools = fields.get("tools")
    functions = [
        tool["function"]
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(tool, dict)
        and isinstance(tool.get("function"), dict)
        and isinstance(tool["function"].get("name"), str)
    ]
    if isinstance(choice, dict):
        named = choice.get("function")
        name = named.get("name") if isinstance(named, dict) else None
        functions = [function for function in functions if function["name"] == name]
    elif choice != "required":
        raise bad_request(f"tool_choice {choice!r} is not known", "tool_choice")
    if not functions:
        raise bad_request("tool_choice asks for a function that tools does not hold", "tool_choice")
    parameters = functions[0].get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    argument = next(iter(properties), "text") if isinstance(properties, dict) else "text"
    return Tool(functions[0]["name"], argument)


def _joined(messages: list[tuple[str, str]], roles: tuple[str, ...]) -> str | None:
    texts = [text for role, text in messages if role in roles]
    return "\n".join(texts) if texts else None
