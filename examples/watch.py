"""Every event of a run while it happens; leaving the block early would abort the run cleanly."""

import asyncio

from mainspring import Agent, ModelCallRetry, ModelProvider, TextDelta, ToolExecutionEnd, ToolExecutionStart, tool


@tool
async def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


async def main(model: ModelProvider | str | None = None) -> list[str]:
    seen: list[str] = []
    agent = Agent(model, tools=[word_count])
    async with agent.stream("How many words are in 'the quick brown fox'? Use the tool.") as run:
        async for event in run:
            match event:
                case TextDelta(text=text):
                    print(text, end="", flush=True)
                case ToolExecutionStart(call=call):
                    print(f"[{call.name} {call.input}]")
                case ToolExecutionEnd(result=result, seconds=seconds):
                    print(f"[-> {result.text} in {seconds:.3f} s]")
                case ModelCallRetry(attempt=attempt, delay=delay):
                    print(f"[try {attempt} failed, again in {delay:.0f} s]")
                case _:
                    pass
            seen.append(event.type)
        print(f"\n{(await run.result()).status}")
    return seen


if __name__ == "__main__":
    asyncio.run(main())
