"""Coverage-guided fuzzing of the HTTP response reader: any bytes, cut anywhere.

atheris stays out of the requirements, since no test needs it; install it beside them, in an
environment that holds requirements.txt, and run from the suite's folder:

    pip install atheris==3.0.0
    python -m tests.fuzz.fuzz_http -max_total_time=600 -max_len=2048 CORPUS_DIRECTORY

Two facts are checked: whatever arrives is a response or ``ProtocolError``, and neither the head,
the body, the end nor the refusal depends on how the bytes were cut. Only of a refused response may
more or less of the body have been given before. The first two bytes choose the cuts.
A finding is written as ``crash-...`` into the current folder; give that file as the only argument
to play it again.
"""

import sys

import atheris

with atheris.instrument_imports(include=["users.http_response"]):
    from users.http_response import HttpResponse, ProtocolError


def read(pieces: list[bytes]) -> tuple[dict[str, object], bytes]:
    """What is said of the response, ``refused`` being ``ProtocolError``; and the body."""
    heads: list[tuple[int, dict[str, str]]] = []
    body: list[bytes] = []
    response = HttpResponse(
        lambda status, headers: heads.append((status, dict(headers))), body.append
    )
    refused = False
    try:
        for piece in pieces:
            # What follows a whole answer is never read by the transport.
            if piece and not response.complete:
                response.feed(piece)
        ended = response.end_of_input()
    except ProtocolError:
        refused, ended = True, False
    said = {"heads": heads, "refused": refused, "ended": ended, "status": response.status}
    return said, b"".join(body)


def check(data: bytes) -> None:
    """One input."""
    if len(data) < 2:
        return
    size, first, body = 1 + data[0], data[1], data[2:]
    rest = body[first:]
    cut = [body[:first], *(rest[start : start + size] for start in range(0, len(rest), size))]
    (whole, whole_body), (pieced, pieced_body) = read([body]), read(cut)
    assert whole == pieced, "a cut changed the response"
    if whole["refused"]:
        # zlib gives nothing of the piece in which it finds the damage.
        shorter, longer = sorted((whole_body, pieced_body), key=len)
        assert longer.startswith(shorter), "a cut changed the body"
    else:
        assert whole_body == pieced_body, "a cut changed the body"


if __name__ == "__main__":
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
