"""What a run does: the options of ``options.py``, validated once and frozen.

Secrets are never options, because Locust shows options in its page and ships them in clear: see
``users.secrets``.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from metrics.slo import SloLimit, parse_slo
from options import OPTION_NAMES, SHAPES, option_flag
from stream.gap_sample import GapSample
from values import (
    parse_duration_s,
    parse_hold_s,
    parse_limit_s,
    parse_optional_number,
    parse_optional_whole,
    parse_rates,
    parse_stages,
)
from workloads.arrivals import ArrivalProcess, parse_arrivals
from workloads.chat_body import MaxTokensField, parse_extra_body
from workloads.endpoint import ChatEndpoint, parse_endpoint
from workloads.lengths import Distribution, parse_distribution
from workloads.proxy_url import parse_proxy_option
from workloads.traffic import TrafficShare, parse_traffic

T = TypeVar("T")

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class SettingsError(ValueError):
    """An option's value cannot be used; the text names the option, the value and what to write."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long to wait for what, in seconds; None waits for ever."""

    connect_s: float | None
    first_token_s: float | None
    idle_s: float | None
    """Between two output chunks: keep-alive comments do not extend it."""
    total_s: float | None


@dataclass(frozen=True, slots=True)
class Header:
    """An extra request header. ``from_env`` means that ``value`` names an environment variable."""

    name: str
    value: str
    from_env: bool


MOST_USERS = 256
"""How far the search for the knee goes unless ``-u`` says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that decides what a run does; without secrets, the same on all machines."""

    endpoint: ChatEndpoint
    model: str | None
    traffic: tuple[TrafficShare, ...]
    shape: str
    users: int
    spawn_rate: float
    run_time_s: float | None
    stages: tuple[int, ...]
    hold_s: float
    settle_s: float
    rates_rps: tuple[float, ...]
    """Of an open loop, over the whole fleet; empty for other shapes without rates."""
    arrivals: ArrivalProcess
    spike_users: int
    spike_hold_s: float
    search_requests: int
    """Of a knee search: 0 is no bound."""
    down_sweep: bool
    warmup_requests: int
    """The first requests of the run, over the fleet."""
    idle_before_s: float
    prompt_tokens: Distribution
    output_tokens: Distribution
    prefixes: int
    prefix_tokens: int
    think_time_s: Distribution
    seed: int | None
    limits: TimeLimits
    slo: tuple[SloLimit, ...]
    headers: tuple[Header, ...]
    extra_body: Mapping[str, Any]
    max_tokens_field: MaxTokensField
    include_usage: bool
    ignore_eos: bool
    temperature: float | None
    gap_sample: GapSample
    ca_file: str | None
    insecure: bool
    proxy: str
    """``auto``, ``off`` or the URL of a proxy; it holds no credentials."""
    preflight: bool
    runs_dir: str
    run_name: str | None
    max_fail_ratio: float
    options: Mapping[str, Any]
    """The options as given, by name: what is stored with the run and sent to workers."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any], read_file: Callable[[str], str]) -> Self:
        """Validate parsed options (``vars(namespace)``); names that are not ours are ignored.

        ``read_file`` gives the text of a file that an option names.

        Raises:
            SettingsError: the first option that cannot be used.
        """
        take = _Reader(options, read_file)
        shape = take.one_of("shape", SHAPES)
        most = MOST_USERS if shape == "knee" else 1
        users = take.whole("num_users", minimum=1, default=most)
        rates = take.rates()
        _check_shape(shape, users, rates, options)
        traffic = take.parsed("traffic", parse_traffic)
        return cls(
            endpoint=take.parsed("host", parse_endpoint),
            model=take.text("model") or None,
            traffic=traffic,
            shape=shape,
            users=users,
            spawn_rate=take.number("spawn_rate", above=0.0, default=1.0),
            run_time_s=take.optional_number("run_time"),
            stages=take.parsed("stages", parse_stages),
            hold_s=take.parsed("hold", parse_hold_s),
            settle_s=take.parsed("settle", parse_duration_s),
            rates_rps=rates,
            arrivals=take.parsed("arrivals", parse_arrivals),
            spike_users=take.whole("spike_users", minimum=0) or 4 * users,
            spike_hold_s=take.parsed("spike_hold", parse_hold_s),
            search_requests=take.whole("search_requests", minimum=0),
            down_sweep=take.flag("down_sweep"),
            warmup_requests=take.whole("warmup_requests", minimum=0),
            idle_before_s=take.parsed("idle_before", parse_duration_s),
            prompt_tokens=take.distribution("prompt_tokens"),
            output_tokens=take.distribution("output_tokens"),
            prefixes=take.whole("prefixes", minimum=0),
            prefix_tokens=take.whole("prefix_tokens", minimum=0),
            think_time_s=take.distribution("think_time"),
            seed=take.parsed("seed", parse_optional_whole),
            limits=TimeLimits(
                connect_s=take.parsed("connect_timeout", parse_limit_s),
                first_token_s=take.parsed("first_token_timeout", parse_limit_s),
                idle_s=take.parsed("idle_timeout", parse_limit_s),
                total_s=take.parsed("total_timeout", parse_limit_s),
            ),
            slo=take.parsed("slo", parse_slo),
            headers=tuple(parse_header(text) for text in options.get("header") or ()),
            extra_body=take.parsed("extra_body", parse_extra_body),
            max_tokens_field=MaxTokensField(take.one_of("max_tokens_field", tuple(MaxTokensField))),
            include_usage=take.one_of("usage", ("on", "off")) == "on",
            ignore_eos=take.flag("ignore_eos"),
            temperature=take.parsed("temperature", parse_optional_number),
            gap_sample=take.parsed("gap_sample", GapSample.parse),
            ca_file=take.text("ca_file") or None,
            insecure=take.flag("insecure"),
            proxy=take.parsed("proxy", parse_proxy_option),
            preflight=not take.flag("no_preflight"),
            runs_dir=take.text("runs_dir") or "runs",
            run_name=take.text("run_name") or None,
            max_fail_ratio=take.number("max_fail_ratio", above=-1e-9, default=0.1),
            options={name: options[name] for name in OPTION_NAMES if name in options},
        )


class _Reader:
    """Reads one option at a time and names it in the error."""

    def __init__(self, options: Mapping[str, Any], read_file: Callable[[str], str]) -> None:
        self._options = options
        self._read_file = read_file

    def text(self, name: str) -> str:
        value = self._options.get(name)
        return "" if value is None else str(value)

    def flag(self, name: str) -> bool:
        return bool(self._options.get(name))

    def parsed(self, name: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(self.text(name))
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.strerror else str(error)
            raise SettingsError(f"{option_flag(name)}: {reason}") from None
        except ValueError as error:
            raise SettingsError(f"{option_flag(name)}: {error}") from None

    def distribution(self, name: str) -> Distribution:
        return self.parsed(name, lambda text: parse_distribution(text, read_file=self._read_file))

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.text(name)
        if value not in choices:
            known = ", ".join(choice for choice in choices if choice)
            raise SettingsError(f"{option_flag(name)} {value!r}: write one of {known}")
        return value

    def whole(self, name: str, minimum: int, default: int = 0) -> int:
        value = self._options.get(name)
        try:
            number = default if value is None else int(value)
        except (TypeError, ValueError):
            raise SettingsError(f"{option_flag(name)} {value!r}: write a whole number") from None
        if number < minimum:
            raise SettingsError(f"{option_flag(name)} {number}: write {minimum} or more")
        return number

    def number(self, name: str, above: float, default: float) -> float:
        value = self._options.get(name)
        try:
            number = default if value is None else float(value)
        except (TypeError, ValueError):
            raise SettingsError(f"{option_flag(name)} {value!r}: write a number") from None
        if not above < number < math.inf:
            raise SettingsError(
                f"{option_flag(name)} {number}: write a number over {max(above, 0):g}"
            )
        return number

    def rates(self) -> tuple[float, ...]:
        one, several = self.number("rate", -1e-9, 0.0), self.parsed("rates", parse_rates)
        if one and several:
            raise SettingsError(f"--rate {one:g} and --rates: give one of them")
        return (one,) if one else several

    def optional_number(self, name: str) -> float | None:
        return None if self._options.get(name) is None else self.number(name, 0.0, 0.0)


def _check_shape(
    shape: str, users: int, rates_rps: Sequence[float], options: Mapping[str, Any]
) -> None:
    """What a shape cannot do without.

    Raises:
        SettingsError: it is missing, or speaks against the shape.
    """
    if shape == "open-loop" and not rates_rps:
        raise SettingsError("--shape open-loop: give --rate 5 or --rates 2,4,8 (requests/s)")
    if shape != "open-loop" and rates_rps:
        raise SettingsError(f"--rate and --rates need --shape open-loop, not {shape}")
    if shape == "soak" and options.get("run_time") is None:
        raise SettingsError("--shape soak: give its length with --run-time, such as -t 10m")
    spike_users = options.get("spike_users") or 4 * users
    if shape == "spike" and int(spike_users) <= users:
        raise SettingsError(f"--spike-users {spike_users}: write more than the {users} of --users")


def parse_header(text: str) -> Header:
    """``Name: value``, or ``Name: env:VARIABLE`` for a value that must not be an option."""
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or _HEADER_NAME.fullmatch(name) is None:
        raise SettingsError(f"--header {name!r}: write 'Name: value' or 'Name: env:VARIABLE'")
    if name.lower() in _OWN_HEADERS:
        raise SettingsError(f"--header {name!r}: the transport sets this one itself")
    if not header_can_hold(value):
        raise SettingsError(f"--header {name!r}: the value holds a character no header may have")
    if value.startswith("env:"):
        return Header(name, value.removeprefix("env:"), from_env=True)
    return Header(name, value, from_env=False)


def header_can_hold(value: str) -> bool:
    """Whether a header may have this value: Latin-1 without line ends or control characters."""
    return not any(ord(c) < 32 or ord(c) == 127 for c in value) and _latin1(value)


def _latin1(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
