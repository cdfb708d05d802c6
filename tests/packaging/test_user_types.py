"""A user's type checker reports nothing about good programs (``typed_*.py``) and every mistake of bad ones."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

BAD = """# pyright: strict
from mainspring import Agent, Permissions, tool
from mainspring import Agnet
from mainspring.models import create_modle
from mainspring.messages import Mesage

agent = Agent("openai:gpt-5-mini", sytem="y")
Agent("openai:gpt-5-mini", eagre=True)
Permissions(denny=["x"])
agent.run_sync("go", behaviour=None)
agent.stream("go", raise_errors=False)
agent.run_sync("go").output_as(int).upper()

@tool
async def forecast(city: str, days: int = 1) -> str:
    return city * days

async def main() -> None:
    await forecast(5)
    await forecast("Oslo", day=2)
    await forecast()
    (await forecast("Oslo")).value.append("x")
"""

MISTAKES = """# pyright: strict
from dataclasses import dataclass
from mainspring import Agent, RunContext, ToolContext, tool
from mainspring.tools.toolset import Toolset


@dataclass
class Report:
    title: str


@dataclass
class Refusal:
    reason: str


class Db:
    name = "main"


class Queue: ...


def takes_number(number: int) -> None: ...


def other_prompt(ctx: RunContext[Queue]) -> str:
    return "go"


@tool
async def look(ctx: ToolContext[Db], key: str) -> str:
    if ctx.spawn is not None:
        print((await ctx.spawn("go", output_type=Report)).output.reason)  # mistake: a field of another output
    return ctx.deps.nmae  # mistake: a misspelled field of the dependencies


@tool
def count(ctx: ToolContext[Queue], key: str) -> int:
    return len(key)


def plain_count(ctx: ToolContext[Queue], key: str) -> int:
    return len(key)


def check_tools() -> None:
    Agent("openai:gpt-5-mini", deps_type=Db, tools=[count])  # mistake: a tool for other dependencies
    Agent("openai:gpt-5-mini", deps_type=Db, tools=[look, count])  # mistake: one of the tools
    Agent("openai:gpt-5-mini", deps_type=Db, tools=[plain_count])  # mistake: a function for other dependencies
    Agent("openai:gpt-5-mini", deps_type=Db, tools=Toolset([count]).prefix("q_"))  # mistake: a set for other dependencies
    counter = Agent("openai:gpt-5-mini", deps_type=Queue)
    Agent("openai:gpt-5-mini", deps_type=Db, tools=[counter.as_tool("counter")])  # mistake: an agent with other ones
    counts = Toolset([plain_count])
    Agent("openai:gpt-5-mini", deps_type=Db, tools=[look, counts])  # mistake: a set in a list
    Toolset([look]).combine(counts)  # mistake: a set for other dependencies


async def main(db: Db) -> None:
    agent = Agent("openai:gpt-5-mini", deps_type=Db, output_type=Report, tools=[look])
    await agent.run("go")  # mistake: no dependencies
    result = await agent.run("go", deps=Queue())  # mistake: dependencies of another type
    result = await agent.run("go", deps=db)
    print(result.output.pages)  # mistake: an unknown field of the output
    takes_number(result.output.title)  # mistake: a field of another type
    agent.run_sync("go").output  # mistake: no dependencies
    async with agent.stream("go", deps=db) as run:
        async for output in run.outputs():
            print(output.reason)  # mistake: an unknown field of a partial output
        print((await run.result()).output.reason)  # mistake: an unknown field of the output
    Agent("openai:gpt-5-mini", deps_type=Db, system=other_prompt)  # mistake: a system prompt for other dependencies
    refusing: Agent[Db, Refusal] = agent  # mistake: an agent with another output
    print(refusing)
    either = await Agent("openai:gpt-5-mini", output_type=Report | Refusal).run("go")
    print(either.output.title)  # mistake: only one of the outputs has this field
    takes_number((await Agent("openai:gpt-5-mini").run("go")).output)  # mistake: the output is text
    await Agent("openai:gpt-5-mini").run("go", deps=db)  # mistake: an agent without dependencies
    takes_number(result.output_as(list[int]))  # mistake: a list is not a number
    print([message.tool_resluts for message in result.messages])  # mistake: a misspelled field of a message

    queued = Agent("openai:gpt-5-mini", name="queued", deps_type=Queue)
    Agent[Db, str]("openai:gpt-5-mini", deps_type=Db, handoffs=[queued])  # mistake: a handoff to other dependencies

    @agent.output_validator  # mistake: a validator of another output
    def check(output: Refusal) -> Refusal:
        return output

    @agent.output_validator  # mistake: a validator for other dependencies
    def check_queue(ctx: RunContext[Queue], output: Report) -> Report:
        return output

    print(check, check_queue)
"""

GOOD = ("typed_user.py", "typed_agents.py")


def check_with_pyright(files: Sequence[Path], folder: Path) -> set[tuple[str, int]]:
    """Return the file and line of each error."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in found}


def check_with_mypy(files: Sequence[Path], folder: Path) -> set[tuple[str, int]]:
    """Return the file and line of each error."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        str(folder),
        *map(str, files),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert not done.stderr
    return {
        (Path(found[1]).name, int(found[2]))
        for found in re.finditer(r"^(\S+\.py):(\d+): error:", done.stdout, re.MULTILINE)
    }


@pytest.mark.soak
def test_type_checker_finds_misspelled_arguments(repository: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(BAD)
    good = [repository / "tests" / "packaging" / name for name in GOOD]
    assert check_with_pyright([bad, *good], tmp_path) == {
        ("bad.py", line) for line in (*range(3, 6), *range(7, 13), *range(19, 23))
    }


@pytest.mark.soak
def test_type_checker_knows_every_public_name(repository: Path, tmp_path: Path) -> None:
    module, lines = "", ["# pyright: strict, reportDeprecated=false"]
    docs = repository / "docs"
    pages = [docs / "python-api.md", *sorted((docs / "python-api").glob("*.md"))]
    for line in [line for page in pages for line in page.read_text().splitlines()]:
        if line.startswith("## mainspring"):
            module = line[3:]
        elif found := re.match(r"### (\w+)$", line):
            lines.append(f"from {module} import {found[1]} as name{len(lines)}; reveal_type(name{len(lines)})")
    names = tmp_path / "names.py"
    names.write_text("\n".join(lines))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    revealed = [each["message"] for each in json.loads(done.stdout)["generalDiagnostics"]]
    assert len(revealed) == len(lines) - 1 > 600
    assert [
        each for each in revealed if each.endswith(('is "Any"', 'is "Unknown"')) or not each.startswith("Type of")
    ] == []


@pytest.mark.soak
@pytest.mark.parametrize("check", [check_with_pyright, check_with_mypy])
def test_type_checkers_find_every_mistake_with_a_typed_agent(repository: Path, tmp_path: Path, check: Any) -> None:
    bad = tmp_path / "mistakes.py"
    bad.write_text(MISTAKES)
    lines = [number for number, line in enumerate(MISTAKES.splitlines(), 1) if "# mistake: " in line]
    found = check([bad, repository / "tests" / "packaging" / "typed_agents.py"], tmp_path)
    assert len(lines) >= 16
    assert found == {("mistakes.py", line) for line in lines}
