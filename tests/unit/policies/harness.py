"""An agent in an in-memory project, and the results of its tool calls."""

from collections.abc import Iterable, Mapping
from typing import Any

from mainspring import Agent, Message, RunOptions, ToolResultBlock
from mainspring.env import ExecutionEnv
from mainspring.env.memory import MemoryEnv
from mainspring.messages import AgentMessage, ToolUseBlock
from mainspring.models import ModelRequest
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Tool
from mainspring.tools.builtin import builtin_tools

TOOLS: dict[str, Tool] = {t.name: t for t in builtin_tools()}


def project(**files: str) -> MemoryEnv:
    """Return a project with these files; ``__`` in a name stands for a dot."""
    return MemoryEnv({name.replace("__", "."): text for name, text in files.items()})


def make_agent(*script: Any, env: ExecutionEnv | None = None, tools: Iterable[Any] = (), **options: Any) -> Agent:
    """Create an agent with a script; fields of `RunOptions` are passed by name."""
    names = set(RunOptions.declared)
    behavior = RunOptions(**{n: v for n, v in options.items() if n in names})
    rest = {n: v for n, v in options.items() if n not in names}
    given = list(tools) or list(TOOLS.values())
    model = ScriptedModel(*script)
    return Agent(model, execution=env or MemoryEnv({}), tools=given, behavior=behavior, **rest)


def model_of(agent: Agent) -> ScriptedModel:
    """Return the scripted model of an agent."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def requests(agent: Agent) -> list[ModelRequest]:
    """Return the requests that an agent sent to its model."""
    return [seen.request for seen in model_of(agent).requests]


def results(messages: Iterable[AgentMessage]) -> list[ToolResultBlock]:
    """Return all tool results, in order."""
    return [b for m in messages if isinstance(m, Message) for b in m.tool_results]


def texts(messages: Iterable[AgentMessage]) -> list[str]:
    """Return the texts of all tool results."""
    return [b.text for b in results(messages)]


def words(messages: Iterable[AgentMessage]) -> list[str]:
    """Return the texts of all user messages."""
    return [m.text for m in messages if isinstance(m, Message) and m.role == "user" and m.text]


def read(path: str, **more: Any) -> ScriptedCall:
    """Return a call of `read_file`."""
    return ScriptedCall("read_file", {"path": path, **more})


def edit(path: str, old: str, new: str) -> ScriptedCall:
    """Return a call of `edit`."""
    return ScriptedCall("edit", {"path": path, "old_string": old, "new_string": new})


def write(path: str, content: str) -> ScriptedCall:
    """Return a call of `write_file`."""
    return ScriptedCall("write_file", {"path": path, "content": content})


def turn(*answers: tuple[str, str, Mapping[str, Any] | None], number: int = 0) -> tuple[Message, Message]:
    """Return the messages of a turn; each argument is a tool, the text of its result, and its details."""
    ids = [f"c{number}_{i}" for i in range(len(answers))]
    calls = [ToolUseBlock(id, tool) for id, (tool, _, _) in zip(ids, answers, strict=True)]
    blocks = [
        ToolResultBlock(id, tool, text, details=None if details is None else dict(details))
        for id, (tool, text, details) in zip(ids, answers, strict=True)
    ]
    return Message.assistant(calls), Message.user(blocks)
