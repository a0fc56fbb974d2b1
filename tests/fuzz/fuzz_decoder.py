"""Coverage-guided fuzzing of the stream reader: no bytes and no cut may change or break a reply.

atheris stays out of the requirements, since no test needs it; install it beside them, in an
environment that holds requirements.txt, and run from the suite's folder:

    pip install atheris==3.0.0
    python -m tests.fuzz.fuzz_decoder -max_total_time=600 -max_len=2048 CORPUS_DIRECTORY

Two facts are checked: whatever arrives is a reply or ``EventTooLarge``, and the reply is the same
however the body was cut. The first four bytes choose the head and the cuts. A finding is written as
``crash-...`` into the current folder; give that file as the only argument to play it again.
"""

import sys
from dataclasses import fields

import atheris

with atheris.instrument_imports(include=["stream"]):
    from stream.reply import ReplyReader
    from stream.sse import EventTooLarge, SseDecoder

HEADS = (
    (200, "text/event-stream"),
    (200, "application/json"),
    (200, None),
    (503, "text/html"),
)
LIMIT_BYTES = 512
"""Small, so that too large an event is within the fuzzer's reach."""

# Comments after [DONE] count or not, as they share a piece with it or not.
_FREE = {"keepalives"}


def pieces_of(body: bytes, size: int, first: int) -> list[bytes]:
    """The body cut once after ``first`` bytes, and then every ``size`` bytes."""
    head, rest = body[:first], body[first:]
    return [head, *(rest[start : start + size] for start in range(0, len(rest), size))]


def reply_to(head: tuple[int, str | None], pieces: list[bytes]) -> dict[str, object]:
    """All that a reply says."""
    reader = ReplyReader(keep_text=True)
    reader.begin(*head, 0.0)
    for piece in pieces:
        reader.feed(piece, 1.0)
    reply = reader.close(2.0)
    return {f.name: getattr(reply, f.name) for f in fields(reply) if f.name not in _FREE}


def payloads_of(pieces: list[bytes]) -> list[bytes] | None:
    """The payloads under a small limit, or None when it was passed."""
    decoder = SseDecoder(LIMIT_BYTES)
    try:
        return [payload for piece in pieces for payload in decoder.feed(piece)]
    except EventTooLarge:
        return None


def check(data: bytes) -> None:
    """One input."""
    if len(data) < 4:
        return
    head, size, first = HEADS[data[0] % len(HEADS)], 1 + data[1], data[2] * (1 + data[3] % 4)
    body = data[4:]
    whole, cut = [body], pieces_of(body, size, first)
    assert repr(reply_to(head, whole)) == repr(reply_to(head, cut)), "a cut changed the reply"
    payloads = payloads_of(whole)
    if payloads is not None:
        assert payloads == payloads_of(cut), "a cut changed the payloads"
        assert all(len(payload) <= LIMIT_BYTES for payload in payloads)


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
