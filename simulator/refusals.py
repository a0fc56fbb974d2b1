"""How limits look in HTTP: the error for a refusal, and the `x-ratelimit-*` headers."""

from __future__ import annotations

import math

from simulator.errors import ApiError
from simulator.events import Refusal, RefusalReason
from simulator.limiter import Denial, Limits

Headers = tuple[tuple[str, str], ...]

# Neither a full queue nor a full house knows when it will have room: the shortest polite wait.
_FULL_RETRY_AFTER_S = 1


def refusal_error(refusal: Refusal, hints: bool) -> ApiError:
    """The 429 or 503 that tells a client why its request was not taken.

    With ``hints`` its headers tell when to come back; many endpoints leave that open.
    """
    error = _refusal_error(refusal)
    if not hints:
        error.headers = ()
    return error


def _refusal_error(refusal: Refusal) -> ApiError:
    if refusal.denial is not None:
        return _rate_limit_error(refusal.denial)
    retry_after = (("retry-after", str(_FULL_RETRY_AFTER_S)),)
    if refusal.reason is RefusalReason.QUEUE_FULL:
        return ApiError(
            503,
            "The queue is full; try again later",
            "queue_full",
            kind="service_unavailable",
            headers=retry_after,
        )
    return ApiError(
        429,
        "Too many requests in flight",
        "too_many_in_flight",
        kind="requests",
        headers=retry_after,
    )


def _rate_limit_error(denial: Denial) -> ApiError:
    message = f"Rate limit reached: {denial.limit} {denial.what} per minute"
    headers: Headers = ()
    if denial.retry_after_s is None:
        message += f"; this request alone needs {denial.asked}, which never fits"
    else:
        message += f"; try again in {denial.retry_after_s:.3f} s"
        # The standard header counts whole seconds, and a client that comes early is refused again.
        headers = (
            ("retry-after", str(max(1, math.ceil(denial.retry_after_s)))),
            ("retry-after-ms", str(math.ceil(denial.retry_after_s * 1000))),
        )
    return ApiError(429, message, "rate_limit_exceeded", kind=denial.what, headers=headers)


def limit_headers(limits: Limits) -> Headers:
    """`x-ratelimit-*` for each limit that exists."""
    headers: list[tuple[str, str]] = []
    for what, state in (("requests", limits.requests), ("tokens", limits.tokens)):
        if state is not None:
            headers += [
                (f"x-ratelimit-limit-{what}", str(state.limit)),
                (f"x-ratelimit-remaining-{what}", str(state.remaining)),
                (f"x-ratelimit-reset-{what}", go_duration(state.reset_s)),
            ]
    return tuple(headers)


def go_duration(duration_s: float) -> str:
    """A duration as OpenAI writes it: 0s, 120ms, 1.5s, 6m0s."""
    if duration_s <= 0:
        return "0s"
    if duration_s < 1:
        return f"{math.ceil(duration_s * 1000)}ms"
    minutes, seconds = divmod(math.ceil(duration_s * 1000) / 1000, 60)
    text = f"{round(seconds, 3):g}s"
    return f"{int(minutes)}m{text}" if minutes else text
