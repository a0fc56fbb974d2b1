"""What is needed to make a run again: its command line, and what the command cannot say."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from options import DEFAULTS, OPTION_NAMES, option_flag

_LOCUST_DEFAULTS: Mapping[str, Any] = {"num_users": 1, "spawn_rate": 1, "run_time": None}
_NO_LOAD = ("metrics_port", "metrics_host")
"""They open a port of that machine, and change nothing that is sent."""
_WITHHELD = {
    "header": "header: its value may be a key and is not kept; give it again for {names}",
    "extra_body": "extra body: only its fields are kept; give it again with {names}",
}


def command_line(meta: Mapping[str, Any]) -> str:
    """The command that makes the same load, for a shell; options at their defaults are left out.

    What may be a key is not in it: see :func:`command_notes`.
    """
    settings = meta.get("settings") or {}
    words = [".venv/bin/locust", "--headless", "--host", str(settings.get("host") or meta["url"])]
    model = str(settings.get("model") or meta.get("model") or "")
    for name in OPTION_NAMES:
        if name in ("host", *_WITHHELD, *_NO_LOAD) or name not in settings:
            continue
        value = model if name == "model" else settings[name]
        words += _words(name, value)
    return shlex.join(words)


def _words(name: str, value: Any) -> list[str]:
    default = DEFAULTS.get(name, _LOCUST_DEFAULTS.get(name))
    if value in (None, "", False) or str(value) == str(default):
        return []
    return [option_flag(name)] if value is True else [option_flag(name), str(value)]


def command_notes(meta: Mapping[str, Any]) -> Iterator[str]:
    """What the command line does not say."""
    settings = meta.get("settings") or {}
    for name, text in _WITHHELD.items():
        if settings.get(name):
            yield text.format(names=", ".join(map(str, settings[name])))
    workers = len(meta.get("workers") or ())
    if workers > 1:
        yield (
            f"it was sent by {workers} workers: give it to the master with --master "
            f"--expect-workers {workers}, and start them with --worker"
        )
    if meta.get("seed") is None:
        yield (
            "no seed was set, so the prompts are new in each run, which keeps old answers out of "
            "caches; --seed repeats them"
        )
