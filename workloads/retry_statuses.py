"""After which HTTP statuses a request may be sent again."""

import re

RETRY_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
"""What may pass by itself. 409 is not among them: a chat request conflicts with nothing."""

_HOPELESS_STATUSES = frozenset({400, 401, 402, 403, 404, 413, 422})
"""The same request gets the same answer, however long one waits."""


def parse_retry_on(text: str) -> frozenset[int]:
    """Read the statuses to retry, such as ``408,429,503``.

    Raises:
        ValueError: a part is no status from 400 to 599, or one that a retry cannot help.
    """
    statuses: set[int] = set()
    for part in (part.strip() for part in text.split(",")):
        if not re.fullmatch(r"[45][0-9]{2}", part):
            raise ValueError(f"{part!r} is no status from 400 to 599; write for example 429,503")
        status = int(part)
        if status in _HOPELESS_STATUSES:
            raise ValueError(
                f"{status} is never retried, because the same request gets the same answer; "
                "leave it out"
            )
        statuses.add(status)
    return frozenset(statuses)
