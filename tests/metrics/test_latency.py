"""Arithmetic on the arrival times of a stream's chunks."""

import pytest

from metrics.latency import arrived_in_one_lump, chunk_gaps_s, max_gap_s
from tests.support.records import make_record


def test_M01_tpot_comes_from_tokens_and_gaps_from_chunks():
    """Three chunks of four tokens at 100, 200, 300 ms: TPOT 18.2 ms, chunk gap 100 ms."""
    record = make_record(ttft_s=0.1, last_token_s=0.3, completion_tokens=12, chunks=3)

    assert pytest.approx(record.tpot_s, abs=1e-4) == 0.0182
    assert pytest.approx(list(chunk_gaps_s([0.1, 0.2, 0.3]))) == [0.1, 0.1]


@pytest.mark.parametrize("tokens", [None, 0, 1], ids=["unknown", "none", "one"])
def test_M03_below_two_tokens_there_is_no_tpot(tokens):
    """None, never 0 and never a division."""
    assert make_record(completion_tokens=tokens).tpot_s is None


def test_M05_chunks_of_one_stamp_divide_by_nothing():
    """All chunks at the same instant: no gap, a TPOT of 0 that is a number, no exception."""
    assert max_gap_s([0.2, 0.2, 0.2]) == 0.0
    assert make_record(ttft_s=0.2, last_token_s=0.2).tpot_s == 0.0


def test_no_or_one_chunk_has_no_gap():
    """Below two chunks nothing lies between them."""
    assert max_gap_s([]) is None
    assert max_gap_s([0.1]) is None


@pytest.mark.parametrize(
    ("stamps", "gaps"),
    [
        ([1.0, 1.5, 1.5, 2.0, 2.25], [0.5, 0.25]),
        ([1.0, 1.0, 1.5], [0.5]),
        ([1.0, 1.5, 1.5], []),
        ([1.0, 1.0], []),
    ],
    ids=["amid", "at first", "at last", "only"],
)
def test_gaps_into_and_within_a_merged_read_are_unknown(stamps, gaps):
    """Chunks of one read bear the last one's time: the gaps before them are left out."""
    assert gaps == list(chunk_gaps_s(stamps))


def test_M19_one_freeze_is_the_longest_gap():
    """A 2 s pause among 20 ms gaps is seen as 2 s."""
    stamps = [0.02 * n for n in range(25)] + [2.5 + 0.02 * n for n in range(25)]

    assert max_gap_s(stamps) > 2.0


@pytest.mark.parametrize(
    ("stamps", "tokens", "lump"),
    [
        ([1.6, 1.6001, 1.6002], 48, True),
        ([0.1, 0.12, 0.14], 48, False),
        ([1.6], 48, True),
        ([1.6], 4, False),
        ([], 48, False),
        ([0.5, 0.52], None, False),
    ],
    ids=["held back", "streamed", "one chunk of all", "short answer", "nothing", "unknown tokens"],
)
def test_a_held_back_stream_is_recognised(stamps, tokens, lump):
    """Many tokens in one lump at the end are not a stream, and give no TPOT."""
    assert lump is arrived_in_one_lump(stamps, tokens)
    assert make_record(buffered=True).tpot_s is None
