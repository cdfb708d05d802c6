"""A tool from a plain function: the signature is its schema, the docstring its description."""

import asyncio

from mainspring import Agent, ModelProvider, tool


@tool
async def forecast(city: str, days: int = 1) -> str:
    """Forecast for a city.

    Args:
        city: Name of the city.
        days: How many days ahead, 1 to 7.
    """
    return f"{city}: rain, 8 degrees, for {days} day(s)"


async def main(model: ModelProvider | str | None = None) -> str:
    agent = Agent(model, system="Answer in one sentence.", tools=[forecast])
    result = await agent.run("What should I pack for two days in Oslo?")
    print(result.text)
    print(f"{result.turns} model calls, {result.usage.total_tokens} tokens")
    return result.text


if __name__ == "__main__":
    asyncio.run(main())
