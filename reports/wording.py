"""Numbers as people read them: short, with their unit, and never rounder than they are."""

import re

from metrics.slo import RATES, RATIOS, SloVerdict

MISSING = "n/a"
_UTC_ENDS = ("+00:00", "Z")
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&@])")
_BREAKS = re.compile(r"\s+")


def moment(text: str | None) -> str:
    """A moment of ``run.json`` as people write it: ``2026-11-30 16:18:18 UTC``."""
    if not text:
        return "–"
    if not text.endswith(_UTC_ENDS) or text[10:11] != "T":
        return text
    return f"{text[:10]} {text[11:19]} UTC"


def number(value: float | None, digits: int = 1) -> str:
    """A plain number; ``n/a`` when there is none."""
    return MISSING if value is None else f"{value:,.{digits}f}"


def time_ms(value_s: float | None) -> str:
    """Seconds as milliseconds, or as seconds from 10 s on."""
    if value_s is None:
        return MISSING
    if value_s >= 10:
        return f"{value_s:,.1f} s"
    return f"{value_s * 1000:,.0f} ms" if value_s >= 0.01 else f"{value_s * 1000:,.2f} ms"


def share(part: int, whole: int) -> str:
    """A share in percent, never 0 or 100 unless it is exactly that."""
    if not whole:
        return MISSING
    if part in (0, whole):
        return "100 %" if part else "0 %"
    percent = 100 * part / whole
    if percent > 99.9:
        return "> 99.99 %" if percent > 99.99 else "> 99.9 %"
    return "< 0.1 %" if percent < 0.1 else f"{percent:.1f} %"


def seen(verdict: SloVerdict) -> str:
    """What was measured for an objective, in the unit of its metric."""
    value, metric = verdict.value, verdict.limit.metric
    if value is None:
        return "nothing was measured"
    if metric in RATIOS.values():
        return f"it was {100 * value:.6g} %"
    return f"it was {number(value)} /s" if metric in RATES.values() else f"it was {time_ms(value)}"


def count(value: int, noun: str) -> str:
    """``1 request``, ``2 requests``."""
    return f"{value:,} {noun}" + ("" if value == 1 else "s")


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, in one line and in a table's cell."""
    return _MARKUP.sub(r"\\\1", _BREAKS.sub(" ", text)).strip()
