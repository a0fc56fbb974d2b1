"""The kinds of user and their shares of a run."""

import re
from dataclasses import dataclass
from enum import StrEnum


class TrafficKind(StrEnum):
    """How a user asks."""

    STREAM = "stream"
    BLOCK = "block"
    SDK = "sdk"


_KINDS = tuple(kind.value for kind in TrafficKind)


@dataclass(frozen=True, slots=True)
class TrafficShare:
    """A kind of user and its weight among all users."""

    kind: TrafficKind
    weight: int


def parse_traffic(text: str) -> tuple[TrafficShare, ...]:
    """Read ``stream:8,block:2``; a kind without a weight has weight 1.

    Raises:
        ValueError: an unknown kind, a repeated one, a weight that is not a whole number over 0.
    """
    shares: dict[TrafficKind, TrafficShare] = {}
    for part in text.split(","):
        name, colon, weight = (piece.strip() for piece in part.partition(":"))
        if name not in _KINDS:
            kinds = ", ".join(_KINDS)
            raise ValueError(f"{part.strip()!r}: write KIND:WEIGHT with a kind of {kinds}")
        if colon and not re.fullmatch(r"[1-9]\d{0,5}", weight):
            raise ValueError(f"{part.strip()!r}: the weight is a whole number from 1")
        kind = TrafficKind(name)
        if kind in shares:
            raise ValueError(f"{name} is given twice; write each kind once")
        shares[kind] = TrafficShare(kind, int(weight) if colon else 1)
    return tuple(shares.values())
