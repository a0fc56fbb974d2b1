"""Options that were given and that the chosen shape does not look at."""

from collections.abc import Mapping
from typing import Any

from options import DEFAULTS, option_flag

_USED_BY: Mapping[str, tuple[str, ...]] = {
    "stages": ("ladder",),
    "settle": ("constant", "ladder", "knee", "soak", "spike", "open-loop"),
    "hold": ("ladder", "spike", "open-loop", "limits"),
    "search_requests": ("knee", "limits"),
    "down_sweep": ("knee",),
    "arrivals": ("open-loop",),
    "spike_users": ("spike",),
    "spike_hold": ("spike",),
    "think_time": ("constant", "ladder", "knee", "soak", "spike"),
    "num_users": ("constant", "knee", "soak", "spike"),
    "spawn_rate": ("constant", "ladder", "knee", "soak"),
    "run_time": ("constant", "knee", "soak", "limits"),
}
"""The shapes that look at an option; all look at the others."""
_ALWAYS_SENT = ("num_users", "spawn_rate")
"""By the page and by Locust's headless mode: only the start of the process tells a wish."""


def ignored_options(options: Mapping[str, Any], at_start: Mapping[str, Any]) -> list[str]:
    """A sentence for each option that differs from its default and has no effect.

    ``options`` are those of the run, ``at_start`` those that the process was started with.
    """
    shape = str(options.get("shape"))
    return [
        f"{option_flag(name)} has no effect with --shape {shape}: it is for {_any_of(shapes)}"
        for name, shapes in _USED_BY.items()
        if shape not in shapes
        and (at_start if name in _ALWAYS_SENT else options).get(name)
        not in (None, DEFAULTS.get(name))
    ]


def _any_of(shapes: tuple[str, ...]) -> str:
    *first, last = shapes
    return f"{', '.join(first)} and {last}" if first else last
