"""The last seconds of a run as one point."""

from hooks.live.points import Point, merged
from hooks.live.series import LiveSeries


def recent(series: LiveSeries, length_s: float) -> Point | None:
    """The newest points together, so many that they last at least as long; None without any."""
    found: Point | None = None
    for point in reversed(list(series)):
        found = point if found is None else merged(point, found)
        if found.length_s >= length_s:
            break
    return found
