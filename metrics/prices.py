"""Prices of a load, and sums of money as people read them.

Token prices are per million tokens, a GPU's is per hour. The two are ways of paying for the same
load and are never added.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

MILLION = 1e6
HOUR_S = 3600.0


class CostKind(StrEnum):
    """What is paid for."""

    TOKENS = "tokens"
    GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of requests; cached ones are part of the prompt, reasoning of the completion."""

    prompt: float = 0
    cached: float = 0
    completion: float = 0

    @property
    def total(self) -> float:
        """Prompt and completion."""
        return self.prompt + self.completion

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per million tokens and per GPU hour; None is not given, 0 is free.

    Raises:
        ValueError: a price is negative or no number, stands without the one that it needs, or
            there are GPUs without a price.
    """

    per_m_in: float | None = None
    per_m_cached: float | None = None
    """Of prompt tokens from the server's cache; the price of the others when not given."""
    per_m_out: float | None = None
    gpu_hour: float | None = None
    """Of one GPU."""
    gpus: int = 1
    currency: str = "$"

    def __post_init__(self) -> None:
        for option, value in (
            ("--price-in", self.per_m_in),
            ("--price-cached", self.per_m_cached),
            ("--price-out", self.per_m_out),
            ("--gpu-hour-price", self.gpu_hour),
        ):
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{option} {value:g}: a price is a number from 0 up")
        if self.per_m_cached is not None and self.per_m_in is None:
            raise ValueError(
                f"--price-cached {self.per_m_cached:g} without --price-in: "
                "give the price of the other prompt tokens too"
            )
        if (self.per_m_in is None) != (self.per_m_out is None):
            given, other = ("in", "out") if self.per_m_out is None else ("out", "in")
            raise ValueError(
                f"--price-{given} without --price-{other}: a request is billed for both; give both"
            )
        if self.gpus < 1:
            raise ValueError(f"--gpus {self.gpus}: at least 1 GPU serves")
        if self.gpus > 1 and self.gpu_hour is None:
            raise ValueError(f"--gpus {self.gpus} without --gpu-hour-price: give what one costs")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """From our options as they are stored, where 0 or nothing at all means not given.

        Raises:
            ValueError: as for the class itself.
        """

        def given(name: str) -> float | None:
            return float(options.get(name) or 0.0) or None

        return cls(
            per_m_in=given("price_in"),
            per_m_cached=given("price_cached"),
            per_m_out=given("price_out"),
            gpu_hour=given("gpu_hour_price"),
            gpus=int(options.get("gpus", 1)),
        )

    @property
    def kinds(self) -> tuple[CostKind, ...]:
        """The ways of paying that have a price."""
        tokens = () if self.per_m_in is None else (CostKind.TOKENS,)
        return tokens if self.gpu_hour is None else (*tokens, CostKind.GPU)

    @property
    def given(self) -> bool:
        """Whether anything can be said of cost."""
        return bool(self.kinds)

    def of_prompt(self, tokens: Tokens) -> float | None:
        """The cost of the prompts alone; None without token prices."""
        if self.per_m_in is None:
            return None
        cached = min(tokens.cached, tokens.prompt)
        per_m_cached = self.per_m_in if self.per_m_cached is None else self.per_m_cached
        return ((tokens.prompt - cached) * self.per_m_in + cached * per_m_cached) / MILLION

    def of_tokens(self, tokens: Tokens) -> float | None:
        """The cost of prompts and completions; None without token prices."""
        prompt = self.of_prompt(tokens)
        if prompt is None or self.per_m_out is None:
            return None
        return prompt + tokens.completion * self.per_m_out / MILLION

    def of_gpu_time(self, seconds: float) -> float | None:
        """The cost of all GPUs over a time, busy or not; None without their price."""
        if self.gpu_hour is None:
            return None
        return self.gpu_hour * self.gpus * seconds / HOUR_S


def money(value: float | None, currency: str = "$") -> str:
    """A sum as people read it: cents, or two digits where it is less than a cent shows."""
    if value is None:
        return "n/a"
    sign = currency + " " if currency[-1:].isalpha() else currency
    if value == 0:
        return f"{sign}0"
    places = max(2, 1 - math.floor(math.log10(abs(value))))
    return f"{sign}{value:,.{places}f}"
