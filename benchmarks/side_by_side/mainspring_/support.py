"""A support agent: dependencies, a tool, typed outputs, a validator, and a handoff to billing."""

import asyncio
import os
import sys
from dataclasses import dataclass, field

from mainspring import Agent, RunContext, ToolContext, ToolError, tool
from mainspring.models import create_model

MODEL = create_model("openai:scripted", base_url=os.environ["SERVER"], api_key="none")


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


@tool
async def find_payment(ctx: ToolContext[Shop], order: int) -> str:
    """Find the payment of an order."""
    return f"{await ctx.deps.find_payment(order)} dollars"


def prompt(ctx: RunContext[Shop]) -> str:
    return f"You answer customers of {ctx.deps.name}."


billing = Agent(
    MODEL, name="billing", deps_type=Shop, output_type=Refund, system="You refund orders.", tools=[find_payment]
)


@billing.output_validator
async def check(ctx: RunContext[Shop], refund: Refund) -> Refund:
    if refund.dollars > await ctx.deps.find_payment(refund.order):
        raise ToolError("This is more than the customer paid.")
    return refund


support = Agent(MODEL, deps_type=Shop, output_type=Answer, system=prompt, handoffs=[billing])


async def main(question: str) -> None:
    result = await support.run(question, deps=Shop())
    if isinstance(result.output, Refund):
        print(f"refund of {result.output.dollars} dollars for order {result.output.order}")
    else:
        print(result.output.text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
