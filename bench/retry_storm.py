"""What retries do to an endpoint that already refuses: ``python -m bench.retry_storm``.

One open loop offers twice what the embedded endpoint's rate limit lets through, three times over:
without retries, with four retries at fixed doubling waits, and with full jitter and a budget of
retries. The endpoint says nothing of when to come back, as many do not. The figure and the table
go into ``docs/``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bench.pages import put_measured
from metrics.prices import money

SUITE = Path(__file__).resolve().parent.parent
FIGURE = SUITE / "docs" / "figures" / "retry-storm.svg"
READY = "simulator ready on "

LIMIT_RPS = 10.0
OFFERED_RPS = 20.0
SECONDS = 40
PRICES = ("--price-in", "0.27", "--price-out", "1.10")
"""Of a hosted DeepSeek V3 in 2025, dollars per million tokens."""


@dataclass(frozen=True)
class Client:
    """One way of dealing with refusals."""

    name: str
    options: tuple[str, ...]


CLIENTS = (
    Client("no retries", ()),
    Client("4 retries, no jitter", ("--retries", "4", "--backoff", "exponential:500ms")),
    Client(
        "4 retries, full jitter, budget 0.1",
        ("--retries", "4", "--backoff", "full-jitter:500ms", "--retry-budget", "0.1"),
    ),
)


@dataclass(frozen=True)
class Storm:
    """One run: what its records say, and what arrived at the endpoint second by second."""

    client: Client
    totals: dict[str, int]
    attempts: Counter[int]
    refused: Counter[int]
    wasted_prompt_tokens: float
    wasted_ratio: float
    cost: float
    in_vain: float


def main() -> int:
    """Run the three clients one after the other, draw, and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.retry_storm", description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="length of each run")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        storms = [
            _storm(client, Path(folder) / str(n), seconds) for n, client in enumerate(CLIENTS)
        ]
    FIGURE.parent.mkdir(exist_ok=True)
    _draw(storms, seconds)
    table = _table(storms)
    print(table)
    put_measured("rate-limits.md", "python -m bench.retry_storm", table)
    print(f"== {FIGURE.relative_to(SUITE)} was drawn")
    return 0


def _storm(client: Client, folder: Path, seconds: int) -> Storm:
    print(f"== {client.name}: {seconds} s", flush=True)
    folder.mkdir()
    log = folder / "endpoint.jsonl"
    limit = ("--rpm", str(round(60 * LIMIT_RPS)), "--limit-span-s", "1", "--no-limit-hints")
    command = [sys.executable, "-m", "simulator", "--port", "0", "--profile", "provider-rpm"]
    endpoint = subprocess.Popen(
        [*command, *limit, "--log", str(log)],
        cwd=SUITE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert endpoint.stdout is not None
        host = endpoint.stdout.readline().removeprefix(READY).split()[0]
        command = [sys.executable, "-m", "locust", "--headless", "--host", host, "--only-summary"]
        command += ["--shape", "open-loop", "--rate", str(OFFERED_RPS), "--arrivals", "constant"]
        command += ["--hold", f"{seconds}s", "--settle", "0s", "--output-tokens", "16", "--seed"]
        command += ["7", "--max-fail-ratio", "1", "--runs-dir", str(folder / "runs"), *PRICES]
        done = subprocess.run(
            [*command, *client.options], cwd=SUITE, capture_output=True, text=True, check=False
        )
    finally:
        endpoint.terminate()
        endpoint.wait(timeout=10)
    runs = list((folder / "runs").glob("*/summary.json"))
    if not runs:
        raise SystemExit(f"the run of {client.name!r} left no report:\n{done.stdout}{done.stderr}")
    return _read(client, runs[0].parent, log)


def _read(client: Client, run: Path, log: Path) -> Storm:
    summary = json.loads((run / "summary.json").read_text())
    books, (cost, *_) = summary["ledger"]["total"], summary["cost"]["run"]
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    chats = [entry for entry in entries if "preflight" not in (entry["request_id"] or "")]
    began_s = min(entry["received_monotonic_s"] for entry in chats)
    attempts = Counter(int(entry["received_monotonic_s"] - began_s) for entry in chats)
    refused = Counter(
        int(entry["received_monotonic_s"] - began_s) for entry in chats if entry["status"] == 429
    )
    return Storm(
        client=client,
        totals=summary["totals"],
        attempts=attempts,
        refused=refused,
        wasted_prompt_tokens=books["wasted_prompt_estimate"],
        wasted_ratio=books["wasted_prompt_ratio"],
        cost=cost["cost"],
        in_vain=cost["in_vain"],
    )


def _draw(storms: list[Storm], seconds: int) -> None:
    figure, axes = plt.subplots(len(storms), 1, figsize=(7, 6.6), sharex=True, sharey=True)
    last_s = max(max(storm.attempts) for storm in storms)
    times = list(range(last_s + 1))
    for axis, storm in zip(axes, storms, strict=True):
        accepted = [storm.attempts[s] - storm.refused[s] for s in times]
        axis.bar(times, accepted, 1.0, align="edge", color="#0072b2", label="200: accepted")
        axis.bar(
            *(times, [storm.refused[s] for s in times], 1.0, accepted),
            **{"align": "edge", "color": "#e69f00", "hatch": "///", "label": "429: refused"},
        )
        axis.axhline(LIMIT_RPS, color="black", linewidth=1, label="the endpoint's limit")
        axis.axhline(
            OFFERED_RPS, color="black", linewidth=1, linestyle="--", label="what users want"
        )
        axis.axvline(seconds, color="gray", linewidth=0.8, linestyle=":")
        amplification = storm.totals["attempts"] / storm.totals["planned"]
        axis.set_title(f"{storm.client.name}: {amplification:.2f} attempts per request", loc="left")
        axis.set_ylabel("attempts per second")
    axes[0].legend(loc="upper right", ncols=2, fontsize="small")
    axes[-1].set_xlabel("seconds since the first request")
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})


def _table(storms: list[Storm]) -> str:
    head = "| client | requests | ok | attempts | 429s | attempts per request |"
    more = "prompt tokens in vain | cost | in vain, if billed |"
    lines = [f"{head} {more}", "|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for storm in storms:
        totals = storm.totals
        lines.append(
            f"| {storm.client.name} | {totals['planned']} | {totals['ok']} | {totals['attempts']} "
            f"| {totals['rate_limited_attempts']} | {totals['attempts'] / totals['planned']:.2f} "
            f"| {storm.wasted_prompt_tokens:,.0f} ({storm.wasted_ratio:.0%} of the useful ones) "
            f"| {money(storm.cost)} | {money(storm.in_vain)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
