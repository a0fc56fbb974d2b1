"""How much of the prompts came from the server's prefix cache, over time."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reports.counting import succeeded
from reports.load import SavedRun
from reports.model import RunReport
from reports.plot_style import CACHED, LINE, legend
from reports.plots.timeline import AXIS, edges_s, mark_stages, shifts_s, spans_of
from reports.wording import count, share


def title(report: RunReport) -> str:
    """What the plot shows."""
    return "Prefix cache: share of the prompt tokens that came from it"


def missing(report: RunReport, run: SavedRun) -> str | None:
    """Why it is not drawn; None when it is."""
    return None if len(_told(run)) else "no answer told how many of its prompt tokens were cached"


def _told(run: SavedRun) -> pd.DataFrame:
    """The successes whose server told of its cache."""
    wanted = run.records[["outcome", "started_s", "cached_tokens", "prompt_tokens"]]
    return succeeded(wanted).dropna(subset=["cached_tokens", "prompt_tokens"])


def draw(figure: Figure, report: RunReport, run: SavedRun) -> None:
    """The share in each stretch of time, and over all that came until then."""
    axes = figure.subplots()
    axes.set_xlabel(AXIS)
    axes.set_ylabel("cached share of prompt tokens (0–1)")
    told, bounds_s = _told(run), edges_s(run)
    at_s = told["started_s"].to_numpy() + shifts_s(run)[told.index]
    cached, prompt = (
        np.histogram(at_s, bounds_s, weights=told[name].to_numpy(dtype=np.float64))[0]
        for name in ("cached_tokens", "prompt_tokens")
    )
    some = prompt > 0
    middle_s = (bounds_s[:-1] + bounds_s[1:]) / 2
    hatches = mark_stages(axes, spans_of(report, run))
    axes.plot(
        middle_s[some], cached[some] / prompt[some], "o", color=CACHED, ms=4, label="at the time"
    )
    so_far = np.cumsum(cached)[some] / np.cumsum(prompt)[some]
    axes.plot(middle_s[some], so_far, "--", color=CACHED, label="so far")
    axes.axhline(1.0, color=LINE, lw=0.8)
    axes.set_ylim(0, 1.1)
    axes.set_xlim(0, bounds_s[-1])
    legend(axes, handles=[*axes.get_legend_handles_labels()[0], *hatches])


def sentence(report: RunReport, run: SavedRun) -> str:
    """What the plot shows, with figures."""
    cache = report.cache
    text = (
        f"{share(cache.cached_tokens, cache.prompt_tokens)} of the prompt tokens of "
        f"{count(cache.known, 'answer')} came from the server's cache"
    )
    if cache.unknown:
        text += f"; {count(cache.unknown, 'answer')} told nothing of it"
    return f"{text}."
