"""What kind of body an answer has: by its status, its declared type, and then its first bytes."""

from enum import Enum, auto

HEAD_BYTES = 4096
"""How much of a body is looked at; a longer run of spaces is taken for what was declared."""

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"", b"data", b"event", b"id", b"retry")
"""The fields of an event stream, and the empty name with which a comment begins."""


class BodyKind(Enum):
    """How the body is to be read."""

    UNDECIDED = auto()
    """A 2xx body whose first bytes have not been seen."""
    EVENTS = auto()
    PLAIN = auto()
    """A 2xx body that is read when it is whole."""
    ERROR = auto()
    """The body of an answer that is not 2xx."""


def kind_from_head(status: int, media_type: str) -> BodyKind:
    """What the response head settles; ``media_type`` in lower case, without parameters."""
    if not 200 <= status < 300:
        return BodyKind.ERROR
    return BodyKind.PLAIN if media_type.endswith("json") else BodyKind.UNDECIDED


def kind_from_bytes(start: bytes, declared_events: bool) -> BodyKind:
    """What the first ``HEAD_BYTES`` of a body settle; undecided while there are too few.

    A body declared an event stream is one unless it is a JSON object, which no field name can
    begin. Any other body is one only if it begins with a comment or a field of event streams.
    """
    head = start.removeprefix(_BOM).lstrip()
    if not head and len(start) >= HEAD_BYTES:
        return BodyKind.EVENTS if declared_events else BodyKind.PLAIN
    if not head or _BOM.startswith(head):
        return BodyKind.UNDECIDED
    if declared_events:
        return BodyKind.PLAIN if head.startswith(b"{") else BodyKind.EVENTS
    name, colon, _ = head.partition(b":")
    if not colon and any(field.startswith(head) for field in _FIELDS):
        return BodyKind.UNDECIDED
    return BodyKind.EVENTS if colon and name in _FIELDS else BodyKind.PLAIN
