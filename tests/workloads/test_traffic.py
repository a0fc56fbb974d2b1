"""Traffic: kinds of user and their weights."""

import pytest

from workloads.traffic import TrafficKind, TrafficShare, parse_traffic


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("stream", {"stream": 1}),
        ("stream:8,block:2,sdk:1", {"stream": 8, "block": 2, "sdk": 1}),
        ("block, stream:3", {"block": 1, "stream": 3}),
        (" sdk : 4 ", {"sdk": 4}),
        ("stream:999999", {"stream": 999_999}),
    ],
    ids=["one", "three", "no weight", "spaces", "largest"],
)
def test_kinds_are_read_with_their_weights(text, weights):
    """A kind without a weight has weight 1; the order is kept."""
    expected = tuple(TrafficShare(TrafficKind(kind), n) for kind, n in weights.items())

    assert expected == parse_traffic(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "stream, block, sdk"),
        ("chat", "'chat': write KIND:WEIGHT"),
        ("STREAM", "kind of stream, block, sdk"),
        ("stream,", "'': write KIND:WEIGHT"),
        ("stream:0", "whole number from 1"),
        ("stream:-1", "whole number from 1"),
        ("stream:1.5", "whole number from 1"),
        ("stream:", "whole number from 1"),
        ("stream:1000000", "whole number from 1"),
        ("stream:1:2", "whole number from 1"),
        ("stream:1,stream:2", "stream is given twice"),
    ],
    ids=[
        "empty",
        "unknown",
        "capitals",
        "comma at the end",
        "zero",
        "negative",
        "fraction",
        "no number",
        "too large",
        "two weights",
        "twice",
    ],
)
def test_wrong_traffic_is_explained(text, says):
    """The message names the part and what may stand there."""
    with pytest.raises(ValueError, match=says):
        parse_traffic(text)
