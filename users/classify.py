"""Decides, once and in one place, how a request ended.

What the server said goes before what the transport felt: an HTTP error status is the outcome even
when its body was cut. Server text is passed on unmasked; the caller masks it.
"""

import re
from dataclasses import dataclass

from metrics.outcome import Outcome
from stream.reply import Reply, ReplyError
from users.wire import WireFailure

_QUOTA = re.compile(
    r"\b(insufficient_quota|quota[_ ]exceeded|exceeded_quota|budget_?exceeded)\b"
    r"|(?<![a-z])(billing|credits?)(?![a-z])"
)
"""In a code or a type. A quota per minute or per day is a rate limit."""
_CONTEXT_CODES = ("context_length_exceeded", "exceed_context_size_error", "context_window_exceeded")
_CONTEXT_WORDS = (
    "maximum context length",
    "maximum model length",
    "context size",
    "context length",
    "too many tokens",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, the code that names it (a server's own, or ``http_<status>``) and the text."""

    outcome: Outcome
    error_code: str | None = None
    message: str | None = None


def classify(reply: Reply, failure: WireFailure | None) -> Verdict:
    """The outcome of one attempt from its reply and what the transport reports."""
    if failure is not None and failure.outcome is Outcome.CANCELLED:
        return Verdict(Outcome.CANCELLED, None, failure.message)
    if reply.status is not None and not 200 <= reply.status < 300:
        return _http_error(reply.status, reply.error)
    if reply.streamed and reply.error is not None:
        return Verdict(Outcome.STREAM_ERROR, _code(reply.error), reply.error.message)
    if failure is not None:
        return Verdict(failure.outcome, failure.outcome.value, failure.message)
    return _streamed(reply) if reply.streamed else _plain(reply)


def _streamed(reply: Reply) -> Verdict:
    if reply.parse_errors:
        text = f"{reply.parse_errors} events were not JSON"
        return Verdict(Outcome.MALFORMED_STREAM, None, text)
    ended = reply.saw_done or reply.finish_reason is not None
    if not reply.has_output:
        if ended and _tokens(reply):
            # The model may end at once: tokens were generated, none of them shows.
            return Verdict(Outcome.OK)
        return Verdict(Outcome.EMPTY_RESPONSE, None, "a stream without any output")
    if not ended:
        return Verdict(Outcome.TRUNCATED, None, "ended with neither finish_reason nor [DONE]")
    return Verdict(Outcome.OK)


def _plain(reply: Reply) -> Verdict:
    if reply.error is not None:
        return Verdict(Outcome.BAD_RESPONSE, _code(reply.error), reply.error.message)
    if not reply.body_bytes:
        return Verdict(Outcome.EMPTY_RESPONSE, None, "an empty body")
    if not reply.wire_shape_ok:
        return Verdict(Outcome.BAD_RESPONSE, None, "the body is not a chat completion")
    if not reply.has_output and not _tokens(reply):
        return Verdict(Outcome.EMPTY_RESPONSE, None, "an answer without any output")
    return Verdict(Outcome.OK)


def _http_error(status: int, error: ReplyError | None) -> Verdict:
    message = error.message if error is not None else ""
    code = _code(error) or f"http_{status}"
    if 300 <= status < 400:
        text = f"HTTP {status}: redirects are not followed; give the final URL"
        return Verdict(Outcome.CLIENT_ERROR, f"http_{status}", text)
    return Verdict(_http_outcome(status, error), code, f"HTTP {status} {message}".strip())


def _http_outcome(status: int, error: ReplyError | None) -> Outcome:
    words = f"{error.code} {error.type}".lower() if error is not None else ""
    message = error.message.lower() if error is not None else ""
    if status == 402 or (status == 429 and _QUOTA.search(words)):
        return Outcome.QUOTA_EXHAUSTED
    if status in (400, 413, 422) and (
        any(code in words for code in _CONTEXT_CODES)
        or any(text in message for text in _CONTEXT_WORDS)
    ):
        return Outcome.CONTEXT_LENGTH
    return _BY_STATUS.get(status) or (
        Outcome.SERVER_ERROR if status >= 500 else Outcome.CLIENT_ERROR
    )


_BY_STATUS = {
    401: Outcome.AUTH,
    403: Outcome.AUTH,
    404: Outcome.NOT_FOUND,
    429: Outcome.RATE_LIMITED,
    503: Outcome.OVERLOADED,
    529: Outcome.OVERLOADED,
}


def _code(error: ReplyError | None) -> str | None:
    if error is None:
        return None
    # Gateways repeat the status as the code, and say in the type what it is.
    says_more = error.code is None or error.code.isdecimal()
    return (error.type or error.code) if says_more else error.code


def _tokens(reply: Reply) -> int:
    return (reply.usage.completion_tokens or 0) if reply.usage is not None else 0
