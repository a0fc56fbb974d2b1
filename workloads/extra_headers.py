"""Extra request headers as an option gives them."""

import re
from dataclasses import dataclass

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@dataclass(frozen=True, slots=True)
class Header:
    """An extra request header. ``from_env`` means that ``value`` names an environment variable."""

    name: str
    value: str
    from_env: bool


def parse_header(text: str) -> Header:
    """``Name: value``, or ``Name: env:VARIABLE`` for a value that must not be an option.

    Raises:
        ValueError: says what is wrong with the name or the value, and never tells the value.
    """
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or _HEADER_NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r}: write 'Name: value' or 'Name: env:VARIABLE'")
    if name.lower() in _OWN_HEADERS:
        raise ValueError(f"{name!r}: the transport sets this one itself")
    if not header_can_hold(value):
        raise ValueError(f"{name!r}: the value holds a character no header may have")
    if value.startswith("env:"):
        return Header(name, value.removeprefix("env:"), from_env=True)
    return Header(name, value, from_env=False)


def header_can_hold(value: str) -> bool:
    """Whether a header may have this value: Latin-1 without line ends or control characters."""
    return not any(ord(c) < 32 or ord(c) == 127 for c in value) and _latin1(value)


def _latin1(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
