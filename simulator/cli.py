"""The command line: a named profile, overrides of its constants, and where to listen."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simulator.profile import PROFILES, Buffering, LimitKind, Profile, ProfileError

DEFAULT_MODEL = "simulated-model"

# Flag, field of the profile, type, and what it is.
_OVERRIDES: tuple[tuple[str, str, type, str], ...] = (
    ("--max-num-seqs", "max_num_seqs", int, "slots: sequences served at a time"),
    ("--prefill-tokens-per-s", "prefill_tokens_per_s", float, "prompt tokens computed a second"),
    ("--decode-base-s", "decode_base_s", float, "seconds of a step, whatever the batch"),
    ("--decode-per-seq-s", "decode_per_seq_s", float, "more seconds of a step per sequence"),
    ("--kv-tokens", "kv_tokens", int, "KV memory in tokens"),
    ("--prefill-chunk-tokens", "prefill_chunk_tokens", int, "prompt tokens in one step at most"),
    ("--prefix-block-tokens", "prefix_block_tokens", int, "tokens of a prefix cache block"),
    ("--rpm", "rpm", int, "requests per minute; 429 above"),
    ("--tpm", "tpm", int, "prompt plus asked tokens per minute; 429 above"),
    ("--limit-span-s", "limit_span_s", float, "burst of a bucket in seconds, or window length"),
    ("--max-queue", "max_queue", int, "waiting requests; 503 above"),
    ("--max-in-flight", "max_in_flight", int, "waiting and running requests; 429 above"),
    ("--front-slots", "front_slots", int, "requests a front lets through; others wait unseen"),
    ("--jitter", "jitter_ratio", float, "spread of a step's time, 0.05 for 5 %%"),
    ("--cold-start-s", "cold_start_s", float, "extra seconds of the first step after idling"),
    ("--idle-after-s", "idle_after_s", float, "idle seconds after which the server is cold"),
    ("--stall-probability", "stall_probability", float, "chance of a stall per step"),
    ("--stall-s", "stall_s", float, "seconds of a stall"),
    ("--drift-depth", "drift_depth_ratio", float, "slowdown by a neighbour, 0.1 for up to 10 %%"),
    ("--drift-period-s", "drift_period_s", float, "seconds in which the neighbour comes and goes"),
    ("--leak-percent-per-minute", "leak_percent_per_minute", float, "steps get longer with age"),
    ("--overload-waiting", "overload_waiting", int, "waiting requests that slow the server down"),
    ("--overload-slowdown", "overload_slowdown_ratio", float, "by how much, 0.5 for 50 %%"),
    ("--overload-recovery-s", "overload_recovery_s", float, "seconds without a queue to recover"),
    ("--stream-interval", "stream_interval_tokens", int, "tokens per streamed chunk"),
    ("--mean-output-tokens", "mean_output_tokens", float, "mean length without ignore_eos"),
    ("--max-model-len", "max_model_len_tokens", int, "prompt plus reply in tokens"),
)
_FLAG_OF = {field: flag for flag, field, _, _ in _OVERRIDES}


@dataclass(frozen=True, slots=True)
class Command:
    """All that one run of the simulator needs to know.  `api_key` never shows in its repr."""

    profile: Profile
    host: str
    port: int
    model: str
    seed: int
    log: Path | None
    trace: Path | None
    keep_alive_s: int
    ssl_certfile: Path | None
    ssl_keyfile: Path | None

    @property
    def scheme(self) -> str:
        return "https" if self.ssl_certfile else "http"


def parse_command(arguments: Sequence[str]) -> Command:
    """Read the command line; exits with status 2 and one line of advice if it makes no sense."""
    parser = _parser()
    options = parser.parse_args(arguments)
    overrides = {
        field: getattr(options, field)
        for _, field, _, _ in _OVERRIDES
        if getattr(options, field) is not None
    }
    for field in ("prefix_cache", "limit_kind", "limit_hints", "buffering"):
        if getattr(options, field) is not None:
            overrides[field] = getattr(options, field)
    try:
        profile = replace(PROFILES[options.profile], **overrides)
    except ProfileError as error:
        flag = _FLAG_OF.get(error.field, error.field)
        parser.error(f"{flag} {error.value}: must be {error.requirement}")
    if not 0 <= options.port <= 65535:
        parser.error(f"--port {options.port}: must be within 0 and 65535")
    if (options.ssl_certfile is None) != (options.ssl_keyfile is None):
        parser.error("--ssl-certfile and --ssl-keyfile belong together")
    for flag, path in (
        ("--ssl-certfile", options.ssl_certfile),
        ("--ssl-keyfile", options.ssl_keyfile),
    ):
        if path is not None and not path.is_file():
            parser.error(f"{flag} {path}: no such file")
    return Command(
        profile=profile,
        host=options.host,
        port=options.port,
        model=options.model,
        seed=options.seed,
        log=options.log,
        trace=options.trace,
        keep_alive_s=options.keep_alive_s,
        ssl_certfile=options.ssl_certfile,
        ssl_keyfile=options.ssl_keyfile,
    )


def required_key(environment: Mapping[str, str] = os.environ) -> str | None:
    """The key clients must send, from SIMULATOR_API_KEY; None if it is unset or empty."""
    return environment.get("SIMULATOR_API_KEY") or None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simulator",
        description="An OpenAI-compatible chat endpoint with a known queue and known speed.",
        epilog="Set SIMULATOR_API_KEY to require a key.  Example: python -m simulator --port 8000 "
        "--profile small --log simulator.jsonl",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (%(default)s)")
    parser.add_argument(
        "--profile",
        choices=list(PROFILES),
        default="small",
        help="constants of the server (%(default)s)",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append a JSON line per request")
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="append a JSON line when a queue begins or ends"
    )
    parser.add_argument("--model", default=DEFAULT_MODEL, help="model name (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of replies and jitter (%(default)s)")
    parser.add_argument(
        "--keep-alive-s",
        type=int,
        default=75,
        help="seconds an idle connection stays open (%(default)s)",
    )
    parser.add_argument("--ssl-certfile", type=Path, metavar="FILE", help="serve TLS")
    parser.add_argument("--ssl-keyfile", type=Path, metavar="FILE", help="key of the certificate")
    constants = parser.add_argument_group("constants", "each overrides the profile's")
    for flag, field, kind, text in _OVERRIDES:
        constants.add_argument(flag, dest=field, type=kind, help=text, metavar=kind.__name__)
    constants.add_argument(
        "--prefix-cache",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="keep computed prefixes",
    )
    constants.add_argument(
        "--limit-hints",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="tell of the limits in headers, and when to come back",
    )
    constants.add_argument(
        "--limit-kind", type=LimitKind, choices=list(LimitKind), help="how --rpm and --tpm refill"
    )
    constants.add_argument(
        "--buffer",
        dest="buffering",
        type=Buffering,
        choices=list(Buffering),
        nargs="?",
        const=Buffering.ANSWER,
        help="hold streams back until they are whole, as a buffering proxy does",
    )
    return parser
