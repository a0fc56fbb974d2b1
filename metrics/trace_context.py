"""``traceparent`` of each attempt, after W3C's Trace Context (Level 1, version 00).

Trace and parent ids are digests of the request's own name, which is unique over all runs. So they
are spread as evenly as random ones, and no record needs to hold them: :func:`trace_id` gives the id
of any record again.
"""

from hashlib import blake2b

SAMPLINGS = ("sampled", "unsampled", "off")
"""What the header says of sampling; ``off``: no header."""
_TRACE_BYTES, _PARENT_BYTES = 16, 8


def trace_id(request_id: str) -> str:
    """The trace of a logical request, 32 hexadecimal digits; all its attempts share it."""
    return _digest(request_id, _TRACE_BYTES)


def parent_id(request_id: str, attempt: int) -> str:
    """One attempt within its trace, 16 hexadecimal digits; attempts count from 0."""
    return _digest(f"{request_id} attempt {attempt}", _PARENT_BYTES)


def traceparent(request_id: str, attempt: int, sampling: str) -> str | None:
    """The header's value; None when ``sampling``, one of ``SAMPLINGS``, is ``off``."""
    if sampling == "off":
        return None
    flags = "01" if sampling == "sampled" else "00"
    return f"00-{trace_id(request_id)}-{parent_id(request_id, attempt)}-{flags}"


def _digest(text: str, size_bytes: int) -> str:
    return blake2b(text.encode(), digest_size=size_bytes).hexdigest()
