"""An extension that asks before dangerous calls, whichever tool makes them, and prints each result.

The command loads it from `~/.agent/extensions/guardrails.py`, and calls `extension` there.
"""

import asyncio
import json
import re

from mainspring import Agent, ModelProvider, tool
from mainspring.extensions import (
    ExtensionAPI,
    ExtensionContext,
    Extensions,
    ToolCallEvent,
    ToolResultEvent,
    UserInterface,
)

PATTERNS = [
    re.compile(r"rm\s+-rf\s+/"),
    re.compile(r"drop\s+database", re.IGNORECASE),
    re.compile(r"delete\s+from\s+\w+\s*;", re.IGNORECASE),
]


def extension(api: ExtensionAPI) -> None:
    @api.on("tool_call")
    async def check(event: ToolCallEvent, ctx: ExtensionContext) -> dict[str, object] | None:
        text = json.dumps(event.input)
        if any(pattern.search(text) for pattern in PATTERNS):
            if not await ctx.ui.confirm(f"Run {event.tool_name}?", text):
                return {"block": True, "reason": "Blocked by guardrails"}
        return None

    @api.on(ToolResultEvent)
    def audit(event: ToolResultEvent) -> None:
        print(f"{event.tool_name}: {'FAILED' if event.is_error else 'OK'}")


@tool
async def query(sql: str) -> str:
    """Run a statement in the database."""
    return f"done: {sql}"


async def main(model: ModelProvider | str | None = None, ui: UserInterface | None = None) -> str:
    agent = Agent(model, tools=[query], extensions=Extensions([extension], ui=ui))
    result = await agent.run("Delete the database of the tests.")
    print(result.text)
    return result.text


if __name__ == "__main__":
    asyncio.run(main())
