"""The public bug cases of failures and of measured times that the body alone decides."""

import pytest

from stream.chat_chunk import Usage
from stream.reply import ReplyError
from tests.stream.playing import play


def test_E01_an_error_after_tokens_is_kept() -> None:
    """Code and type of the error event, beside the partial output."""
    reply = play("E01_error")

    assert reply.error == ReplyError("500", "InternalServerError", "engine stopped")
    assert reply.texts == {0: "ab"}


def test_E02_an_error_as_the_first_event_leaves_no_output() -> None:
    """No tokens, the message kept."""
    reply = play("E02")

    assert reply.error == ReplyError("503", None, "queue full")
    assert not reply.has_output
    assert reply.usage is None


@pytest.mark.parametrize(
    ("name", "finish_reason", "saw_done"),
    [
        pytest.param("E06_1", "stop", True, id="both"),
        pytest.param("E06_2", "stop", False, id="finish-only"),
        pytest.param("E06_3", None, True, id="done-only"),
        pytest.param("E06_4", None, False, id="neither"),
    ],
)
def test_E06_both_ends_of_a_stream_are_told_apart(
    name: str, finish_reason: str | None, saw_done: bool
) -> None:
    """The four ways to end: which of finish_reason and ``[DONE]`` was seen."""
    reply = play(name)

    assert (reply.finish_reason, reply.saw_done) == (finish_reason, saw_done)


def test_E07_an_error_page_becomes_its_title() -> None:
    """A page of 9 kB is one short line."""
    assert play("E07").error == ReplyError(None, None, "524: A timeout occurred")


@pytest.mark.parametrize("name", [f"E08_{n}" for n in range(1, 7)])
def test_E08_a_body_that_is_no_answer_is_not_taken_for_one(name: str) -> None:
    """An error, null or empty choices, a list, a string, no JSON: no completion, no exception."""
    reply = play(name)

    assert not reply.wire_shape_ok
    assert not reply.has_output


def test_M01_chunks_and_tokens_are_two_counts() -> None:
    """Three chunks of four tokens: three arrival times, twelve tokens."""
    reply = play("M01")

    assert list(reply.output_at_s) == [0.1, 0.2, 0.3]
    assert reply.usage == Usage(9, 12)


def test_M03_one_token_is_a_whole_reply() -> None:
    """One chunk: TTFT, end and tokens are there."""
    reply = play("M03")

    assert (reply.first_output_s, reply.last_output_s, reply.chunks) == (0.04, 0.04, 1)
    assert reply.finish_reason == "length"


def test_M17_headers_role_and_first_token_are_three_times() -> None:
    """Headers at 5 ms, role at 6, text at 500, last token at 900."""
    reply = play("M17")

    assert (reply.headers_s, reply.first_output_s, reply.last_output_s) == (0.005, 0.5, 0.9)


def test_M19_a_stall_stays_in_the_arrival_times() -> None:
    """A pause of 2 s among 20 ms gaps is seen between chunks 25 and 26."""
    times = play("M19_stall").output_at_s

    assert times[25] - times[24] == pytest.approx(2.02)
    assert times[24] - times[23] == pytest.approx(0.02)
