"""Bodies that real servers sent: what we count is what they counted themselves."""

from pathlib import Path

import pytest

from stream.chat_chunk import Usage
from stream.reply import Reply, ReplyReader
from tests.stream.playing import read_body, untimed

STREAMS = Path(__file__).resolve().parent.parent / "fixtures" / "streams"
NAMES = sorted(path.stem for path in STREAMS.glob("*.sse"))


def capture(name: str) -> bytes:
    return (STREAMS / f"{name}.sse").read_bytes()


def reply_to(name: str) -> Reply:
    return read_body(capture(name))


@pytest.mark.parametrize(
    ("name", "usage", "chunks", "finish_reason", "saw_done"),
    [
        ("vllm_continuous_usage", Usage(21, 8, 0, 0), 3, "length", True),
        ("vllm_reasoning_3_tokens_a_chunk", Usage(21, 30, 0, 0), 11, "length", True),
        ("llamacpp_usage", Usage(19, 8, 0), 8, "length", True),
        ("llamacpp_stop", Usage(19, 28, 18), 27, "stop", True),
        ("llamacpp_no_usage", None, 8, "length", True),
        ("litellm_mock", Usage(13, 10, None, 0), 15, "stop", True),
        ("litellm_over_llamacpp", Usage(19, 8, 18, 0), 8, "length", True),
        ("litellm_fallback", Usage(19, 8, 0, 0), 8, "length", True),
        ("transformers_serve_no_done", Usage(19, 8), 8, "length", False),
        ("litellm_upstream_killed", None, 5, None, False),
        ("vllm_queue_full_in_stream_503", None, 0, None, True),
    ],
)
def test_counts_are_those_of_the_server(
    name: str, usage: Usage | None, chunks: int, finish_reason: str | None, saw_done: bool
) -> None:
    """Tokens from the server's usage, chunks with output, and how the stream ended."""
    reply = reply_to(name)

    assert reply.usage == usage
    assert (reply.chunks, reply.finish_reason, reply.saw_done) == (chunks, finish_reason, saw_done)
    assert (reply.parse_errors, reply.pending_tail) == (0, False)


@pytest.mark.parametrize("name", NAMES)
def test_captures_read_the_same_byte_by_byte(name: str) -> None:
    """One byte at a time, or cut in two anywhere, a real body gives the same reply."""
    body = capture(name)
    whole = untimed(read_body(body))
    reader = ReplyReader(keep_text=True)
    reader.begin(200, "text/event-stream", 0.1)
    for value in body:
        reader.feed(bytes((value,)), 0.2)

    assert whole == untimed(reader.close(0.3))


@pytest.mark.parametrize("name", ["litellm_upstream_killed", "vllm_queue_full_in_stream_503"])
def test_errors_inside_a_200_are_seen(name: str) -> None:
    """A killed upstream and a full queue, both under status 200."""
    error = reply_to(name).error

    assert error is not None
    assert error.code in ("500", "503")


def test_F05_keepalives_of_a_waiting_server_are_no_output() -> None:
    """Comments come before the role; the capture's cut end is a pending tail."""
    reply = reply_to("vllm_keepalive_comments_head")

    assert reply.keepalives == capture("vllm_keepalive_comments_head").count(b": keep-alive\n")
    assert (reply.chunks, reply.pending_tail) == (3, True)


def test_P10_reasoning_comes_before_the_answer() -> None:
    """Six chunks of ``reasoning``, then five of text."""
    reader = ReplyReader()
    reader.begin(200, "text/event-stream", 0.1)
    for at_s, event in enumerate(capture("vllm_reasoning_3_tokens_a_chunk").split(b"\n\n")):
        reader.feed(event + b"\n\n", float(at_s))
    reply = reader.close(99.0)

    assert (reply.first_output_s, reply.first_answer_s) == (1.0, 7.0)


def test_the_fallback_shows_in_the_model() -> None:
    """The backup that answered is named."""
    assert reply_to("litellm_fallback").model == "backup"
