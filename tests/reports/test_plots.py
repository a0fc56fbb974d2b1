"""The plots: units on every axis, one meaning for each colour and mark, nothing beyond the data."""

import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from reports.analyse import analyse
from reports.load import load_run
from reports.plot_style import (
    LINE,
    MARKERS,
    PAPER,
    RC,
    css_variables,
    themed,
)
from reports.plots import PLOTS, draw, missing_plots
from reports.plots.against_load import Point, draw_points, mark_knee
from reports.plots.drawing import draw_plot
from reports.plots.heat_map import _cells, _limits
from reports.stage_state import StageState, states_of
from tests.support.records import failed_record, make_record
from tests.support.report_runs import eventful_run, states_set
from tests.support.run_builder import build_run, numbered


@pytest.fixture(scope="module")
def eventful(tmp_path_factory):
    """A run that has every plot, and its report."""
    run = load_run(eventful_run(tmp_path_factory.mktemp("run") / "r"))
    return analyse(run), run


def axes_of(name, report, run):
    """The axes of a plot."""
    figure = Figure()
    PLOTS[name].draw(figure, report, run)
    return figure.axes


@pytest.mark.parametrize("name", PLOTS)
def test_every_axis_is_named_and_has_its_unit(eventful, name):
    """Below a shared axis the lowest name is enough; shares say 0–1 or are marked with p."""
    axes = axes_of(name, *eventful)

    assert axes[-1].get_xlabel()
    assert "" not in [one.get_ylabel() for one in axes]
    unit = re.compile(r"/s|\(s\)|\(0–1\)|share of requests|^requests$|users$|seconds")
    names = {one.get_ylabel() for one in axes} | {axes[-1].get_xlabel()}
    assert set() == {name for name in names if not unit.search(name)}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_has_no_colour_of_its_own(eventful, tmp_path, name):
    """In the page every colour is a variable of the style, so that all follow the scheme."""
    svg = draw(name, *eventful, tmp_path)

    assert [] == re.findall(r"#[0-9a-fA-F]{6}\b", svg)
    used = set(re.findall(r"var\((--plot-[a-z0-9-]+)\)", svg))
    assert used
    assert used <= set(re.findall(r"(--plot-[a-z0-9-]+):", css_variables()))


def luminance(colour):
    """Relative luminance as the accessibility guidelines define it."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_stands_out_from_its_paper():
    """Contrast of 3 and more, in light and in dark; but for the lines of the grid."""
    light, dark = (
        dict(re.findall(r"--plot-([a-z0-9-]+):(#[0-9a-f]{6})", part))
        for part in css_variables().split("@media")
    )

    assert light.keys() == dark.keys()
    for colours in (light, dark):
        paper = luminance(colours["paper"])
        for name, colour in colours.items():
            low, high = sorted((luminance(colour), paper))
            if name not in ("paper", "line"):
                assert (high + 0.05) / (low + 0.05) >= 3, (name, colour)


def test_only_our_own_colours_become_variables():
    """A colour that is not in the style stays as it is."""
    assert "fill: var(--plot-line); stroke: #123456" == themed(f"fill: {LINE}; stroke: #123456")


def test_states_have_marks_of_their_own(eventful):
    """Usable, limited by 429s, by the client, not reached: four shapes but for void ones."""
    report, run = eventful
    upper = axes_of("concurrency", report, run)[0]

    usable, limited, client, lost = states_of(report).values()
    assert (StageState.USABLE, StageState.RATE_LIMITED) == (usable, limited)
    assert (StageState.CLIENT_LIMITED, StageState.NOT_REACHED) == (client, lost)
    marked = [line for line in upper.lines if line.get_marker() != "None"]
    drawn = {float(line.get_xdata()[0]): line.get_marker() for line in marked}
    assert {1.0: "o", 2.0: "D", 4.0: "v"} == drawn
    named = [text.get_text() for text in upper.get_legend().get_texts()]
    assert {"rate-limited", "client-limited"} <= set(named)
    assert len(set(MARKERS.values())) == 4


def test_a_stage_that_a_search_set_aside_is_void(eventful):
    """Its row says so."""
    report = states_set(eventful[0], s0={"flags": ("set aside by the search: x",)})

    assert StageState.VOID is states_of(report)[0]


def test_unusable_time_is_hatched_and_named(eventful):
    """Over time a limited stretch has a pattern, which the legend names."""
    upper = axes_of("requests", *eventful)[0]

    named = [text.get_text() for text in upper.get_legend().get_texts()]
    assert {"rate-limited", "client-limited"} <= set(named)
    assert 2 == sum(1 for patch in upper.patches if patch.get_hatch())


def test_few_samples_are_hollow_and_intervals_drawn():
    """A marker filled with paper, and a band from low to high."""
    axes = Figure().subplots()
    few, well = Point(1, 5.0, StageState.USABLE, few=True), Point(2, 6.0, StageState.USABLE)

    draw_points(axes, [few, replace(well, low=5.5, high=6.5)], "#0072b2", "p50")

    fills = {line.get_xdata()[0]: line.get_mfc() for line in axes.lines if line.get_marker() == "o"}
    assert {1: PAPER, 2: "#0072b2"} == fills
    assert [5.5, 6.5] in [list(line.get_ydata()) for line in axes.lines]


def test_the_knee_is_marked_with_its_interval(eventful):
    """A line at 16 and a band from 15 to 17; a lower bound has a line alone."""
    report, _ = eventful
    axes, bound = Figure().subplots(2)
    found = replace(report.knee, users=16.0, low=15.0, high=17.0)

    mark_knee(axes, replace(report, knee=found))
    mark_knee(bound, replace(report, knee=replace(found, users=None, at_least=32)))

    (band,) = axes.patches
    assert (15.0, 2.0) == (band.get_x(), band.get_width())
    assert [16.0, 16.0] == list(axes.lines[0].get_xdata())
    assert [32, 32] == list(bound.lines[0].get_xdata())
    assert [] == list(bound.patches)


def test_cells_of_the_heat_map_cover_what_was_chosen():
    """Neighbours in time are one rectangle, so that 3 cells in a row and one apart are two."""
    chosen = np.zeros((5, 2), dtype=bool)
    chosen[0:3, 0] = chosen[4, 1] = True

    path = _cells(chosen, np.arange(6.0), np.arange(3.0))

    corners = path.vertices.reshape(-1, 5, 2)
    assert [(0, 0, 3, 1), (4, 1, 5, 2)] == [
        (*map(int, c.min(axis=0)), *map(int, c.max(axis=0))) for c in corners
    ]


def test_shades_of_the_heat_map_are_whole_counts():
    """One request is one shade; none is empty."""
    assert [1] == _limits(1)
    assert [1, 2] == _limits(2)
    assert [1, 3, 7, 16, 40] == _limits(100)


def test_waiting_is_left_out_and_said_where_no_first_token_tells(tmp_path):
    """Plain answers: the plot has no area, and its sentence says why."""
    plain = {"ttft_s": None, "ttfa_s": None, "user_ttft_s": None, "streamed": False}
    records = [make_record(stream_asked=False, **plain) for _ in range(3)]
    run = load_run(build_run(tmp_path / "r", numbered(records)))
    report = analyse(run)

    upper = axes_of("requests", report, run)[0]

    assert ["in flight"] == [text.get_text() for text in upper.get_legend().get_texts()]
    assert "queue is not known" in PLOTS["requests"].sentence(report, run)


def test_requests_in_flight_are_counted_over_time(tmp_path):
    """Two that overlap: at most 2 in flight; both wait at once for 0.05 s."""
    records = [make_record(started_s=1.0), make_record(started_s=1.05, user=1)]
    run = load_run(build_run(tmp_path / "r", numbered(records)))

    text = PLOTS["requests"].sentence(analyse(run), run)

    assert text.startswith("At most 2 requests were in flight, and at most 2 at once waited")


def test_plots_that_a_run_has_not_are_named_with_the_reason(tmp_path):
    """Nothing cached was told, nothing refused; an open loop has no users to divide by."""
    run = load_run(build_run(tmp_path / "r", numbered([make_record()])))
    rates = states_set(analyse(run), s0={"rate_rps": 2.0})

    reasons = " ".join(missing_plots(rates, run))

    for words in ("were cached", "answered 429", "no users to divide by"):
        assert words in reasons


@pytest.mark.parametrize(
    "records",
    [[], [make_record()], [failed_record()], [make_record(), make_record(started_s=2.0)]],
    ids=["none", "one", "failed", "two"],
)
def test_M05_O02_plots_of_next_to_nothing_are_drawn_without_a_warning(tmp_path, records, recwarn):
    """One marker and no fit: no division by an empty range, no axes without room."""
    run = load_run(build_run(tmp_path / "r", numbered(records)))
    report = analyse(run)

    for name, plot in PLOTS.items():
        if plot.missing(report, run) is None:
            assert "<svg" in draw_plot(name, plot, report, run, tmp_path)
            assert plot.sentence(report, run).endswith(".")

    assert [] == [str(warning.message) for warning in recwarn]


def test_the_style_is_the_one_place_of_colours():
    """What matplotlib is told to draw with is in the palette too."""
    told = {value for value in RC.values() if isinstance(value, str) and value.startswith("#")}

    assert told <= set(re.findall(r"#[0-9a-f]{6}", css_variables()))
    assert to_hex(PAPER) == PAPER
