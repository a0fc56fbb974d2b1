"""The first sentences of a report: what the endpoint carries, and what that feels like."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metrics.knee import KneeEstimate
from metrics.outcome import Outcome
from metrics.slo import SloVerdict
from metrics.stage import NOT_LEVELS
from metrics.tally import Counts
from reports.loads import load_words
from reports.model import StageRow
from reports.wording import count, number, seen, share, time_ms


def headline(
    meta: Mapping[str, Any],
    rows: Sequence[StageRow],
    knee: KneeEstimate,
    totals: Counts,
    slo: Sequence[SloVerdict],
) -> tuple[str, ...]:
    """Failures, the knee, the feeling there, the throughput, the objectives."""
    sentences = [_counts(totals)]
    if (early := _before_its_plan(meta)) is not None:
        sentences.append(early)
    levels = [row for row in rows if row.kind not in NOT_LEVELS]
    searched = meta.get("shape") == "knee"
    if len(levels) > 1 or knee.users is not None or searched:
        sentences.append(_capital(knee.sentence()) + ".")
        if searched and (bound := ended_early(meta)) is not None:
            sentences.append(bound)
        if (way_down := _way_down(meta, knee)) is not None:
            sentences.append(way_down)
    feeling = _feeling(levels, knee)
    if feeling:
        sentences.append(feeling)
    best = max(
        # A search for a limit goes beyond what is let through: the best of it says nothing.
        (
            row
            for row in rows
            if row.output_tokens_per_s is not None and meta.get("shape") != "limits"
        ),
        key=lambda row: row.output_tokens_per_s or 0.0,
        default=None,
    )
    if best is not None and best.output_tokens_per_s:
        sentences.append(
            f"Highest throughput: {number(best.output_tokens_per_s, 0)} output tokens/s "
            f"at {load_words(best)}."
        )
    sentences += _objectives(slo, len(rows))
    if meta.get("insecure"):
        sentences.append("TLS certificates were not verified (--insecure).")
    if meta.get("proxy"):
        sentences.append(f"Requests went through the proxy {meta['proxy']}.")
    return tuple(sentences)


def _objectives(slo: Sequence[SloVerdict], stages: int) -> Iterator[str]:
    for verdict in slo:
        end = "met" if verdict.met else "missed"
        yield f"Objective {verdict.limit.text}: {end}, {seen(verdict)}."
    if slo and stages > 1:
        yield f"Objectives are judged over {stages} held stages together."


def ended_early(meta: Mapping[str, Any]) -> str | None:
    """What ended the search before it knew enough; None if nothing did or nobody noted it."""
    why = meta.get("search_ended")
    if not why:
        return None
    return f"The search ended before it knew enough ({why}): its verdict is of what was measured."


def _before_its_plan(meta: Mapping[str, Any]) -> str | None:
    """Why the run was ended before its plan was through; None if it was not, or is told of already.

    A knee search says it behind its verdict, where the same reason stands as what ended the search.
    """
    why = meta.get("ended_early")
    if not why or (meta.get("shape") == "knee" and why == meta.get("search_ended")):
        return None
    return f"The run ended before its plan was through: {why}."


def _way_down(meta: Mapping[str, Any], knee: KneeEstimate) -> str | None:
    """What the way down showed; None when nobody asked for one."""
    found = knee.side.hysteresis
    if found is not None:
        return _capital(found.sentence) + "."
    if meta.get("shape") == "knee" and (meta.get("settings") or {}).get("down_sweep"):
        return "Hysteresis: not known, for no level was held on both ways that may be used."
    return None


def _counts(totals: Counts) -> str:
    text = (
        f"{count(totals.offered, 'request')}: {totals.ok:,} ok "
        f"({share(totals.ok, totals.offered)}), {totals.failed:,} failed, "
        f"{totals.cancelled:,} cancelled"
    )
    if not_sent := totals.by_outcome[Outcome.NOT_SENT.value]:
        text += f", {not_sent:,} not sent"
    if totals.rate_limited_attempts:
        text += f", {totals.rate_limited_attempts:,} answered 429"
    return text + "."


def level_at_knee(rows: Sequence[StageRow], knee: KneeEstimate) -> StageRow | None:
    """The highest level that is known not to be above the knee; None when none is."""
    limit = knee.users or knee.at_least or float("inf")
    left_out = {e.stage for e in knee.evidence if e.queue_share is None and e.note is not None}
    measured = [row for row in rows if row.completed and row.stage not in left_out] or rows
    below = [row for row in measured if row.completed and row.target_users <= limit * 1.05]
    return max(below, key=lambda row: row.target_users, default=None)


def _feeling(rows: Sequence[StageRow], knee: KneeEstimate) -> str | None:
    """What a person feels at the highest level that is known not to be above the knee."""
    row = level_at_knee(rows, knee)
    if row is None:
        return None
    text = f"At {count(row.target_users, 'user')}"
    if row.ttft.n:
        text += (
            f" the first token takes {time_ms(row.ttft.p50)} (p50), {time_ms(row.ttft.p95)} (p95)"
        )
        if row.tpot.p50:
            text += f", then {number(1 / row.tpot.p50)} tokens/s for each stream"
    else:
        text += (
            f" a whole answer takes {time_ms(row.e2e_latency.p50)} (p50), "
            f"{time_ms(row.e2e_latency.p95)} (p95)"
        )
    return text + "."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
