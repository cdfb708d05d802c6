"""Tokens and cost of a model call, in one form for all providers."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from mainspring.lazy import lazy_function

_attribute_error = lazy_function("mainspring.errors", "attribute_error")
_misuse_error = lazy_function("mainspring.errors", "misuse_error")


class Cost(Struct, frozen=True, gc=False, omit_defaults=True):
    """US dollars by category. Compare it with a number, which is its total: ``result.cost < 0.5``."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def total(self) -> float:
        """Return the sum, in US dollars."""
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def is_known(self) -> bool:
        """Return False for the cost of calls without a known price: its total is not a number, and no comparison is true."""
        return self.total == self.total

    def __repr__(self) -> str:
        """Return the categories that are not 0, rounded: users print the cost of a result."""
        parts = [f"{name}={value:.6g}" for name in self.__struct_fields__ if (value := getattr(self, name))]
        return f"Cost({', '.join(parts) if self.is_known else 'unknown'})"

    def __float__(self) -> float:
        return self.total

    def __lt__(self, other: Cost | float) -> bool:
        return self.total < float(other)

    def __le__(self, other: Cost | float) -> bool:
        return self.total <= float(other)

    def __gt__(self, other: Cost | float) -> bool:
        return self.total > float(other)

    def __ge__(self, other: Cost | float) -> bool:
        return self.total >= float(other)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


UNKNOWN_COST = Cost(nan, nan, nan, nan)
"""The cost of calls without a known price, which is not the same as free."""


class Usage(Struct, frozen=True, gc=False, omit_defaults=True):
    """Token counts. The input excludes tokens read from or written to a cache, so nothing is counted twice.

    Attributes:
        input_tokens: Prompt tokens outside any cache.
        output_tokens: Generated tokens, including reasoning.
        cache_read: Prompt tokens read from the provider's cache.
        cache_write: Prompt tokens written to it.
        reasoning_tokens: Reasoning tokens within ``output_tokens``, if reported.
        cost: The cost of the calls with a known price; ``None`` if no price is known (which is not the same as free).
        unpriced_calls: In a sum, the number of calls with an unknown price, which ``cost`` excludes.
        estimated_calls: Number of calls that ended early, so that their tokens and cost are partly estimates.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning_tokens: int = 0
    cost: Cost | None = None
    unpriced_calls: int = 0
    estimated_calls: int = 0

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> object:
            raise _attribute_error(self, "Usage", name)

        def __call__(self) -> object:
            """Raise the error of ``result.usage()``."""
            raise _misuse_error("Usage", "call", "is not callable")

    def __repr__(self) -> str:
        """Return the counts that are not 0, and the cost."""
        values = [(name, getattr(self, name)) for name in self.__struct_fields__]
        return f"Usage({', '.join(f'{name}={value!r}' for name, value in values if value)})"

    @property
    def prompt_tokens(self) -> int:
        """Return all prompt tokens, cached or not."""
        return self.input_tokens + self.cache_read + self.cache_write

    @property
    def completion_tokens(self) -> int:
        """Return ``output_tokens``."""
        return self.output_tokens

    @property
    def total_tokens(self) -> int:
        """Return prompt and completion tokens together."""
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        a, b = self.cost, other.cost
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.reasoning_tokens + other.reasoning_tokens,
            # The unknown price of one call does not hide the known cost of the others.
            a + b if a and b else (a if not other.total_tokens else b if not self.total_tokens else a or b),
            self.count_unpriced() + other.count_unpriced(),
            self.estimated_calls + other.estimated_calls,
        )

    def count_unpriced(self) -> int:
        """Return the number of calls with an unknown price; a single call does not count itself."""
        return self.unpriced_calls or int(self.cost is None and self.total_tokens > 0)

    @classmethod
    def zero(cls) -> Self:
        """Return a usage of no tokens and no cost."""
        return cls(cost=Cost())
