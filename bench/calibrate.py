"""``python -m bench.calibrate``: this host as a client, written to ``.cache/calibration.json``.

Says how many events a second of CPU takes in, and how late first tokens are stamped and read, so
that a run's figures can be held against what the client itself can do. The events are read by the
transport of streaming users alone: Locust's statistics and the run's records come on top.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import Spread, cost_us, error_ms, per_core, percentile, rate
from bench.harness import (
    CACHE,
    Load,
    Patience,
    check_host,
    measure,
    null_simulator,
    paced_server,
    versions,
)
from hooks.this_host import this_host
from metrics.calibration import CALIBRATION_JSON, CALIBRATION_SCHEMA

PATIENCE_S = 20.0
DISTURBED_SHARE = 0.01
"""Of the first tokens merged: above, other work held the client or its server up."""
FILE = CACHE / CALIBRATION_JSON
CLIENT = "stamped"
STREAMS = (100, 300)
UNPACED_STREAMS = 8
FULL_CORE = 0.95
"""Below this the client waited for the server: its rate is the server's, its cost still its own."""


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibrate", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=FILE, help="the file that is written")
    options = parser.parse_args()
    check_host()
    found = calibrate(options.repeats)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2))
    print(f"== written to {options.out}")


def calibrate(repeats: int) -> dict[str, Any]:
    """All figures, as they are written."""
    patience = Patience(PATIENCE_S)
    unpaced = Load(CLIENT, UNPACED_STREAMS, "backlog", events=256, window_s=1.0)
    with null_simulator() as url:
        simulated = _repeated(unpaced, url, repeats, patience)
    with paced_server() as url:
        backlog = _repeated(unpaced, url + unpaced.query, repeats, patience)
        paced = {
            streams: _repeated(load, url + load.query, repeats, patience)
            for streams in STREAMS
            for load in [Load(CLIENT, streams)]
        }
    return {
        "schema": CALIBRATION_SCHEMA,
        "client": "StampedTransport",
        "host": this_host(),
        "versions": versions(),
        "repeats": repeats,
        "unpaced": {
            "simulator_null": _throughput(simulated),
            "backlog": _throughput(backlog),
        },
        "paced": {
            str(streams): _pacing(records, Load(CLIENT, streams))
            for streams, records in paced.items()
        },
        "rss_per_stream_kb": _rss_per_stream_kb(paced),
    }


def _repeated(load: Load, url: str, repeats: int, patience: Patience) -> list[dict[str, Any]]:
    records = []
    for _ in range(repeats):
        patience.wait()
        record = measure(load, url)
        if record["failures"]:
            raise SystemExit(f"{record['failures']} requests failed: {record['first_failure']}")
        records.append(record)
    return records


def _throughput(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    used = [record["cpu_s"] / record["wall_s"] for record in records]
    return {
        "streams": UNPACED_STREAMS,
        "events_per_s": _spread([rate(record) for record in records]),
        "events_per_core_s": _spread([per_core(record) for record in records]),
        "cpu_us_per_event": _spread([cost_us(record) for record in records]),
        "client_filled_its_core": min(used) >= FULL_CORE,
    }


def _pacing(records: Sequence[dict[str, Any]], load: Load) -> dict[str, Any]:
    delays_ms = [value for record in records for value in record["delays_ms"]]
    firsts = sum(len(record["stamp_errors_ms"]) for record in records)
    merged = sum(record["merged_firsts"] for record in records)
    return {
        "streams": load.streams,
        "events_per_s_per_stream": 1e3 / load.itl_ms,
        "disturbed": merged > DISTURBED_SHARE * firsts,
        "of_server_pace": _spread([rate(record) / load.pace for record in records]),
        "events_per_s": _spread([rate(record) for record in records]),
        "events_per_core_s": _spread([per_core(record) for record in records]),
        "cpu_us_per_event": _spread([cost_us(record) for record in records]),
        "core_used": _spread([record["cpu_s"] / record["wall_s"] for record in records]),
        "ttft_error_ms": {
            "p50": error_ms(records, 0.5),
            "p99": error_ms(records, 0.99),
            "count": firsts,
        },
        "client_delay_ms": {
            "p50": percentile(delays_ms, 0.5),
            "p99": percentile(delays_ms, 0.99),
            "count": len(delays_ms),
        },
        "kernel_stamps": bool(delays_ms),
        "merged_reads": sum(record["merged_reads"] for record in records),
        "merged_firsts": merged,
        "peak_rss_mb": _spread([record["peak_rss_mb"] for record in records]),
        "host_busy_cores": _spread([record["host_busy_cores"] for record in records]),
    }


def _rss_per_stream_kb(paced: dict[int, list[dict[str, Any]]]) -> float | None:
    """What one more stream weighs: between the two numbers of streams, so that imports cancel."""
    few, many = min(paced), max(paced)
    peaks = {
        streams: percentile([record["peak_rss_mb"] for record in paced[streams]], 0.5)
        for streams in (few, many)
    }
    if peaks[few] is None or peaks[many] is None or few == many:
        return None
    return round(1024 * (peaks[many] - peaks[few]) / (many - few), 1)


def _spread(values: Sequence[float | None]) -> dict[str, float] | None:
    spread = Spread.of(values)
    if spread is None:
        return None
    return {
        "min": round(spread.low, 3),
        "median": round(spread.middle, 3),
        "max": round(spread.high, 3),
    }


if __name__ == "__main__":
    main()
