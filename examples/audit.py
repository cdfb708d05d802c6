"""A plugin: it records every call and denies some. Sessions and permissions use the same interface."""

import asyncio
from typing import Self

from mainspring import Agent, CoreAgent, ModelProvider, PermissionCheck, ToolFinished, tool


class Audit:
    """Keeps a list of calls; refuses tools by name."""

    def __init__(self, *forbidden: str) -> None:
        self.log: list[str] = []
        self.forbidden = forbidden

    def install(self, agent: CoreAgent) -> None:
        agent.on(PermissionCheck, self.judge)
        agent.on(ToolFinished, self.note)

    def for_child(self) -> Self:
        return self  # a sub-agent is watched by the same one

    async def judge(self, ctx: PermissionCheck) -> None:
        if ctx.name in self.forbidden:
            self.log.append(f"refused {ctx.name}")
            ctx.deny(f"{ctx.name} is not allowed here")

    async def note(self, ctx: ToolFinished) -> None:
        self.log.append(f"{ctx.name} {'failed' if ctx.is_error else 'ok'} after {ctx.seconds:.3f} s")


@tool
async def launch(site: str) -> str:
    """Launch a site."""
    return f"{site} is live"


@tool
async def status(site: str) -> str:
    """Status of a site."""
    return f"{site} is ready"


async def main(model: ModelProvider | str | None = None) -> list[str]:
    audit = Audit("launch")
    agent = Agent(model, tools=[launch, status], plugs=[audit])
    print((await agent.run("Look at the status of example.org, then launch it.")).text)
    print("\n".join(audit.log))
    return audit.log


if __name__ == "__main__":
    asyncio.run(main())
