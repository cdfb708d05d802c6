"""Conversations of one agent: time and memory to create one, and to have it ready for its first run, beside a plain object.

The plain object has as many slots as a `Conversation`. Each figure is the best of some rounds. The limits are those of
`tests/unit/agent/test_conversation.py`. ``python -m benchmarks conversations``.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from mainspring import Agent, Conversation, tool
from mainspring.env import MemoryEnv
from mainspring.testing import ScriptedModel

COUNT, ROUNDS = 1_000, 7
LIMITS = {"conversation": 1.0, "with its agent": 10.0}
"""Kilobytes."""


class Plain:
    """An object of an application: as many attributes as a conversation, and no more."""

    __slots__ = tuple(Conversation.__slots__)

    def __init__(self, *values: object) -> None:
        for name, value in zip(self.__slots__, values, strict=True):
            setattr(self, name, value)


@tool
async def look(key: str) -> str:
    """Look something up."""
    return key


def measure_one(create: Callable[[], object]) -> tuple[float, float]:
    """Return microseconds and kilobytes of one object."""
    seconds: list[float] = []
    for _ in range(ROUNDS):
        gc.collect()
        started = time.perf_counter()
        kept = [create() for _ in range(COUNT)]
        seconds.append(time.perf_counter() - started)
        del kept
    gc.collect()
    tracemalloc.start()
    kept = [create() for _ in range(COUNT)]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return min(seconds) / COUNT * 1e6, size / COUNT / 1e3


def measure() -> dict[str, tuple[float, float]]:
    """Print the figures, and their ratios to those of the plain object."""
    agent = Agent(ScriptedModel("Hello."), tools=[look], execution=MemoryEnv(), deps_type=str)
    values: list[Any] = [None] * len(Plain.__slots__)

    def create_ready() -> object:
        conversation = agent.conversation(deps="ada")
        _ = conversation.agent
        return conversation

    _ = create_ready()
    found = {
        "plain object": measure_one(lambda: Plain(*values)),
        "conversation": measure_one(lambda: agent.conversation(deps="ada")),
        "with its agent": measure_one(create_ready),
    }
    print(f"{'conversations':<16}{'us each':>10}{'ratio':>8}{'KB each':>10}{'ratio':>8}{'limit KB':>10}")
    base_time, base_size = found["plain object"]
    for name, (micros, size) in found.items():
        print(
            f"{name:<16}{micros:>10.1f}{micros / base_time:>8.1f}{size:>10.2f}{size / base_size:>8.1f}{LIMITS.get(name, ''):>10}"
        )
    return found


if __name__ == "__main__":
    measure()
