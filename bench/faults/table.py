"""The outcome of many runs as a table."""

from collections import Counter
from collections.abc import Sequence

from bench.faults.check import Verdict
from bench.faults.evidence import Evidence
from bench.faults.plan import Kind

Run = tuple[Evidence, Verdict]


def one_line(seen: Evidence, verdict: Verdict) -> str:
    """A run as it ends."""
    faults = ", ".join(
        f"{deed.injection.kind.value}{f' {deed.worker}' if deed.worker else ''}"
        f"{f' for {deed.injection.lasts_s:.1f} s' if deed.injection.lasts_s else ''}"
        for deed in seen.deeds
    )
    state = "BROKEN" if verdict.breaches else "held"
    return (
        f"seed {seen.seed}: {state}, {verdict.asked} requests, {len(verdict.lost)} lost with a "
        f"killed worker, exit code {seen.master_code}, {seen.seconds:.0f} s ({faults})"
    )


def table(runs: Sequence[Run]) -> str:
    """What was injected, and what came of it, as Markdown."""
    kinds = Counter(deed.injection.kind for seen, _ in runs for deed in seen.deeds)
    verdicts = [verdict for _, verdict in runs]
    lost = [one for verdict in verdicts for one in verdict.lost]
    ages_s = [one.age_s for one in lost if one.age_s is not None]
    on_s = [verdict.loads_on_s for verdict in verdicts if verdict.loads_on_s is not None]
    asked = sum(verdict.asked for verdict in verdicts)
    merged = sum(verdict.merged for verdict in verdicts)
    rows = {
        "runs": len(runs),
        "injections": kinds.total(),
        **{kind.value: kinds[kind] for kind in Kind},
        "requests that the server saw": asked,
        "in exactly one spool, and once in the merged report": merged,
        "lost with a killed worker, under way then": len(lost) - len(ages_s),
        "lost with a killed worker, answered before": len(ages_s),
        "how long before, at most": f"{max(ages_s):.2f} s" if ages_s else "-",
        "requests sent after the master was lost, at most for": f"{max(on_s):.1f} s"
        if on_s
        else "-",
        "runs that hung": sum(seen.master_hung for seen, _ in runs),
        "broken promises": sum(len(verdict.breaches) for verdict in verdicts),
    }
    lines = ["| what | number |", "|---|---:|"]
    for name, value in rows.items():
        lines.append(f"| {name} | {f'{value:,}' if isinstance(value, int) else value} |")
    return "\n".join(lines)
