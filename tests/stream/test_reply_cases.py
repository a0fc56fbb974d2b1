"""The public bug cases of framing and chunk content; see ``tests/support/case_streams.py``."""

from collections.abc import Iterator

import pytest

from stream.chat_chunk import Usage
from tests.stream.playing import play, play_pieces, untimed
from tests.support.case_notation import Script
from tests.support.case_scripts import CASES, one_script
from tests.support.case_streams import SQUID

EVERY_CUT_BYTES = 1500
"""Above this a body is cut at every 61st position only."""


def single_scripts() -> Iterator[object]:
    """The cases with one script, but for compressed bodies, which a transport unpacks."""
    for name, case in CASES.items():
        if isinstance(case, Script) and not any("Encoding" in key for key, _ in case.headers):
            yield pytest.param(case, id=name)


@pytest.mark.parametrize("script", list(single_scripts()))
def test_no_case_depends_on_how_its_body_was_cut(script: Script) -> None:
    """One byte at a time, and in two pieces cut anywhere, a body gives the same reply."""
    body = script.body
    whole = untimed(play_pieces(script, [body]))
    stride = 1 if len(body) <= EVERY_CUT_BYTES else 61

    assert whole == untimed(play_pieces(script, [body[i : i + 1] for i in range(len(body))]))
    for cut in range(0, len(body), stride):
        assert whole == untimed(play_pieces(script, [body[:cut], body[cut:]])), cut


def test_F01_spaces_after_the_colon_do_not_matter() -> None:
    """No space and three spaces: all text and the usage are read."""
    reply = play("F01")

    assert reply.texts == {0: "kelp soup"}
    assert reply.usage == Usage(9, 2)
    assert reply.first_output_s == 0
    assert reply.saw_done


@pytest.mark.parametrize("name", ["F03", "F03_cuts"])
def test_F03_characters_survive_any_cut(name: str) -> None:
    """Text of several bytes a character is the text that was sent."""
    assert play(name).texts == {0: SQUID}


def test_F05_comments_are_not_the_first_token() -> None:
    """Three comments before the role: TTFT 900 ms, three keep-alives."""
    reply = play("F05")

    assert reply.first_output_s == 0.9
    assert reply.keepalives == 3


def test_F07_keepalives_sent_as_data_are_not_the_first_token() -> None:
    """A comment as data, empty data and an empty string: counted, and TTFT 200 ms."""
    reply = play("F07")

    assert reply.first_output_s == 0.2
    assert (reply.keepalives, reply.parse_errors, reply.chunks) == (3, 0, 1)


def test_F08_events_without_meaning_are_no_fault() -> None:
    """``{}`` and ``null`` in mid-stream leave the reply clean."""
    reply = play("F08_a")

    assert reply.texts == {0: "ab"}
    assert (reply.parse_errors, reply.keepalives) == (0, 2)
    assert reply.usage == Usage(3, 2)


def test_F08_broken_json_is_counted_and_the_rest_is_read() -> None:
    """Half an object in mid-stream: one parse error, and the text after it is there."""
    reply = play("F08_b")

    assert reply.parse_errors == 1
    assert reply.texts == {0: "ab"}
    assert reply.finish_reason == "stop"


def test_F09_an_event_of_several_lines_is_one_chunk() -> None:
    """Three data lines, one chunk with text."""
    reply = play("F09")

    assert reply.texts == {0: "plum"}
    assert reply.parse_errors == 0


def test_F10_mark_other_fields_and_comments_beside_done() -> None:
    """The first event survives a byte-order mark, ``[DONE]`` the comments in its block."""
    reply = play("F10")

    assert reply.texts == {0: "oat"}
    assert reply.saw_done


def test_F14_a_json_body_is_a_plain_answer() -> None:
    """Asked to stream, answered whole: no TTFT, tokens and text are read."""
    reply = play("F14")

    assert not reply.streamed
    assert reply.first_output_s is None
    assert reply.usage == Usage(7, 2)
    assert reply.texts == {0: "mint tea"}
    assert (reply.has_output, reply.wire_shape_ok, reply.finish_reason) == (True, True, "stop")


@pytest.mark.parametrize("name", ["F15_a", "F15_b", "F15_c"])
def test_F15_nothing_in_it_is_no_output(name: str) -> None:
    """An empty body, a bare ``[DONE]``, a role without text: no output and no TTFT."""
    reply = play(name)

    assert reply.streamed
    assert not reply.has_output
    assert reply.first_output_s is None
    assert reply.usage is None


@pytest.mark.parametrize("name", ["P01", "P01_missing"])
def test_P01_usage_without_choices_is_read(name: str) -> None:
    """Empty or missing ``choices`` beside usage."""
    assert play(name).usage == Usage(11, 2)


def test_P03_a_filter_prelude_is_not_the_first_token() -> None:
    """A first chunk with empty choices at 40 ms: TTFT 320 ms."""
    assert play("P03").first_output_s == 0.32


def test_P07_running_totals_are_not_added() -> None:
    """Totals on each of four chunks and at the end: 20/4."""
    assert play("P07").usage == Usage(20, 4)


def test_P08_no_usage_is_none_and_chunks_are_not_tokens() -> None:
    """Five chunks without usage: no token count at all."""
    reply = play("P08_none")

    assert reply.usage is None
    assert reply.chunks == 5


def test_P08_spaces_are_output() -> None:
    """A hundred single spaces are a hundred chunks with output."""
    assert play("P08_spaces").chunks == 100


@pytest.mark.parametrize("name", ["P09_empty", "P09_null", "P09_missing"])
def test_P09_the_role_chunk_is_neither_token_nor_gap(name: str) -> None:
    """Content "", null or missing beside the role: TTFT 250 ms and one gap of 20 ms."""
    assert list(play(name).output_at_s) == [0.25, 0.27]


def test_P10_reasoning_sets_ttft_and_text_the_first_answer() -> None:
    """Reasoning at 80 ms, text at 900 ms: both are kept apart."""
    reply = play("P10")

    assert (reply.first_output_s, reply.first_answer_s) == (0.08, 0.9)
    assert reply.texts == {0: "7"}


def test_P10_a_reply_that_is_all_reasoning_has_no_first_answer() -> None:
    """Key ``reasoning``, no content: output, tokens and TTFT, but no answer time."""
    reply = play("P10_only")

    assert (reply.first_output_s, reply.first_answer_s) == (0.08, None)
    assert reply.has_output
    assert reply.usage == Usage(9, 16)


def test_P11_a_tool_call_is_output_and_counts_once() -> None:
    """Name at 120 ms, arguments in two pieces: TTFT 120 ms, one tool call."""
    reply = play("P11")

    assert list(reply.output_at_s) == [0.12, 0.16, 0.2]
    assert (reply.tool_calls, reply.finish_reason) == (1, "tool_calls")
    assert reply.first_answer_s is None


def test_P12_null_is_absent_at_every_level() -> None:
    """Null choices, delta, content, usage and details: nothing breaks, 2/1 tokens."""
    reply = play("P12")

    assert reply.usage == Usage(2, 1)
    assert reply.texts == {0: "bay"}
    assert (reply.parse_errors, reply.finish_reason) == (0, "stop")


def test_P13_choices_are_kept_apart() -> None:
    """Two interleaved choices: two texts, last token at 300 ms, usage counted once."""
    reply = play("P13")

    assert reply.texts == {0: "ab", 1: "xyz"}
    assert reply.last_output_s == 0.3
    assert reply.usage == Usage(5, 5)
    assert reply.finish_reasons == {0: "stop", 1: "stop"}


def test_P13_one_finished_choice_of_two_is_not_the_end() -> None:
    """After the first choice's finish alone there is no finish_reason of the reply."""
    script = one_script("P13")
    reply = play_pieces(script, [step.data for step in script.steps[:5]])

    assert reply.finish_reason is None
    assert reply.finish_reasons == {0: "stop"}


@pytest.mark.parametrize(
    ("name", "cached_tokens"),
    [
        pytest.param("P15_a", 96, id="nested"),
        pytest.param("P15_b", 96, id="hit-and-miss"),
        pytest.param("P15_c", None, id="details-null"),
        pytest.param("P15_d", None, id="no-field"),
        pytest.param("P15_e", 96, id="both"),
        pytest.param("P15_f", 0, id="nested-zero"),
    ],
)
def test_P15_cached_tokens_are_found_or_unknown(name: str, cached_tokens: int | None) -> None:
    """Every known place is read; absent is None, and 0 is 0."""
    assert play(name).usage == Usage(128, 1, cached_tokens)
