"""Distributions: the grammar, and what is drawn."""

import math
import random
from statistics import fmean, quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.lengths import parse_distribution

DRAWS = 20_000


def _file(content):
    return parse_distribution("file:lengths.csv", read_file=lambda path: content)


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ("200", 200.0),
        ("0", 0.0),
        ("2.5", 2.5),
        ("  200 ", 200.0),
        ("uniform:50-400", 225.0),
        ("uniform:7-7", 7.0),
        ("normal:200,50", 200.0),
        ("normal:200,0", 200.0),
        ("lognormal:p50=200,p90=900", 398.23),
        ("lognormal:p50=200,p90=200", 200.0),
        ("exponential:20", 20.0),
        ("exponential:0.5", 0.5),
    ],
    ids=[
        "number",
        "zero",
        "fraction",
        "spaces",
        "uniform",
        "uniform point",
        "normal",
        "normal without spread",
        "lognormal",
        "lognormal without spread",
        "exponential",
        "exponential under one",
    ],
)
def test_sampled_means_are_the_stated_mean(text, mean):
    """The mean of many draws is the mean the distribution states."""
    rng = random.Random(5)

    found = parse_distribution(text)

    assert pytest.approx(mean, rel=0.001) == found.mean
    assert pytest.approx(mean, rel=0.04) == fmean(found.sample(rng) for _ in range(DRAWS))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a distribution"),
        ("  ", "is not a distribution"),
        ("many", "is not a distribution"),
        ("-5", "is not a distribution"),
        ("1e3", "is not a distribution"),
        ("nan", "is not a distribution"),
        ("zipf:3", "is not a distribution"),
        ("uniform", "is not a distribution"),
        ("uniform:50", "is not a distribution"),
        ("uniform:-5-50", "is not a distribution"),
        ("uniform:400-50", "first number is above the second"),
        ("normal:200", "is not a distribution"),
        ("normal:200,-50", "is not a distribution"),
        ("lognormal:200,900", "is not a distribution"),
        ("lognormal:p50=900,p90=200", "not above p90"),
        ("lognormal:p50=0,p90=200", "p50 is over 0"),
        ("lognormal:p50=0.001,p90=1000000000", "closer to p50"),
        ("exponential:0", "is not a distribution"),
        ("9" * 400, "too large"),
        ("uniform:1-10000000000", "too large"),
        ("file:lengths.csv", "cannot be read here"),
    ],
    ids=[
        "empty",
        "blank",
        "word",
        "negative",
        "exponent",
        "not a number",
        "unknown kind",
        "kind alone",
        "uniform one number",
        "uniform negative",
        "uniform backwards",
        "normal one number",
        "normal negative spread",
        "lognormal unnamed",
        "lognormal backwards",
        "lognormal zero",
        "lognormal endless tail",
        "exponential zero",
        "infinite",
        "uniform huge",
        "file without reader",
    ],
)
def test_a_wrong_distribution_is_explained(text, says):
    """The message names the part that is wrong."""
    with pytest.raises(ValueError, match=says):
        parse_distribution(text)


def test_a_wrong_distribution_shows_every_form():
    """Someone who guessed the grammar reads it in the message."""
    with pytest.raises(ValueError, match="write ") as caught:
        parse_distribution("zipf:3")

    message = str(caught.value)
    for form in ("200", "uniform:", "normal:", "lognormal:p50=", "exponential:", "file:"):
        assert form in message


def test_lognormal_has_the_percentiles_it_names():
    """Half of the draws are under p50, nine tenths under p90."""
    rng = random.Random(5)
    found = parse_distribution("lognormal:p50=200,p90=900")

    deciles = quantiles((found.sample(rng) for _ in range(DRAWS)), n=10)

    assert pytest.approx(200, rel=0.05) == deciles[4]
    assert pytest.approx(900, rel=0.05) == deciles[8]


def test_uniform_stays_within_its_bounds():
    """No draw is outside, and both ends come up in whole tokens."""
    rng = random.Random(5)
    found = parse_distribution("uniform:3-6")

    drawn = {found.sample_tokens(rng) for _ in range(2_000)}

    assert {3, 4, 5, 6} == drawn


def test_samples_are_cut_at_zero():
    """A wide normal distribution gives no negative pause."""
    rng = random.Random(5)
    found = parse_distribution("normal:1,50")

    assert min(found.sample(rng) for _ in range(2_000)) == 0.0


def test_a_distribution_tells_the_text_it_came_from():
    """The report can print what was asked for."""
    assert parse_distribution(" normal:200,50 ").describe() == "normal:200,50"


def test_equal_seeds_draw_equal_values():
    """All chance comes from the generator that is handed in."""
    found = parse_distribution("lognormal:p50=200,p90=900")
    first, second = random.Random(3), random.Random(3)

    assert [found.sample(first) for _ in range(20)] == [found.sample(second) for _ in range(20)]


@pytest.mark.parametrize(
    "content",
    [
        "10\n20\n60\n",
        "tokens\n10\n20\n60\n",
        "tokens,name\n10,a\n20,b\n60,c\n",
        "10\r\n\r\n20\r\n60",
        "\ufeff10\n20\n60\n",
        '"10"\n"20"\n"60"\n',
    ],
    ids=["plain", "header", "columns", "windows lines", "byte-order mark", "quoted"],
)
def test_a_file_is_drawn_from_its_first_column(content):
    """Exactly the lengths of the file come up, each as often as it stands there."""
    rng = random.Random(5)

    found = _file(content)

    assert found.mean == 30.0
    assert {10.0, 20.0, 60.0} == {found.sample(rng) for _ in range(200)}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no lengths"),
        ("tokens\n", "holds no lengths"),
        ("tokens\n10\nten\n", "lengths.csv line 3: 'ten'"),
        ("10\n-5\n", "lengths.csv line 2: '-5'"),
        ("10\n" + "9" * 400, "too large"),
        ("10\n" + "x" * 200_000, "not CSV"),
    ],
    ids=["empty", "header alone", "word", "negative", "infinite", "endless cell"],
)
def test_a_wrong_file_is_explained(content, says):
    """The message names the file, and the line where there is one."""
    with pytest.raises(ValueError, match=says):
        _file(content)


def test_the_file_named_is_the_file_read():
    """The path is what follows the first colon, colons of its own included."""
    paths = []

    parse_distribution("file:c:/my lengths.csv", read_file=lambda path: paths.append(path) or "1")

    assert paths == ["c:/my lengths.csv"]


numbers = st.one_of(
    st.integers(0, 10**6).map(str),
    st.floats(0, 1e6, allow_nan=False).map(lambda value: f"{value:.3f}"),
    st.integers(1, 400).map(lambda length: "9" * length),
)
texts = st.one_of(
    st.text(max_size=30),
    numbers,
    st.builds("{}:{}".format, st.sampled_from(["uniform", "normal", "file"]), st.text()),
    st.builds("uniform:{}-{}".format, numbers, numbers),
    st.builds("normal:{},{}".format, numbers, numbers),
    st.builds("lognormal:p50={},p90={}".format, numbers, numbers),
    st.builds("exponential:{}".format, numbers),
)


@given(texts, st.text(max_size=40), st.integers(0, 50), st.integers())
def test_any_text_is_refused_or_gives_lengths(text, content, minimum, seed):
    """Nothing but ValueError is raised, and no length is under the minimum."""
    rng = random.Random(seed)
    try:
        found = parse_distribution(text, read_file=lambda path: content)
    except ValueError:
        return

    assert math.isfinite(found.mean)
    assert all(found.sample_tokens(rng, minimum) >= minimum for _ in range(20))
    assert all(found.sample(rng) >= 0 for _ in range(20))
