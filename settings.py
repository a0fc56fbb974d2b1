"""What a run does: the options of ``options.py``, validated once and frozen.

Secrets are never options, because Locust shows options in its page and ships them in clear: see
``users.secrets``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from metrics.prices import Prices
from metrics.slo import SloLimit, parse_slo
from metrics.trace_context import SAMPLINGS
from option_reader import OptionReader, SettingsError
from options import OPEN_LOOPS, OPTION_NAMES, RECORDS, SEARCHES, SHAPES
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
from workloads.backoff import Backoff, parse_backoff
from workloads.chat_body import MaxTokensField, parse_extra_body
from workloads.endpoint import ChatEndpoint, parse_endpoint
from workloads.extra_headers import Header, parse_header
from workloads.lengths import Distribution
from workloads.proxy_url import parse_proxy_option
from workloads.retry_statuses import parse_retry_on
from workloads.traffic import TrafficShare, parse_traffic


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long to wait for what, in seconds; None waits for ever."""

    connect_s: float | None
    first_token_s: float | None
    idle_s: float | None
    """Between two output chunks: keep-alive comments do not extend it."""
    total_s: float | None


@dataclass(frozen=True, slots=True)
class Retrying:
    """When a request is sent again; ``docs/rate-limits.md`` has the rules."""

    retries: int
    """At most so many of one logical request; 0: never."""
    backoff: Backoff
    cap_s: float
    """A longer wait is not waited for."""
    statuses: frozenset[int]
    budget_ratio: float | None
    """Retries per logical request, over all users of a process; None: no bound."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Users who close the tab in the middle of an answer."""

    ratio: float
    """Their share of the requests."""
    after_s: Distribution
    """How long after asking they leave."""


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
    paced_by_tokens: bool
    """The rates are nominal tokens/s instead of requests/s."""
    max_in_flight: int
    """Over the whole fleet; 0: no bound."""
    arrivals: ArrivalProcess
    spike_users: int
    spike_hold_s: float
    search_requests: int
    """Of a knee search: 0 is no bound."""
    down_sweep: bool
    max_requests: int
    """Logical requests of the fleet, warm-up included, after which the run ends; 0: no bound."""
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
    retrying: Retrying
    quota_stop: int
    """The run ends after so many answers in a row that say the quota is used up; 0: never."""
    leaving: Leaving
    prices: Prices
    budget: float
    """The run ends before it has cost more than this; 0: no bound."""
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
    traceparent: str
    """One of ``metrics.trace_context.SAMPLINGS``."""
    runs_dir: str
    run_name: str | None
    records_on_workers: bool
    """Rows of requests stay in the spools: the master gets counts and histograms only."""
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
        take = OptionReader(options, read_file)
        shape = take.one_of("shape", SHAPES)
        most = MOST_USERS if shape == "knee" else 1
        users = take.whole("num_users", minimum=1, default=most)
        rates, paced_by_tokens = _rates(take)
        _check_shape(shape, users, rates, options)
        traffic = take.parsed("traffic", parse_traffic)
        prices, budget = _prices(take, options), take.number("budget", -1e-9, 0.0)
        if budget and not prices.given:
            raise SettingsError("--budget: give --price-in and --price-out, or --gpu-hour-price")
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
            paced_by_tokens=paced_by_tokens,
            max_in_flight=take.whole("max_in_flight", minimum=0),
            arrivals=take.parsed("arrivals", parse_arrivals),
            spike_users=take.whole("spike_users", minimum=0) or 4 * users,
            spike_hold_s=take.parsed("spike_hold", parse_hold_s),
            search_requests=take.whole("search_requests", minimum=0),
            down_sweep=take.flag("down_sweep"),
            max_requests=take.whole("max_requests", minimum=0),
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
            retrying=_retrying(take),
            quota_stop=take.whole("quota_stop", minimum=0),
            leaving=Leaving(
                ratio=take.number("cancel_ratio", above=-1e-9, default=0.0, most=1.0),
                after_s=take.distribution("cancel_after"),
            ),
            prices=prices,
            budget=budget,
            slo=take.parsed("slo", parse_slo),
            headers=take.each("header", parse_header),
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
            traceparent=take.one_of("traceparent", SAMPLINGS),
            runs_dir=take.text("runs_dir") or "runs",
            run_name=take.text("run_name") or None,
            records_on_workers=_records_on_workers(take, shape, budget),
            max_fail_ratio=take.number("max_fail_ratio", above=-1e-9, default=0.1),
            options={name: options[name] for name in OPTION_NAMES if name in options},
        )


def _rates(take: OptionReader) -> tuple[tuple[float, ...], bool]:
    """The rates per second, and whether they are of tokens instead of requests."""
    one, several = take.parsed("rate", parse_rates), take.parsed("rates", parse_rates)
    if one and several:
        raise SettingsError("--rate and --rates: give one of them")
    if len(one) > 1:
        raise SettingsError(f"--rate {take.text('rate')!r}: several rates are given with --rates")
    rates = one or several
    units = {rate.of_tokens for rate in rates}
    if len(units) > 1:
        raise SettingsError("--rates: give all of them in requests or all in tokens")
    return tuple(rate.per_s for rate in rates), units == {True}


def _retrying(take: OptionReader) -> Retrying:
    cap_s = take.parsed("retry_cap", parse_hold_s)
    ratio = take.number("retry_budget", above=-1e-9, default=0.0)
    return Retrying(
        retries=take.whole("retries", minimum=0),
        backoff=take.parsed("backoff", lambda text: parse_backoff(text, cap_s)),
        cap_s=cap_s,
        statuses=take.parsed("retry_on", parse_retry_on),
        budget_ratio=ratio or None,
    )


def _prices(take: OptionReader, options: Mapping[str, Any]) -> Prices:
    for name in ("price_in", "price_cached", "price_out", "gpu_hour_price"):
        take.number(name, above=-1e-9, default=0.0)
    take.whole("gpus", minimum=1, default=1)
    try:
        return Prices.from_options(options)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _records_on_workers(take: OptionReader, shape: str, budget: float) -> bool:
    kept_there = take.one_of("records", RECORDS) == "workers"
    if kept_there and (reader := rows_read_by(shape, budget)) is not None:
        raise SettingsError(
            f"--records workers: {reader} reads the rows while the run goes on; leave one of "
            "the two out"
        )
    return kept_there


def rows_read_by(shape: str, budget: float) -> str | None:
    """The option for which a master reads the rows of requests as they come; None for none."""
    if shape in SEARCHES:
        return f"--shape {shape}"
    return "--budget" if budget else None


def _check_shape(
    shape: str, users: int, rates_rps: Sequence[float], options: Mapping[str, Any]
) -> None:
    """What a shape cannot do without.

    Raises:
        SettingsError: it is missing, or speaks against the shape.
    """
    if shape == "open-loop" and not rates_rps:
        raise SettingsError("--shape open-loop: give --rate 5 or --rates 2,4,8 (requests/s)")
    if shape not in OPEN_LOOPS and rates_rps:
        raise SettingsError(f"--rate and --rates need --shape open-loop, not {shape}")
    if shape == "limits" and len(rates_rps) > 1:
        raise SettingsError("--shape limits: give its first rate with --rate, not --rates")
    if shape == "soak" and options.get("run_time") is None:
        raise SettingsError("--shape soak: give its length with --run-time, such as -t 10m")
    spike_users = options.get("spike_users") or 4 * users
    if shape == "spike" and int(spike_users) <= users:
        raise SettingsError(f"--spike-users {spike_users}: write more than the {users} of --users")
