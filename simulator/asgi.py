"""The few ASGI names and messages the HTTP face needs; there is no framework under it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[str, str], ...]


class ClientGone(Exception):
    """The client hung up before its request was read."""


class BodyTooLarge(Exception):
    """The request body is over the limit."""


def header(scope: Scope, name: str) -> str | None:
    """First value of a request header; `name` in lower case."""
    wanted = name.encode("latin-1")
    values = (value for key, value in scope["headers"] if key.lower() == wanted)
    value = next(values, None)
    return None if value is None else value.decode("latin-1")


async def read_body(receive: Receive, limit_bytes: int) -> bytes:
    """The whole request body.  Raises ClientGone or BodyTooLarge."""
    parts: list[bytes] = []
    size_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        size_bytes += len(parts[-1])
        if size_bytes > limit_bytes:
            raise BodyTooLarge
        if not message.get("more_body", False):
            return b"".join(parts)


async def wait_for_hang_up(receive: Receive) -> None:
    """Return when the client has closed the connection; the body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def response_start(status: int, headers: Headers) -> Message:
    """The message that opens a response."""
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": encoded}


def body_part(body: bytes, more: bool) -> Message:
    """A message with some of the body."""
    return {"type": "http.response.body", "body": body, "more_body": more}


async def respond(
    send: Send, status: int, body: bytes, content_type: str, headers: Headers = ()
) -> None:
    """Send a whole response."""
    own = (("content-type", content_type), ("content-length", str(len(body))))
    await send(response_start(status, own + headers))
    await send(body_part(body, more=False))
