"""The command line, without starting a server."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from simulator.cli import parse_command, required_key
from simulator.profile import PROFILES, Buffering, LimitKind

ROOT = Path(__file__).resolve().parents[2]


def test_without_flags_the_small_profile_is_served_on_loopback():
    """The defaults are those of the documentation."""
    command = parse_command([])

    assert command.profile == PROFILES["small"]
    assert (command.host, command.port, command.keep_alive_s) == ("127.0.0.1", 8000, 75)


@pytest.mark.parametrize(
    ("flags", "field", "expected"),
    [
        ("--max-num-seqs 3", "max_num_seqs", 3),
        ("--prefill-tokens-per-s inf", "prefill_tokens_per_s", math.inf),
        ("--decode-base-s 0.5", "decode_base_s", 0.5),
        ("--decode-per-seq-s 0.1", "decode_per_seq_s", 0.1),
        ("--kv-tokens 99", "kv_tokens", 99),
        ("--no-prefix-cache", "prefix_cache", False),
        ("--profile null --prefix-cache", "prefix_cache", True),
        ("--rpm 5", "rpm", 5),
        ("--tpm 6", "tpm", 6),
        ("--limit-kind window", "limit_kind", LimitKind.WINDOW),
        ("--no-limit-hints", "limit_hints", False),
        ("--max-queue 0", "max_queue", 0),
        ("--max-in-flight 7", "max_in_flight", 7),
        ("--jitter 0", "jitter_ratio", 0.0),
        ("--cold-start-s 2", "cold_start_s", 2.0),
        ("--idle-after-s 3", "idle_after_s", 3.0),
        ("--stall-probability 0.1", "stall_probability", 0.1),
        ("--stall-s 4", "stall_s", 4.0),
        ("--drift-depth 0.2", "drift_depth_ratio", 0.2),
        ("--drift-period-s 60", "drift_period_s", 60.0),
        ("--leak-percent-per-minute 1", "leak_percent_per_minute", 1.0),
        ("--overload-waiting 8", "overload_waiting", 8),
        ("--overload-slowdown 1", "overload_slowdown_ratio", 1.0),
        ("--overload-recovery-s 9", "overload_recovery_s", 9.0),
        ("--front-slots 2", "front_slots", 2),
        ("--buffer", "buffering", Buffering.ANSWER),
        ("--buffer answer", "buffering", Buffering.ANSWER),
        ("--buffer role-first", "buffering", Buffering.ROLE_FIRST),
        ("--buffer off", "buffering", Buffering.OFF),
        ("--stream-interval 4", "stream_interval_tokens", 4),
        ("--mean-output-tokens 9", "mean_output_tokens", 9.0),
        ("--max-model-len 50", "max_model_len_tokens", 50),
    ],
)
def test_a_flag_overrides_one_constant(flags, field, expected):
    """And leaves the others as the profile has them."""
    assert expected == getattr(parse_command(flags.split()).profile, field)


def test_the_context_is_no_longer_than_the_memory():
    """A sequence must be able to run alone."""
    assert parse_command(["--kv-tokens", "99"]).profile.context_tokens == 99


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--profile huge", "--profile"),
        ("--max-num-seqs 0", "--max-num-seqs 0: must be at least 1"),
        ("--max-num-seqs many", "--max-num-seqs"),
        ("--decode-base-s -1", "--decode-base-s -1.0: must be"),
        ("--jitter 2", "--jitter 2.0: must be within 0 and 1"),
        ("--stream-interval 0", "--stream-interval 0: must be at least 1"),
        ("--limit-kind drip", "--limit-kind"),
        ("--buffer most", "--buffer"),
        ("--drift-depth -1", "--drift-depth -1.0: must be a number from 0"),
        ("--drift-period-s 0", "--drift-period-s 0.0: must be over 0"),
        ("--leak-percent-per-minute nan", "--leak-percent-per-minute nan: must be"),
        ("--front-slots 0", "--front-slots 0: must be at least 1"),
        ("--overload-waiting 0", "--overload-waiting 0: must be at least 1"),
        ("--port 70000", "--port 70000"),
        ("--ssl-certfile here.pem", "belong together"),
        ("--ssl-certfile absent --ssl-keyfile absent", "no such file"),
    ],
)
def test_wrong_usage_names_the_flag_and_exits_with_2(flags, says, capsys):
    """One line that says what to change."""
    with pytest.raises(SystemExit) as caught:
        parse_command(flags.split())

    assert caught.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, None), ({"SIMULATOR_API_KEY": ""}, None), ({"SIMULATOR_API_KEY": "k"}, "k")],
    ids=["unset", "empty", "set"],
)
def test_the_key_comes_from_the_environment_only(environment, expected):
    """An empty value is no key."""
    assert expected == required_key(environment)


def test_the_documentation_names_every_flag_and_every_profile(capsys):
    """No flag without a line in the table, no line without a flag; the same for profiles."""
    with pytest.raises(SystemExit):
        parse_command(["--help"])
    flags = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out.partition("options:")[2]))
    text = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    section = text.partition("## Flags")[2].partition("##")[0]
    rows = "\n".join(line for line in section.splitlines() if line.startswith("| `--"))
    profiles = re.findall(r"^\| `([\w-]+)`", text.partition("## Profiles")[2], re.MULTILINE)

    assert set(re.findall(r"--[a-z][a-z-]+", rows)) == flags - {"--help"}
    assert set(PROFILES) <= set(profiles)
