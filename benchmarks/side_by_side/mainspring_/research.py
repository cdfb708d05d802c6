"""A research pipeline: a planner, parallel researchers, a writer, and a reviewer who may send the report back."""

import asyncio
import os
import sys
from dataclasses import dataclass

from mainspring import Agent
from mainspring.models import create_model

MODEL = create_model("openai:scripted", base_url=os.environ["SERVER"], api_key="none")


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


async def research(question: str) -> Finding:
    researcher = Agent(MODEL, system="Answer with facts.", output_type=Finding)
    return (await researcher.run(question)).output


async def write_report(topic: str, max_drafts: int = 3) -> str:
    planner = Agent(MODEL, system="Split the topic into questions.", output_type=Plan)
    plan = (await planner.run(topic)).output
    findings = await asyncio.gather(*map(research, plan.questions))
    writer = Agent(MODEL, system="Write a report.")
    draft = (await writer.run(f"{topic}: {findings}")).output
    for _ in range(max_drafts - 1):
        reviewer = Agent(MODEL, system="Review the report.", output_type=Review)
        review = (await reviewer.run(draft)).output
        if review.accepted:
            break
        draft = (await writer.run(review.comment)).output
    return draft


if __name__ == "__main__":
    print(asyncio.run(write_report(sys.argv[1])))
