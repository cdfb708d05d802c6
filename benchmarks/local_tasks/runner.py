"""Runs a set of tasks on an embedded model through the real agent, and keeps what was said and done."""

import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.local_tasks.task import Task, TaskSet
from mainspring import Agent, RunOptions
from mainspring.messages import Message, ToolResultBlock, ToolUseBlock, Usage
from mainspring.models.embedded import EmbeddedModel
from mainspring.permissions import Permissions, RuleSet
from mainspring.tools.builtin import builtin_tools

OFFERED = ("read_file", "list_files", "grep")
"""What the command offers a small model by itself."""

MOST_TURNS = 12
MOST_SECONDS = 600


@dataclass
class Outcome:
    """How a task went."""

    task: Task
    right: bool = False
    answer: str = ""
    steps: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0


async def run_task(model: EmbeddedModel, task: Task, tasks: TaskSet) -> Outcome:
    """One task in a folder of its own."""
    outcome = Outcome(task)
    with tempfile.TemporaryDirectory() as folder:
        tasks.lay(Path(folder))
        rules = RuleSet.build(allow=list(task.allow))
        agent = Agent(
            model,
            tools=[tool for tool in builtin_tools() if tool.name in {*OFFERED, *task.allow}],
            execution=folder,
            permissions=Permissions(rules=rules, root=folder),
            behavior=RunOptions(max_turns=MOST_TURNS, max_seconds=MOST_SECONDS),
        )
        begin = time.perf_counter()
        try:
            result = await agent.run(task.question)
        except Exception as error:  # noqa: BLE001 - a failed run is a wrong answer, and is shown
            outcome.steps.append(f"failed: {error}")
        else:
            outcome.answer, outcome.usage = result.text, result.usage
        outcome.seconds = time.perf_counter() - begin
        outcome.steps = [*steps_of(agent.messages), *outcome.steps]
        looked = any(isinstance(m, Message) and m.tool_uses for m in agent.messages)
        outcome.right = looked and bool(outcome.answer) and task.check(outcome.answer, Path(folder))
    return outcome


def steps_of(messages: object) -> list[str]:
    """The calls, results and answers, a line or a few each."""
    steps: list[str] = []
    for message in messages:
        for block in message.content if isinstance(message, Message) else ():
            if isinstance(block, ToolUseBlock):
                steps.append(f"calls {block.name} {block.input}")
            elif isinstance(block, ToolResultBlock):
                steps.append(f"{'error' if block.is_error else 'result'}: {block.text}")
            elif message.role == "assistant":
                steps.append(f"says: {getattr(block, 'text', '')}")
    return steps


async def run_set(model: EmbeddedModel, tasks: TaskSet, only: tuple[str, ...] = ()) -> list[Outcome]:
    """All tasks of a set, one after the other, on one server."""
    outcomes: list[Outcome] = []
    for task in tasks.tasks:
        if not only or task.name in only:
            outcome = await run_task(model, task, tasks)
            outcomes.append(outcome)
            print(
                f"{'right' if outcome.right else 'WRONG':6} {task.name:12} {outcome.seconds:6.1f} s  {(outcome.answer or outcome.steps[-1])[:100]!r}"
            )
    return outcomes


def transcript(model: EmbeddedModel, tasks: TaskSet, outcomes: list[Outcome]) -> str:
    """The record of a run as Markdown."""
    right = sum(outcome.right for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    lines = [
        f"# {model.info.label}: the {tasks.name} ten",
        "",
        f"{right} of {len(outcomes)} ended right, {seconds:.0f} s in all, temperature 0, one run.",
    ]
    for outcome in outcomes:
        usage = outcome.usage
        lines += [
            "",
            f"## {outcome.task.name}: {'right' if outcome.right else 'wrong'}",
            "",
            f"{outcome.seconds:.1f} s; {usage.input_tokens} prompt tokens read, {usage.cache_read} from the cache, "
            f"{usage.output_tokens} written",
            "",
            "```",
            f"asked: {outcome.task.question}",
            *outcome.steps,
            "```",
        ]
    return "\n".join(lines) + "\n"


async def main(name: str, tasks: TaskSet, folder: Path | None, only: tuple[str, ...] = ()) -> int:
    """Fetch the model if need be, run the set, write the transcript; returns how many ended right."""
    from mainspring.models.embedded import create_embedded_model as create_embedded

    model = create_embedded({"model": name})
    try:
        await model.download()
        outcomes = await run_set(model, tasks, only)
    finally:
        await model.aclose()
    right = sum(outcome.right for outcome in outcomes)
    print(f"{name}, {tasks.name} ten: {right} of {len(outcomes)} right, {sum(o.seconds for o in outcomes):.0f} s")
    if folder is not None:
        await asyncio.to_thread(
            (folder / f"{tasks.name}-{name}.md").write_text, transcript(model, tasks, outcomes), encoding="utf-8"
        )
    return right
