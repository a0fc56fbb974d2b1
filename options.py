"""The options we add to Locust's own: one table, from which parser, web form and names follow.

Locust parses the command line, the environment, ``locust.conf`` and the web form.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from metrics.trace_context import SAMPLINGS

ENV_PREFIX = "SWARMGAUGE_"
SHAPES = ("constant", "ladder", "knee", "soak", "spike", "open-loop", "limits")
OPEN_LOOPS = ("open-loop", "limits")
"""Shapes that offer rates and follow a schedule."""
SEARCHES = ("knee", "limits")
"""Shapes that choose their next stage by what they measured."""
RECORDS = ("master", "workers")
"""Where the rows of requests are kept."""


class Parser(Protocol):
    """What is needed of Locust's argument parser."""

    def add_argument_group(self, title: str, description: str | None = None) -> Any:
        """As argparse has it."""


_TARGET: tuple[tuple[str, Any, str], ...] = (
    ("--model", "", "model name; default: the first that the endpoint lists"),
    ("--traffic", "stream", "weights of the kinds of user, such as stream:8,block:2,sdk:1"),
    ("--header", [], "extra header 'Name: value' or 'Name: env:VARIABLE'; may be repeated"),
    ("--extra-body", "", "JSON object merged into every request body"),
    ("--max-tokens-field", "max_tokens", "max_tokens, max_completion_tokens, both or none"),
    ("--usage", "on", "ask for token usage at the end of streams: on or off"),
    ("--ca-file", "", "certificates to trust beside the system's"),
    ("--insecure", False, "do not verify TLS certificates (the report says so)"),
    (
        "--proxy",
        "auto",
        "auto: the proxy variables, never for the loopback; off: none; or a URL",
    ),
    ("--no-preflight", False, "do not try one request before the load starts"),
    (
        "--traceparent",
        "sampled",
        "header that names each attempt to tracing: sampled or unsampled, as the endpoint is to "
        "take it; off: none (docs/observability.md)",
    ),
)
_LOAD: tuple[tuple[str, Any, str], ...] = (
    (
        "--shape",
        "constant",
        "constant: -u users for -t; ladder: the levels of --stages; knee: searches up to "
        "-u users (256); soak: -u users for a long -t; spike: -u users, a burst, -u users; "
        "open-loop: requests at --rate or --rates; limits: rises until 429s, then brackets what "
        "is allowed",
    ),
    ("--stages", "1,2,4,8,16,24,32", "user counts of a ladder"),
    ("--hold", "12s", "measured time of each stage"),
    ("--settle", "3s", "time after the users are up that is left out"),
    ("--search-requests", 0, "knee: most requests that the search may spend; 0: no bound"),
    ("--down-sweep", False, "knee: hold levels on the way down too, which shows hysteresis"),
    (
        "--rate",
        "",
        "open-loop: what the whole fleet offers, such as 5 (requests/s), 300/min or 90k tokens/min",
    ),
    ("--rates", "", "open-loop: several rates one after the other, such as 2,4,8"),
    ("--arrivals", "poisson", "open-loop: poisson, constant or gamma:CV (CV over 1: in bursts)"),
    ("--spike-users", 0, "spike: user count of the burst; default: four times -u"),
    ("--spike-hold", "10s", "spike: how long the burst lasts"),
    ("--max-requests", 0, "requests of the whole fleet, after which the run ends; 0: no bound"),
    ("--warmup-requests", 0, "first requests of the run, left out of all figures"),
    ("--idle-before", "0s", "cold start: wait this long, then ask three times, before the load"),
    ("--max-in-flight", 0, "most requests under way at once, over the fleet; 0: no bound"),
    ("--think-time", "0", "pause of a user between requests, seconds or a distribution"),
    ("--connect-timeout", "10s", "limit to connect: name, proxy, TCP and TLS together"),
    ("--first-token-timeout", "300s", "limit for the first token, or the whole plain answer"),
    ("--idle-timeout", "60s", "limit between two output chunks"),
    ("--total-timeout", "off", "limit for a whole request"),
    (
        "--gap-sample",
        "auto",
        "share of the streams read chunk by chunk, such as 10%; auto: all up to 200 at once per "
        "process, 10% beyond",
    ),
)
_PROMPTS: tuple[tuple[str, Any, str], ...] = (
    (
        "--prompt-tokens",
        "200",
        "user prompt length: 200, uniform:50-400, normal:200,50, "
        "lognormal:p50=200,p90=900, exponential:200 or file:lengths.csv",
    ),
    ("--output-tokens", "48", "longest answer asked for (max_tokens), as --prompt-tokens"),
    ("--prefixes", 2, "number of shared system prefixes"),
    ("--prefix-tokens", 100, "nominal tokens of each shared prefix"),
    ("--ignore-eos", False, "ask for answers of exactly the asked length (vLLM, llama.cpp)"),
    ("--temperature", "", "sampling temperature; default: the server's own"),
    ("--seed", "", "repeat the same prompts; default: fresh ones for each run"),
)
_RETRIES: tuple[tuple[str, Any, str], ...] = (
    ("--retries", 0, "most retries of one request; 0: none"),
    (
        "--backoff",
        "full-jitter",
        "full-jitter, decorrelated, exponential or fixed, each with a first wait such as "
        "full-jitter:500ms; server: only when it says how long",
    ),
    ("--retry-cap", "30s", "longest wait before a retry; when the server asks for more: give up"),
    (
        "--retry-budget",
        0.0,
        "most retries per request over the users of each worker, such as 0.1; 0: no bound",
    ),
    ("--retry-on", "408,429,500,502,503,504,529", "statuses after which a request is sent again"),
    ("--quota-stop", 10, "end the run after so many answers in a row that the quota is used up"),
    ("--cancel-ratio", 0.0, "share of requests whose user leaves in the middle, such as 0.1"),
    ("--cancel-after", "2", "when they leave: seconds after asking, or a distribution"),
)
_COST: tuple[tuple[str, Any, str], ...] = (
    ("--price-in", 0.0, "price of a million prompt tokens"),
    ("--price-cached", 0.0, "price of a million prompt tokens from the cache; 0: --price-in"),
    ("--price-out", 0.0, "price of a million completion tokens"),
    ("--gpu-hour-price", 0.0, "price of an hour of one GPU, instead of prices of tokens"),
    ("--gpus", 1, "GPUs that serve the endpoint"),
    ("--budget", 0.0, "end the run before it has cost more than this; 0: no bound"),
)
_RESULT: tuple[tuple[str, Any, str], ...] = (
    ("--slo", "", "limits such as ttft_p95<500ms,tpot_p95<50ms,ok>99%"),
    ("--max-fail-ratio", 0.1, "share of failed requests above which the run exits with 1"),
    ("--runs-dir", "runs", "folder that gets one folder for each run"),
    (
        "--records",
        "master",
        "master: its folder gets the row of each request; workers: each keeps its own, for fleets "
        "too large for one master (python -m reports merge brings them together)",
    ),
    ("--run-name", "", "name of the run; default: the shape's"),
    ("--metrics-port", 0, "port on which the master answers Prometheus at /metrics; 0: none"),
    ("--metrics-host", "127.0.0.1", "address of that port; it has no login"),
)
_GROUPS = (
    ("Swarmgauge: the endpoint", _TARGET),
    ("Swarmgauge: the load", _LOAD),
    ("Swarmgauge: the prompts", _PROMPTS),
    ("Swarmgauge: retries and leaving users", _RETRIES),
    ("Swarmgauge: the cost", _COST),
    ("Swarmgauge: the result", _RESULT),
)
_CHOICES = {
    "--shape": SHAPES,
    "--usage": ("on", "off"),
    "--records": RECORDS,
    "--traceparent": SAMPLINGS,
    "--max-tokens-field": ("max_tokens", "max_completion_tokens", "both", "none"),
}
_HIDDEN_FLAGS = frozenset(
    {"--header", "--ca-file", "--proxy", "--runs-dir", "--metrics-port", "--metrics-host"}
)
"""These may hold keys, and Locust shows the form's values in its page's source; or they are read
once, as the process starts."""

NOT_IN_FORM = frozenset(flag[2:].replace("-", "_") for flag in _HIDDEN_FLAGS)

OPTION_NAMES: tuple[str, ...] = (
    "host",
    "num_users",
    "spawn_rate",
    "run_time",
    *(flag[2:].replace("-", "_") for _, group in _GROUPS for flag, _, _ in group),
)

DEFAULTS: Mapping[str, Any] = {
    flag[2:].replace("-", "_"): default for _, group in _GROUPS for flag, default, _ in group
}
"""Of our own options, by name."""


def form_groups() -> list[dict[str, Any]]:
    """The options that the page's form shows, by group: its title, and the names in order."""
    shown = {
        title.removeprefix("Swarmgauge: ").capitalize(): [
            flag[2:].replace("-", "_") for flag, _, _ in group if flag not in _HIDDEN_FLAGS
        ]
        for title, group in _GROUPS
    }
    return [{"title": title, "options": names} for title, names in shown.items()]


def add_arguments(parser: Parser) -> None:
    """Add our options to Locust's parser; each is also ``SWARMGAUGE_<NAME>`` in the environment.

    Defaults are typed, because the web form keeps the type of the default.
    """
    for title, group in _GROUPS:
        arguments = parser.add_argument_group(title)
        for flag, default, text in group:
            keywords: dict[str, Any] = {"default": default, "help": text}
            if isinstance(default, bool):
                keywords["action"] = "store_true"
            elif isinstance(default, list):
                keywords["action"] = "append"
            else:
                keywords["type"] = type(default)
            if flag in _CHOICES:
                keywords["choices"] = list(_CHOICES[flag])
            action = arguments.add_argument(
                flag, env_var=ENV_PREFIX + flag[2:].replace("-", "_").upper(), **keywords
            )
            action.include_in_web_ui = flag not in _HIDDEN_FLAGS


def option_flag(name: str) -> str:
    """The command-line spelling of an option's name, for messages."""
    return {"num_users": "--users"}.get(name, "--" + name.replace("_", "-"))


def option_table() -> str:
    """All our options with their defaults, as text for a terminal."""
    lines = []
    for title, group in _GROUPS:
        lines += ["", title]
        for flag, default, text in group:
            shown = "" if default in ("", False, []) else f" (default {default})"
            lines.append(f"  {flag:24}{text}{shown}")
    return "\n".join(lines).strip()


if __name__ == "__main__":
    # Locust prints its help before it knows of a locustfile's options.
    print(option_table())
