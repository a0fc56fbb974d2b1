"""A body that is no event stream: a whole chat completion, or what a server says went wrong."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

from stream.chat_chunk import MalformedChunk, ReplyError, ToolCallKey, Usage
from stream.loose_json import (
    code_of,
    content_text,
    decode_json,
    has_output,
    mapping_of,
    read_choices,
    read_error,
    read_usage,
    text_of,
    tool_calls,
)
from stream.sse import EventTooLarge, SseDecoder

MESSAGE_CHARS = 500
_PAGE_CHARS = 8192

# "<" is left out of each class so that a body of "<" alone is not searched again from every one.
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml|!--)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainReply:
    """What a whole 2xx body holds; every field has its empty value when it holds none of it.

    ``shape_ok``: the body is a chat completion, with a message in each choice and at least one
    choice.
    """

    shape_ok: bool = False
    malformed: bool = False
    has_output: bool = False
    finish_reasons: Mapping[int, str]
    texts: Mapping[int, str]
    tool_calls: frozenset[ToolCallKey] = frozenset()
    usage: Usage | None = None
    error: ReplyError | None = None
    model: str | None = None


def read_plain(body: bytes) -> PlainReply:
    """Read a whole 2xx body."""
    try:
        value = decode_json(body.removeprefix(b"\xef\xbb\xbf"))
    except MalformedChunk:
        return PlainReply(malformed=True, finish_reasons={}, texts={})
    members = mapping_of(value)
    choices = dict(read_choices(members))
    messages = {index: mapping_of(choice.get("message")) for index, choice in choices.items()}
    reasons = {index: text_of(choice.get("finish_reason")) for index, choice in choices.items()}
    return PlainReply(
        shape_ok=bool(messages) and all(messages.values()),
        has_output=any(has_output(message) for message in messages.values()),
        finish_reasons={index: reason for index, reason in reasons.items() if reason},
        texts={i: content_text(message.get("content")) for i, message in messages.items()},
        tool_calls=frozenset().union(*(tool_calls(i, messages[i]) for i in messages)),
        usage=read_usage(members),
        error=read_error(members),
        model=text_of(members.get("model")),
    )


def read_error_body(body: bytes) -> ReplyError:
    """What the body of a non-2xx answer says: JSON of any shape, an event, HTML or plain text.

    The message is one line of at most 500 characters, empty when the body is.
    """
    found = _json_error(body) or _json_error(_first_event(body))
    if found is None:
        found = ReplyError(None, None, _readable(body.decode("utf-8", "replace")))
    return ReplyError(found.code, found.type, " ".join(found.message.split())[:MESSAGE_CHARS])


def _json_error(body: bytes) -> ReplyError | None:
    try:
        value = decode_json(body)
    except MalformedChunk:
        return None
    if isinstance(value, str):
        return ReplyError(None, None, value)
    if not isinstance(value, dict):
        return None
    if (error := read_error(value)) is not None:
        return error
    # Web frameworks say "detail", gateways "message", beside or without a code.
    message = text_of(value.get("message")) or text_of(value.get("detail"))
    if message is None:
        return None
    return ReplyError(code_of(value.get("code")), text_of(value.get("type")), message)


def _first_event(body: bytes) -> bytes:
    try:
        payloads = SseDecoder().feed(body + b"\n\n") if b"data:" in body else []
    except EventTooLarge:
        return b""
    return payloads[0] if payloads else b""


def _readable(text: str) -> str:
    head = text[:_PAGE_CHARS]
    if not _PAGE.match(head):
        return head
    title = _TITLE.search(head)
    if title is not None and title[1].strip():
        return html.unescape(title[1])
    return html.unescape(_TAG.sub(" ", head))
