"""Reads the values of options one at a time; an error names the option, the value, what to write.

The options are those of ``options.py`` as Locust parsed them: texts, numbers and flags.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from options import option_flag
from workloads.lengths import Distribution, parse_distribution

T = TypeVar("T")


class SettingsError(ValueError):
    """An option's value cannot be used; the text names the option, the value and what to write."""


class OptionReader:
    """Reads one option at a time and names it in the error."""

    def __init__(self, options: Mapping[str, Any], read_file: Callable[[str], str]) -> None:
        self._options = options
        self._read_file = read_file

    def text(self, name: str) -> str:
        """The option as text; empty when it is not there."""
        value = self._options.get(name)
        return "" if value is None else str(value)

    def flag(self, name: str) -> bool:
        """Whether a switch is on."""
        return bool(self._options.get(name))

    def parsed(self, name: str, parse: Callable[[str], T]) -> T:
        """What ``parse`` makes of the text; its ValueError or OSError becomes ours."""
        try:
            return parse(self.text(name))
        except OSError as error:
            reason = f"{error.filename}: {error.strerror}" if error.strerror else str(error)
            raise SettingsError(f"{option_flag(name)}: {reason}") from None
        except ValueError as error:
            raise SettingsError(f"{option_flag(name)}: {error}") from None

    def each(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """What ``parse`` makes of each value of an option that may be repeated."""
        try:
            return tuple(parse(text) for text in self._options.get(name) or ())
        except ValueError as error:
            raise SettingsError(f"{option_flag(name)} {error}") from None

    def distribution(self, name: str) -> Distribution:
        """A distribution of lengths or times."""
        return self.parsed(name, lambda text: parse_distribution(text, read_file=self._read_file))

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """One of these texts."""
        value = self.text(name)
        if value not in choices:
            known = ", ".join(choice for choice in choices if choice)
            raise SettingsError(f"{option_flag(name)} {value!r}: write one of {known}")
        return value

    def whole(self, name: str, minimum: int, default: int = 0) -> int:
        """A whole number from ``minimum`` on."""
        value = self._options.get(name)
        try:
            number = default if value is None else int(value)
        except (TypeError, ValueError):
            raise SettingsError(f"{option_flag(name)} {value!r}: write a whole number") from None
        if number < minimum:
            raise SettingsError(f"{option_flag(name)} {number}: write {minimum} or more")
        return number

    def number(self, name: str, above: float, default: float, most: float | None = None) -> float:
        """A finite number over ``above``, and ``most`` at most."""
        value = self._options.get(name)
        try:
            number = default if value is None else float(value)
        except (TypeError, ValueError):
            raise SettingsError(f"{option_flag(name)} {value!r}: write a number") from None
        if not above < number < math.inf:
            raise SettingsError(
                f"{option_flag(name)} {number}: write a number over {max(above, 0):g}"
            )
        if most is not None and number > most:
            raise SettingsError(f"{option_flag(name)} {number}: write {most:g} at most")
        return number

    def optional_number(self, name: str) -> float | None:
        """A number over 0, or None when it is not there."""
        return None if self._options.get(name) is None else self.number(name, 0.0, 0.0)
