"""Plays a scripted answer into a reader, whole or cut, and compares what came out."""

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from stream.reply import Reply, ReplyReader
from tests.support.case_notation import Script
from tests.support.case_scripts import one_script

_TIMES = ("headers_s", "output_at_s", "first_output_s", "first_answer_s", "last_output_s", "end_s")


def play(name: str) -> Reply:
    """The reply to a case, each step read in one piece at its time."""
    script = one_script(name)
    reader = begun(script)
    at_s = 0.0
    for step in script.steps:
        at_s = step.at_ms / 1000
        reader.feed(step.data, at_s)
    return reader.close(at_s)


def play_pieces(script: Script, pieces: Iterable[bytes]) -> Reply:
    """The reply to a script whose body arrives in these pieces, all at once."""
    reader = begun(script)
    for piece in pieces:
        reader.feed(piece, 1.0)
    return reader.close(2.0)


def begun(script: Script) -> ReplyReader:
    """A reader that has seen the script's head."""
    reader = ReplyReader(keep_text=True)
    reader.begin(script.status, script.content_type, (script.head_at_ms or 0) / 1000)
    return reader


def untimed(reply: Reply) -> dict[str, Any]:
    """All that a reply says but its times."""
    names = (field.name for field in fields(reply))
    return {name: getattr(reply, name) for name in names if name not in _TIMES}


def stream_of(*chunks: object, end: bytes = b"data: [DONE]\n\n") -> Reply:
    """The reply to a stream of these chunks, each an event of its own."""
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    return read_body(body + end)


def read_body(
    body: bytes, status: int = 200, content_type: str | None = "text/event-stream"
) -> Reply:
    """The reply to a body that arrives in one piece, its text kept."""
    reader = ReplyReader(keep_text=True)
    reader.begin(status, content_type, 0.1)
    reader.feed(body, 0.2)
    return reader.close(0.3)
