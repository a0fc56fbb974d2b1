"""Requests over time: how many were under way, how many of these waited, and how they ended."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from metrics.limits_attempts import Floats
from metrics.outcome import Outcome
from reports.load import SavedRun
from reports.model import RunReport
from reports.plot_style import (
    FAILED,
    FIRST_TOKEN,
    HEADROOM,
    IN_FLIGHT,
    LIMITED,
    OK,
    from_zero,
    legend,
    nothing,
)
from reports.plots.timeline import AXIS, edges_s, mark_stages, shifts_s, spans_of
from reports.wording import count, share

SAMPLES = 600
_NO_QUEUE = (
    "The server's queue is not known, because no answer was streamed: only a first token shows "
    "when waiting ends."
)


def title(report: RunReport) -> str:
    """What the plot shows."""
    return "Requests in flight, waiting, refused and failed over time"


def draw(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """What is under way above, what ended each second below."""
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    upper.set_ylabel("requests")
    lower.set_ylabel("ended (requests/s)")
    lower.set_xlabel(AXIS)
    if not len(run.records):
        nothing(upper)
        nothing(lower)
        return
    bounds_s, spans = edges_s(run), spans_of(report, run)
    hatches = mark_stages(upper, spans)
    at_s, under_way, waiting = _levels(run, bounds_s[-1])
    if waiting is not None:
        upper.fill_between(
            at_s,
            waiting,
            step="post",
            color=FIRST_TOKEN,
            alpha=0.55,
            lw=0,
            label="waiting for a first token",
        )
    upper.step(at_s, under_way, where="post", color=IN_FLIGHT, lw=1.4, label="in flight")
    from_zero(upper)
    upper.yaxis.set_major_locator(MaxNLocator(integer=True))
    legend(upper, handles=[*upper.get_legend_handles_labels()[0], *hatches])
    mark_stages(lower, spans, named=False)
    width_s, bottom = bounds_s[1] - bounds_s[0], np.zeros(len(bounds_s) - 1)
    ended_s = run.records["ended_s"].to_numpy() + shifts_s(run)
    for label, chosen, colour, hatch in _endings(run):
        heights = np.histogram(ended_s[chosen], bounds_s)[0] / width_s
        lower.bar(
            *(bounds_s[:-1], heights, width_s, bottom),
            align="edge",
            color=colour,
            lw=0,
            label=label,
            hatch=hatch,
        )
        bottom = bottom + heights
    lower.set_ylim(0, float(bottom.max()) * HEADROOM or 1)
    lower.set_xlim(0, bounds_s[-1])
    legend(lower)


def _levels(run: SavedRun, last_s: float) -> tuple[Floats, Floats, Floats | None]:
    """Times, and the requests in flight and waiting for a first token at each of them."""
    records, shift_s = run.records, shifts_s(run)
    sent_s = records["sent_s"].to_numpy() + shift_s
    ended_s = records["ended_s"].to_numpy() + shift_s
    at_s = np.linspace(0.0, last_s, SAMPLES)
    streamed = records["ttft_s"].notna().to_numpy()
    under_way = _present(at_s, sent_s, ended_s)
    if not streamed.any():
        return at_s, under_way, None
    first_s = sent_s + records["ttft_s"].to_numpy()
    # Whoever failed without a first token waited for one to the end.
    until_s = np.where(streamed, first_s, ended_s)
    asked = records["stream_asked"].to_numpy(dtype=bool)
    return at_s, under_way, _present(at_s, sent_s[asked], until_s[asked])


def _present(at_s: Floats, begin_s: Floats, end_s: Floats) -> Floats:
    known = np.isfinite(begin_s) & np.isfinite(end_s)
    begun = np.searchsorted(np.sort(begin_s[known]), at_s, "right")
    over = np.searchsorted(np.sort(end_s[known]), at_s, "right")
    return (begun - over).astype(np.float64)


def _endings(run: SavedRun) -> tuple[tuple[str, Floats, str, str | None], ...]:
    records = run.records
    ok = (records["outcome"] == Outcome.OK.value).to_numpy()
    limited = (records["status"] == 429).fillna(False).to_numpy(dtype=bool)
    aside = records["outcome"].isin([Outcome.CANCELLED.value, Outcome.NOT_SENT.value]).to_numpy()
    return (
        ("ok", ok, OK, None),
        ("429", limited & ~ok, LIMITED, "///"),
        ("failed otherwise", ~ok & ~limited & ~aside, FAILED, "xxx"),
    )


def sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot shows, with figures."""
    if not len(run.records):
        return "No request was made."
    _, under_way, waiting = _levels(run, edges_s(run)[-1])
    totals = report.totals
    text = f"At most {under_way.max():,.0f} requests were in flight"
    if waiting is not None:
        text += f", and at most {waiting.max():,.0f} at once waited for a first token"
    text += (
        f"; {count(totals.rate_limited_attempts, 'attempt')} answered 429, "
        f"{count(totals.failed, 'request')} failed ({share(totals.failed, totals.offered)})."
    )
    if waiting is None:
        return f"{text} {_NO_QUEUE}"
    return (
        f"{text} Who waits for a first token queues at the server or has its prompt read: where "
        "that area grows with the load, requests queue."
    )
