"""``python -m bench.clients``: what one streamed event costs in each client, and how late it is.

Each repeat runs all clients of a case one after the other, so that a ratio compares neighbours in
time.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.figures import (
    Spread,
    answers_timed,
    cheaper_than,
    core_used,
    cost_us,
    error_ms,
    per_core,
    rate,
)
from bench.harness import Load, Patience, check_host, measure, paced_server

BASELINE = "fast_readline"
NAMES = {
    "stamped": "**StampedTransport**, every chunk read",
    "stamped_lazy": "**StampedTransport**, lazy reads",
    "fast_readline": "geventhttpclient readline + json (FastHttpUser)",
    "fast": "FastHttpTransport (geventhttpclient)",
    "http_user": "requests iter_lines + json (HttpUser)",
    "sdk": "SdkTransport (openai SDK, raw bytes)",
    "openai_typed": "openai SDK, typed stream",
    "epoll_floor": "floor: epoll, nothing parsed",
}
LEAN = ("stamped", "stamped_lazy", "fast_readline", "fast", "epoll_floor")
Results = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Case:
    """One table: the same load on several clients."""

    title: str
    clients: tuple[str, ...]
    load: Load
    repeats: int

    @property
    def paced(self) -> bool:
        """Whether the server keeps time, so that stamps can be judged."""
        return self.load.mode != "backlog"


def paced_case(streams: int, mode: str, clients: tuple[str, ...], repeats: int) -> Case:
    """Streams of 200 events at 50 a second: an answer of common length at a good pace."""
    how = "each stream at its own time" if mode == "spread" else "all streams at the same instants"
    load = Load("", streams, mode, events=200)
    # As long as a stream: what a lazily read one has waiting counts only when it is read, so that
    # a shorter window holds too few or too many of its events.
    load = replace(load, window_s=load.ramp_s)
    return Case(f"{streams} streams, 50 events/s each, {how}", clients, load, repeats)


def backlog_case(clients: tuple[str, ...], repeats: int) -> Case:
    """Eight streams whose answers are there at once: what the client alone can take."""
    load = Load("", 8, "backlog", events=256, window_s=1.0)
    return Case("8 streams, every answer sent at once (backlog)", clients, load, repeats)


def all_cases(quick: bool) -> list[Case]:
    """The whole table, or what fits in a minute."""
    every = tuple(NAMES)
    if quick:
        return [paced_case(100, "spread", every, 1), backlog_case(every, 1)]
    return [
        paced_case(100, "spread", every, 3),
        paced_case(300, "spread", (*LEAN, "http_user", "openai_typed"), 3),
        paced_case(300, "aligned", ("stamped", "stamped_lazy", BASELINE, "epoll_floor"), 3),
        paced_case(1000, "spread", ("stamped", "stamped_lazy", BASELINE, "epoll_floor"), 3),
        paced_case(2000, "spread", ("stamped_lazy", BASELINE, "epoll_floor"), 3),
        backlog_case(every, 3),
    ]


def run_case(case: Case, url: str, patience: Patience, say: Callable[[str], None]) -> Results:
    """All repeats of one case, by client."""
    found: Results = {client: [] for client in case.clients}
    for repeat in range(case.repeats):
        for client in case.clients:
            load = replace(case.load, client=client)
            patience.wait()
            record = measure(load, url + load.query)
            found[client].append(record)
            cost = cost_us(record)
            say(
                f"{case.title} | {repeat + 1}/{case.repeats} | {client}: "
                f"{'no event' if cost is None else f'{cost:.1f} us/event'}, "
                f"core {core_used(record):.2f}, failures {record['failures']}"
            )
    return found


def case_table(case: Case, found: Results) -> str:
    """One case as Markdown."""
    columns = ["client", "CPU us/event", "times less CPU than readline", "core used"]
    columns += ["of the server's pace"] if case.paced else ["events/s per core"]
    columns += ["TTFT stamp late p50 / p99 ms (n)"] if case.paced else []
    columns += ["peak RSS MB"]
    lines = [f"### {case.title}", "", _row(columns), _row(["---"] * len(columns))]
    lines += [_client_row(case, found, client) for client in case.clients]
    return "\n".join(lines)


def _client_row(case: Case, found: Results, client: str) -> str:
    records = found[client]
    failures = sum(record["failures"] for record in records)
    name = NAMES[client] + (f" ({failures} failed)" if failures else "")
    cells = [
        name,
        _text(Spread.of([cost_us(record) for record in records]), 1),
        _text(cheaper_than(found[BASELINE], records), 2),
        _text(Spread.of([core_used(record) for record in records]), 2),
    ]
    if case.paced:
        cells.append(_text(Spread.of([100 * rate(r) / case.load.pace for r in records]), 0) + " %")
        cells.append(_lateness(records))
    else:
        cells.append(_text(Spread.of([per_core(record) for record in records]), 0))
    cells.append(_text(Spread.of([record["peak_rss_mb"] for record in records]), 0))
    return _row(cells)


def _lateness(records: Sequence[dict]) -> str:
    middle, tail = error_ms(records, 0.5), error_ms(records, 0.99)
    if middle is None or tail is None:
        return "-"
    merged = sum(record["merged_firsts"] for record in records)
    note = f", {merged} merged" if merged else ""
    return f"{middle:.3f} / {tail:.3f} ({answers_timed(records)}{note})"


def _text(spread: Spread | None, digits: int) -> str:
    return "-" if spread is None else spread.text(digits)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """One case of the command line's choosing, printed."""
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--mode", choices=("spread", "aligned", "backlog"), default="spread")
    parser.add_argument("--clients", default=",".join(NAMES), help="the baseline is added")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    named = options.clients.split(",")
    unknown = set(named) - set(NAMES)
    if unknown:
        parser.error(f"--clients {','.join(sorted(unknown))}: write any of {', '.join(NAMES)}")
    clients = tuple(name for name in NAMES if name in named or name == BASELINE)
    case = (
        backlog_case(clients, options.repeats)
        if options.mode == "backlog"
        else paced_case(options.streams, options.mode, clients, options.repeats)
    )
    check_host()
    with paced_server() as url:
        found = run_case(case, url, Patience(10.0), lambda line: print(line, flush=True))
    print("\n" + case_table(case, found))


if __name__ == "__main__":
    main()
