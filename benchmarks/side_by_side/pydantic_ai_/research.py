"""A research pipeline: a planner, parallel researchers, a writer, and a reviewer who may send the report back."""

import asyncio
import os
import sys
from dataclasses import dataclass

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

MODEL = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=os.environ["SERVER"], api_key="none"))


@dataclass
class Plan:
    questions: list[str]


@dataclass
class Finding:
    question: str
    facts: list[str]


@dataclass
class Review:
    accepted: bool
    comment: str


planner = Agent(MODEL, instructions="Split the topic into questions.", output_type=Plan)
researcher = Agent(MODEL, instructions="Answer with facts.", output_type=Finding)
writer = Agent(MODEL, instructions="Write a report.")
reviewer = Agent(MODEL, instructions="Review the report.", output_type=Review)


async def research(question: str) -> Finding:
    return (await researcher.run(question)).output


async def write_report(topic: str, max_drafts: int = 3) -> str:
    plan = (await planner.run(topic)).output
    findings = await asyncio.gather(*map(research, plan.questions))
    written = await writer.run(f"{topic}: {findings}")
    for _ in range(max_drafts - 1):
        review = (await reviewer.run(written.output)).output
        if review.accepted:
            break
        written = await writer.run(review.comment, message_history=written.all_messages())
    return written.output


if __name__ == "__main__":
    print(asyncio.run(write_report(sys.argv[1])))
