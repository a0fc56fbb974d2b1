"""The notation in which the public bug cases are written, as bytes and times.

``R C(x) T(x) F(r) U(p,c) D`` are events; ``at(ms, event, ...)`` is one write, that many
milliseconds after the request arrived. Values are made up.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"


class Framing(Enum):
    """How the body's end is made known."""

    CHUNKED = auto()
    LENGTH = auto()
    CLOSE = auto()


class Ending(Enum):
    """What happens after the last step."""

    CLEAN = auto()
    RESET = auto()
    """A TCP reset in the middle of the body."""
    CUT_CHUNK = auto()
    """A chunk that announces 40 bytes, 10 of them, and then the end of the connection."""


@dataclass(frozen=True, slots=True)
class Step:
    """One write: ``at_ms`` after the request arrived."""

    at_ms: float
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One whole answer. ``head_at_ms`` None: at once for a stream, else with the first step."""

    steps: tuple[Step, ...] = ()
    status: int = 200
    content_type: str | None = EVENT_STREAM
    headers: tuple[tuple[str, str], ...] = ()
    framing: Framing = Framing.CHUNKED
    ending: Ending = Ending.CLEAN
    hold_open_s: float = 0.0
    """How long the body's end is held back after the last step."""
    head_at_ms: float | None = None
    idle_close_s: float | None = None
    """A kept connection is closed after so long without a next request."""

    @property
    def body(self) -> bytes:
        """All bytes of the body, without transfer framing."""
        return b"".join(step.data for step in self.steps)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as the server saw it; ``nth`` counts from 0 in each case."""

    case: str
    nth: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    members: Mapping[str, Any] = field(default_factory=dict)
    """The body as a JSON object; empty when it is none."""


Chooser = Callable[[Ask], Script]
Case = Script | tuple[Script, ...] | Chooser
"""One script, one for each request in turn (the last one stays), or a choice by the request."""


def cycle(*scripts: Script) -> Chooser:
    """The scripts in turn, over and over."""
    return lambda ask: scripts[ask.nth % len(scripts)]


def event(payload: object, space: str = " ") -> bytes:
    """One event whose data is the JSON of ``payload``."""
    return b"data:" + space.encode() + compact(payload) + b"\n\n"


def compact(value: object) -> bytes:
    """JSON without spaces, in UTF-8 as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def choice(delta: object, finish_reason: str | None = None, index: int = 0) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish_reason}]}


def content(text: str, index: int = 0) -> dict[str, Any]:
    """The chunk that C(text) sends."""
    return choice({"content": text}, index=index)


def usage(prompt: int, completion: int, **more: object) -> dict[str, Any]:
    """A usage object; ``more`` is added to it."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {**counts, "total_tokens": prompt + completion, **more}


ROLE = choice({"role": "assistant", "content": ""})
R = event(ROLE)
D = b"data: [DONE]\n\n"


def C(text: str, index: int = 0) -> bytes:
    """A content delta."""
    return event(content(text, index))


def T(text: str, key: str = "reasoning_content") -> bytes:
    """A reasoning delta."""
    return event(choice({key: text}))


def F(reason: str = "stop", index: int = 0) -> bytes:
    """An empty delta with a finish_reason."""
    return event(choice({}, reason, index))


def U(prompt: int, completion: int, **more: object) -> bytes:
    """The usage chunk."""
    return event({"choices": [], "usage": usage(prompt, completion, **more)})


def at(at_ms: float, *events: bytes) -> Step:
    """One write of these bytes."""
    return Step(at_ms, b"".join(events))


def stream(*steps: Step | bytes, **fields: Any) -> Script:
    """A streamed answer; bytes without a time go out with the write before them."""
    timed: list[Step] = []
    for step in steps:
        if isinstance(step, Step):
            timed.append(step)
        elif timed:
            timed[-1] = Step(timed[-1].at_ms, timed[-1].data + step)
        else:
            timed.append(Step(0, step))
    return Script(steps=tuple(timed), **fields)


def plain(body: object, status: int = 200, at_ms: float = 0, **fields: Any) -> Script:
    """A whole answer of known length: JSON, or bytes as they are."""
    data = body if isinstance(body, bytes) else compact(body)
    fields = {"content_type": JSON, "framing": Framing.LENGTH, **fields}
    return Script(steps=(Step(at_ms, data),), status=status, **fields)


def completion(text: str, prompt: int, tokens: int, reason: str = "stop") -> dict[str, Any]:
    """A chat completion that is not streamed."""
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    return {"choices": choices, "usage": usage(prompt, tokens)}


def error(message: str, **members: object) -> dict[str, Any]:
    """An error object as most servers send it."""
    return {"error": {"message": message, **members}}
