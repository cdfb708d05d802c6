"""The scripted runs whose output is recorded, and the tools, the model, and the subagent that they use."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from msgspec import Struct

from mainspring.errors import RateLimitedError
from mainspring.messages import Cost, Usage
from mainspring.models import RetryConfig
from mainspring.subagents import AgentDefinition
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from mainspring.tools import tool

SUBAGENT = AgentDefinition(name="scout", description="Looks things up.", system="Look things up.", tools=("look",))
RETRY = RetryConfig(max_retries=2, base_delay_seconds=0.001, jitter=0.0)

_USAGE = Usage(120, 8, cache_read=40, reasoning_tokens=2, cost=Cost(0.0036, 0.0012, 0.0001))


class Run(Struct, frozen=True):
    """A scripted run.

    Attributes:
        script: The responses of the model, for the agent and its subagent.
        hangs: Whether the model hangs after its first piece of text, so that the run must be aborted.
        resumed: The responses after a restart. If set, the run is not aborted but resumed by another worker.
    """

    script: tuple[Any, ...]
    hangs: bool = False
    resumed: tuple[Any, ...] = ()

    def make_model(self) -> ScriptedModel:
        """Create the model of the run."""
        return HangingModel(*self.script) if self.hangs else ScriptedModel(*self.script)


class HangingModel(ScriptedModel):
    """A scripted model that hangs after its first piece of text."""

    async def stream(self, request: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(super().stream(request)) as events:
            async for event in events:
                yield event
                if event.type == "text_delta":
                    await asyncio.Event().wait()


@tool(idempotent=True, access=lambda arguments: ())
async def look(key: str) -> str:
    """Look something up."""
    return f"value of {key}"


@tool
async def note(text: str) -> str:
    """Note something. Every recorded run denies this call."""
    return f"noted {text}"


PROMPT = "What is a?"
RUNS = {
    "plain": Run((Reply("It is one.", thinking="An easy question.", usage=_USAGE),)),
    "tools": Run(
        (
            Reply(
                "Let me look.",
                calls=[ScriptedCall("look", {"key": "a"}, "call-a"), ScriptedCall("note", {"text": "b"}, "call-b")],
                usage=_USAGE,
            ),
            Reply("The note was denied.", usage=_USAGE),
        )
    ),
    "subagent": Run(
        (
            Reply(calls=[ScriptedCall("spawn", {"task": "Look up a.", "agent": "scout"}, "call-s")], usage=_USAGE),
            Reply("I look.", calls=[ScriptedCall("look", {"key": "a"}, "call-c")], usage=_USAGE),
            Reply("Found it.", usage=_USAGE),
            Reply("The scout found it.", usage=_USAGE),
        )
    ),
    "abort": Run((Reply("It is a long story.", chunk_count=2),), hangs=True),
    "retry": Run((RateLimitedError("too many requests", retry_after=0.001), Reply("It is one.", usage=_USAGE))),
}
DURABLE_RUNS = {
    **RUNS,
    "restart": Run(
        (ScriptedCall("look", {"key": "a"}, "call-a"), Reply("It is a long story.", chunk_count=2)),
        hangs=True,
        resumed=(Reply("It is one.", usage=_USAGE),),
    ),
}
"""Runs of a service; unlike other runs, they can be resumed after a restart."""
