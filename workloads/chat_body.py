"""The JSON body of a chat request."""

import functools
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from workloads.prompts import Message, Prompt

_RESERVED = frozenset({"messages", "model", "stream"})


class MaxTokensField(StrEnum):
    """Under which name the longest answer is asked for: newer hosted models refuse the old one."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"
    BOTH = "both"
    NONE = "none"

    @property
    def names(self) -> tuple[str, ...]:
        """The fields to send."""
        if self is MaxTokensField.BOTH:
            return ("max_tokens", "max_completion_tokens")
        return () if self is MaxTokensField.NONE else (self.value,)


def parse_extra_body(text: str) -> Mapping[str, Any]:
    """A JSON object that is merged into every request body."""
    if not text.strip():
        return {}
    try:
        body = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise ValueError(f"not JSON ({error}); write for example '{{\"top_p\": 0.9}}'") from None
    if not isinstance(body, dict):
        raise ValueError("write a JSON object, for example '{\"top_p\": 0.9}'")
    validate_extra_body(body)
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def validate_extra_body(extra_body: Mapping[str, Any]) -> None:
    """Refuse fields that decide what is measured.

    Raises:
        ValueError: names the field.
    """
    wrong = sorted(_RESERVED & extra_body.keys())
    if wrong:
        raise ValueError(
            f"{', '.join(wrong)} cannot be set here; --model, --traffic and the prompt options do"
        )


def scrub(text: str) -> tuple[str, int]:
    """The text with unpaired surrogates replaced by U+FFFD, and how many there were.

    They come from JSON files with half an escape pair; no UTF-8 body can hold them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        clean = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
        return clean, sum("\ud800" <= c <= "\udfff" for c in text)
    return text, 0


def encode_chat(
    prompt: Prompt,
    *,
    model: str,
    max_tokens: int,
    max_tokens_field: MaxTokensField,
    stream: bool,
    include_usage: bool,
    ignore_eos: bool,
    temperature: float | None,
    extra_body: Mapping[str, Any],
) -> bytes:
    """The body as UTF-8, not escaped to ASCII, so that its size is what users really send.

    ``stream_options`` is sent only with streams, whoever asks for it: servers refuse it elsewhere.
    All other fields of ``extra_body`` win over our defaults.
    """
    fields: dict[str, Any] = {"model": model, "stream": stream}
    fields.update(dict.fromkeys(max_tokens_field.names, max_tokens))
    if stream and include_usage:
        fields["stream_options"] = {"include_usage": True}
    if ignore_eos:
        fields["ignore_eos"] = True
    if temperature is not None:
        fields["temperature"] = temperature
    fields.update(extra_body)
    if not stream:
        fields.pop("stream_options", None)
    head = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    messages = ",".join(
        _encode_shared(message) if message.role == "system" else _encode(message)
        for message in prompt.messages
    )
    return scrub(f'{head[:-1]},"messages":[{messages}]}}')[0].encode()


def _encode(message: Message) -> str:
    return json.dumps(
        {"role": message.role, "content": message.content},
        ensure_ascii=False,
        separators=(",", ":"),
    )


@functools.lru_cache(maxsize=256)
def _encode_shared(message: Message) -> str:
    """System prefixes are few and long: each is encoded once."""
    return _encode(message)
