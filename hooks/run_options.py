"""The options of the next run: as the process was started, and as the page's form changes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locust.env import Environment
from locust.util.timespan import parse_timespan

from hooks.planning import refusal
from options import NOT_IN_FORM, option_flag
from settings import Settings, SettingsError

_LOCUSTS_NAMES = {"user_count": "num_users"}
"""What the form calls otherwise."""


def read_text(path: str) -> str:
    """The text of a file that an option names."""
    return Path(path).read_text(encoding="utf-8")


def checked_settings(options: Mapping[str, Any], workers: int) -> Settings:
    """The settings of a run on so many processes.

    Raises:
        SettingsError: an option that cannot be used, or more users than the processes can carry.
    """
    settings = Settings.from_options(options, read_text)
    trouble = refusal(settings, workers)
    if trouble is not None:
        raise SettingsError(trouble)
    return settings


class RunOptions:
    """Reads Locust's parsed options; ``at_start`` is how they were before any form changed them.

    Locust fills in users and spawn rate of a headless run later: None in ``at_start`` means that
    they were not given.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        options = environment.parsed_options
        self.at_start: dict[str, Any] = dict(vars(options)) if options is not None else {}

    def now(self) -> dict[str, Any]:
        """The options as they stand."""
        options = dict(vars(self._environment.parsed_options))
        options["host"] = self._environment.host or options.get("host") or ""
        return self._without_hidden(options)

    def with_form(self, form: Mapping[str, str]) -> dict[str, Any]:
        """The options as Locust will read them from the page's form.

        Raises:
            SettingsError: a value that is no number where one is wanted, or no time.
        """
        options = self.now()
        for field, value in form.items():
            name = _LOCUSTS_NAMES.get(field, field)
            if name == "run_time":
                options[name] = _timespan(value) if value else options.get(name)
            elif name in ("num_users", "spawn_rate"):
                options[name] = _number(name, value, int if name == "num_users" else float)
            elif name in options:
                options[name] = _typed(name, value, options[name])
        return self._without_hidden(options)

    def _without_hidden(self, options: dict[str, Any]) -> dict[str, Any]:
        # The form does not show these, but whoever reaches the page could send them all the same.
        return {**options, **{name: self.at_start.get(name) for name in NOT_IN_FORM}}


def _typed(name: str, value: str, before: object) -> Any:
    """The form's text as the type that the option has."""
    if isinstance(before, bool):
        return value == "true"
    if isinstance(before, int | float):
        return _number(name, value, type(before))
    return value


def _number(name: str, value: str, kind: type[int | float]) -> int | float:
    try:
        return kind(value)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise SettingsError(f"{option_flag(name)} {value!r}: write {wanted}") from None


def _timespan(value: str) -> int:
    try:
        return int(parse_timespan(value))
    except ValueError:
        wanted = "20s, 3m, 2h or 1h20m"
        raise SettingsError(f"--run-time {value!r}: write for example {wanted}") from None
