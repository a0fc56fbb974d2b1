"""Which streams are read chunk by chunk."""

import pytest

from stream.gap_sample import AUTO_FULL_STREAMS, AUTO_SHARE, GapSample


@pytest.mark.parametrize(
    ("text", "share"), [("0.1", 0.1), ("10%", 0.1), (" 1 ", 1.0), ("0", 0.0), ("100%", 1.0)]
)
def test_a_share_is_kept_whatever_is_open(text: str, share: float) -> None:
    """Written as a number or in percent."""
    sample = GapSample.parse(text)
    assert [share, share] == [sample.share(0), sample.share(5000)]


def test_auto_reads_all_of_few_and_some_of_many() -> None:
    """The tenth stream in ten, once there are many."""
    sample = GapSample.parse("Auto")
    assert 1.0 == sample.share(AUTO_FULL_STREAMS - 1)
    assert AUTO_SHARE == sample.share(AUTO_FULL_STREAMS)


@pytest.mark.parametrize("text", ["", "some", "1.1", "-0.1", "nan", "inf", "120%"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    """The message names both ways."""
    with pytest.raises(ValueError, match=r"auto, or a share such as 0\.1"):
        GapSample.parse(text)
