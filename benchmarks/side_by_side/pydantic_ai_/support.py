"""A support agent: dependencies, a tool, typed outputs, a validator, and a handoff to billing."""

import asyncio
import os
import sys
from dataclasses import dataclass, field

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

MODEL = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=os.environ["SERVER"], api_key="none"))


@dataclass
class Shop:
    name: str = "Books"
    paid: dict[int, float] = field(default_factory=lambda: {7: 12.5})

    async def find_payment(self, order: int) -> float:
        return self.paid[order]


@dataclass
class Answer:
    text: str


@dataclass
class Refund:
    order: int
    dollars: float


async def find_payment(ctx: RunContext[Shop], order: int) -> str:
    """Find the payment of an order."""
    return f"{await ctx.deps.find_payment(order)} dollars"


billing = Agent(MODEL, deps_type=Shop, output_type=Refund, instructions="You refund orders.", tools=[find_payment])


@billing.output_validator
async def check(ctx: RunContext[Shop], refund: Refund) -> Refund:
    if refund.dollars > await ctx.deps.find_payment(refund.order):
        raise ModelRetry("This is more than the customer paid.")
    return refund


async def transfer_to_billing(ctx: RunContext[Shop], request: str) -> Refund:
    """Hand the conversation over to billing."""
    result = await billing.run(request, message_history=ctx.messages[:-1], deps=ctx.deps, usage=ctx.usage)
    return result.output


support = Agent[Shop, Answer | Refund](MODEL, deps_type=Shop, output_type=[Answer, transfer_to_billing])


@support.instructions
def prompt(ctx: RunContext[Shop]) -> str:
    return f"You answer customers of {ctx.deps.name}."


async def main(question: str) -> None:
    result = await support.run(question, deps=Shop())
    if isinstance(result.output, Refund):
        print(f"refund of {result.output.dollars} dollars for order {result.output.order}")
    else:
        print(result.output.text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
