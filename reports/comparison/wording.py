"""A comparison in words: what is worse, what is better, and what could not have been seen."""

from collections.abc import Sequence

from metrics.compare import Interval, Scale, Verdict
from metrics.prices import money
from reports.comparison.model import ALL_LOADS, KNEE, WHOLE_RUN, Metric, Mismatch, Pair, Row
from reports.wording import MISSING, number, time_ms

_CHANGED = {
    "requests/s": ("completes fewer requests", "completes more requests"),
    "tokens/s": ("makes fewer tokens", "makes more tokens"),
    "failures": ("fails more often", "fails less often"),
    "429s": ("is refused more often", "is refused less often"),
    "cost": ("is dearer", "is cheaper"),
    "GPU cost": ("is dearer", "is cheaper"),
    "knee": ("carries fewer users", "carries more users"),
}
_PLAIN = ("is slower", "is faster")
_DECIDED = (Verdict.WORSE, Verdict.BETTER, Verdict.DIFFERENT)


def change_text(change: float, scale: Scale) -> str:
    """A change with its sign: percent, or points of a share."""
    value = 100 * change
    digits = 0 if abs(value) >= 9.95 else 1 if abs(value) >= 0.095 else 2
    text = f"{value:+,.{digits}f}" if round(value, digits) else "0"
    return f"{text.replace('-', '−')} {'points' if scale is Scale.POINTS else '%'}"


def size_text(size: float, scale: Scale) -> str:
    """A change without its sign."""
    return change_text(abs(size), scale).lstrip("+")


def interval_text(interval: Interval, scale: Scale) -> str:
    """``+12 % (95 % interval +8.0 to +17 %)``."""
    low, high = change_text(interval.low, scale), change_text(interval.high, scale)
    unit = low.rpartition(" ")[2]
    low = low.removesuffix(f" {unit}")
    return f"{change_text(interval.change, scale)} (95 % interval {low} to {high})"


def value_text(value: float | None, metric: Metric) -> str:
    """One run's figure with its unit."""
    if value is None:
        return MISSING
    if metric.unit == "s":
        return time_ms(value)
    if metric.unit == "share":
        return f"{100 * value:.2f} %"
    if metric.unit == "money":
        return money(value)
    return number(value, 1 if metric.unit == "users" or value < 100 else 0)


def row_text(row: Row) -> str:
    """The verdict on one row."""
    scale = row.metric.scale
    if row.interval is None:
        return f"not judged: {row.why}"
    if row.verdict is Verdict.NOT_SHOWN:
        text = f"no difference shown: smaller than ±{size_text(row.interval.resolution, scale)}"
        text += " could not have been seen"
        return f"{text}; worse beyond the margin is not ruled out" if row.at_risk else text
    if row.verdict is Verdict.SAME:
        return "the same within the margin"
    return row.verdict.value


def sentences_of(pair: Pair, margin: float, forced: bool) -> tuple[str, ...]:
    """The answer first, then the rest of what was judged; or why there is no answer."""
    name = pair.b.label
    if pair.refusals and not forced:
        why = "; ".join(refusal_text(m, pair) for m in pair.refusals)
        return (f"{pair.a.label} and {name} are not compared: {why}.",)
    sentences = []
    if pair.refusals:
        fields = ", ".join(m.field for m in pair.refusals)
        sentences.append(
            f"FORCED: {pair.a.label} and {name} differ in what must be equal ({fields}), so no "
            "difference below may be laid to the endpoint."
        )
    judged = [row for row in pair.rows if row.interval is not None]
    if not judged:
        return (*sentences, f"Nothing could be judged: {_why_nothing(pair)}.")
    return (
        *sentences,
        *_mixed(pair, judged),
        *_decided(pair, judged),
        *_same(judged, margin),
        *_not_shown(pair, judged, margin),
        *_knees(pair),
    )


def refusal_text(mismatch: Mismatch, pair: Pair) -> str:
    """The field, both values and what to do."""
    field, a, b, advice = mismatch.field, mismatch.a, mismatch.b, mismatch.advice
    if a == b:
        return f"{field} is {a} in both: {advice}"
    return f"{field} is {a} in {pair.a.label} and {b} in {pair.b.label}: {advice}"


def _why_nothing(pair: Pair) -> str:
    reasons = [*dict.fromkeys(row.why for row in pair.rows if row.why), *pair.left_out]
    return reasons[0] if reasons else "the runs have no figure in common"


def _families(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.metric.family, []).append(row)
    return found


def _mixed(pair: Pair, rows: Sequence[Row]) -> list[str]:
    """The answer in a line where some figures are worse and others better."""
    names = {
        verdict: [
            family
            for family, own in _families(rows).items()
            if any(row.verdict is verdict for row in own)
        ]
        for verdict in (Verdict.WORSE, Verdict.BETTER)
    }
    worse, better = (", ".join(names[verdict]) for verdict in (Verdict.WORSE, Verdict.BETTER))
    if not worse or not better:
        return []
    return [f"Mixed: {pair.b.label} is worse in {worse} and better in {better}."]


def _decided(pair: Pair, rows: Sequence[Row]) -> list[str]:
    """A sentence for each kind of figure that is shown to differ, worse ones first."""
    found: dict[Verdict, list[str]] = {verdict: [] for verdict in _DECIDED}
    for family, own in _families(rows).items():
        for verdict in _DECIDED:
            shown = [row for row in own if row.verdict is verdict]
            if shown:
                found[verdict].append(_sentence(pair, family, verdict, shown, own))
    return [sentence for verdict in _DECIDED for sentence in found[verdict]]


def _sentence(
    pair: Pair, family: str, verdict: Verdict, shown: Sequence[Row], own: Sequence[Row]
) -> str:
    worse, better = _CHANGED.get(family, _PLAIN)
    verb = {Verdict.WORSE: worse, Verdict.BETTER: better}.get(verdict, "differs")
    best = max(shown, key=_told_first)
    assert best.interval is not None  # shown rows have one
    text = f"{pair.b.label} {verb}: {best.metric.label} "
    text += interval_text(best.interval, best.metric.scale) + where(best)
    others = len([row for row in shown if row.load != ALL_LOADS and row is not best])
    comparisons = len([row for row in own if row.load != ALL_LOADS and row is not best])
    text += _from_to(best, own)
    if others:
        other = "" if best.load == ALL_LOADS else "other "
        text += f", and in {others} of {comparisons} {other}comparisons of {family} at single loads"
    return f"{text}."


def _from_to(row: Row, own: Sequence[Row]) -> str:
    """Both runs' figures: the row's own, or for a mean those at the lowest and highest load."""
    if row.load == WHOLE_RUN:
        return f", {_values(row)}"
    if row.load != ALL_LOADS:
        return f" ({_values(row)})"
    alike = [each for each in own if each.metric is row.metric and each.load != ALL_LOADS]
    ends = alike[:1] if len(alike) < 2 else [alike[0], alike[-1]]
    told = ", ".join(f"{_values(each)}{where(each)}" for each in ends)
    return f" ({told})" if told else ""


def _values(row: Row) -> str:
    return f"{value_text(row.a.value, row.metric)} → {value_text(row.b.value, row.metric)}"


def _told_first(row: Row) -> tuple[bool, float]:
    """The mean over all loads if it is shown, else the surest row."""
    assert row.interval is not None
    width = row.interval.high - row.interval.low
    return row.load == ALL_LOADS, abs(row.interval.change) / max(width, 1e-12)


def where(row: Row) -> str:
    """At which load a row is, as the end of a phrase; nothing for what is of the whole run."""
    if row.load == WHOLE_RUN:
        return ""
    return " over all loads" if row.load == ALL_LOADS else f" at {row.load}"


def _same(rows: Sequence[Row], margin: float) -> list[str]:
    """Kinds of figures all of whose rows are the same within the margin."""
    names = [
        family
        for family, own in _families(rows).items()
        if all(row.verdict is Verdict.SAME for row in own)
    ]
    if not names:
        return []
    return [f"The same within {size_text(margin, Scale.RATIO)}: {', '.join(names)}."]


def _not_shown(pair: Pair, rows: Sequence[Row], margin: float) -> list[str]:
    """Kinds of figures of which nothing is shown, with the change that would have been."""
    parts = []
    for family, own in _families(rows).items():
        if any(row.verdict in _DECIDED for row in own):
            continue
        left = [row for row in own if row.verdict is Verdict.NOT_SHOWN]
        if not left:
            continue
        # The sharpest row says what this comparison can see of the family at all.
        sharp = min(left, key=lambda row: row.interval.resolution if row.interval else 0.0)
        if sharp.interval is not None:
            size = size_text(sharp.interval.resolution, sharp.metric.scale)
            name = family if sharp.metric.label == family else sharp.metric.label
            parts.append(f"{name} ±{size}{where(sharp)}")
    if not parts:
        return []
    verdicts = {row.verdict for row in rows}
    between = f" between {pair.a.label} and {pair.b.label}"
    scope = " in the other figures" if verdicts & {*_DECIDED, Verdict.SAME} else between
    return [
        f"No difference shown{scope}: smaller than this could not have been seen at best: "
        f"{', '.join(parts)}."
    ]


def _knees(pair: Pair) -> list[str]:
    """The two verdicts on the knee, where they cannot be set against each other."""
    row = next((r for r in pair.rows if r.metric is KNEE and r.interval is None), None)
    if row is None:
        return []
    texts = [f"{side.label}: {side.knee.sentence()}" for side in (pair.a, pair.b)]
    return [f"Knee: {'; '.join(texts)}."]


VERDICT_WORDS = {
    Verdict.WORSE: "worse",
    Verdict.BETTER: "better",
    Verdict.DIFFERENT: "different",
    Verdict.SAME: "same",
    Verdict.NOT_SHOWN: "no difference shown",
    Verdict.NOT_JUDGED: "not judged",
}
