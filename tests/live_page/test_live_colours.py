"""A colour means the same in the live page as in the report's plots, in light and in dark."""

import re
from pathlib import Path

from hooks.live.routes import STATIC
from reports import plot_style

SHARED = ("ok", "limited", "failed", "throughput", "first-token", "between-tokens", "in-flight")


def _colours(selector):
    text = (Path(STATIC) / "live.css").read_text(encoding="utf-8")
    block = text.partition(f"{selector} {{")[2].partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def test_colours_are_those_of_the_plots():
    """By their names, in both schemes."""
    wanted = {name: (light, dark) for light, (name, dark) in plot_style._NAMES.items()}
    light, dark = _colours(":root"), _colours(':root[data-theme="dark"]')

    assert {name: wanted[name] for name in SHARED} == {
        name: (light[name], dark[name]) for name in SHARED
    }


def test_every_line_has_a_colour_of_the_page():
    """Each style that a plot names is in the style sheet."""
    script = (Path(STATIC) / "live.js").read_text(encoding="utf-8")
    sheet = (Path(STATIC) / "live.css").read_text(encoding="utf-8")
    styles = set(re.findall(r'style: "([\w-]+)"', script))

    assert styles
    assert [] == [style for style in styles if f".{style} {{ stroke: var(--" not in sheet]
