"""Every tool of the command declares what it touches, and what touches nothing runs without an approval."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mainspring.app.compose.client_services import ClientServices
from mainspring.app.compose.conversation import open_conversation
from mainspring.env import LocalEnv
from mainspring.loop.hooks import PermissionCheck
from mainspring.mcp import InMemoryConnector, InMemoryServer, McpPlug, McpServerConfig, create_tool_search
from mainspring.mcp.resource_tools import create_resource_tools
from mainspring.messages import ToolUseBlock
from mainspring.permissions import Permissions, Reply
from mainspring.policies.plan_mode import PlanMode
from mainspring.skills.authoring import CreateSkillToolset
from mainspring.testing.scripted_model import ScriptedModel
from mainspring.tools import Tool
from mainspring.tools.builtin import ALL_TOOL_NAMES, builtin_tools
from mainspring.tools.names import SAMPLE_TOOL_NAMES
from tests.unit.app.compose.test_conversation import make_options

TOUCHES_NOTHING = {
    *("ask_user", "present_plan", "todo_read", "todo_write", "jobs", "context_read", "tool_search", "spawn"),
    *("skills_use", "mcp_list_resources", "skills_run_script"),  # the skill is not active
    *SAMPLE_TOOL_NAMES,
}
READS_IN_THE_PROJECT = {"read_file", "list_files", "glob", "grep", "skills_read"}


def sample_value(schema: dict[str, Any]) -> Any:
    """Return a value that a JSON Schema allows."""
    if "enum" in schema:
        return schema["enum"][0]
    kinds: dict[str, Any] = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
    return kinds.get(schema.get("type", ""), "x")


def sample_arguments(tool: Tool) -> dict[str, Any]:
    """Return the required arguments of a tool."""
    if tool.name == "apply_patch":
        return {"patch": "*** Begin Patch\n*** Add File: x\n+x\n*** End Patch"}
    properties = tool.input_schema.get("properties", {})
    return {name: sample_value(properties[name]) for name in tool.input_schema.get("required", ())}


async def own_tools(folder: Path, home: Path) -> list[Tool]:
    """Return all tools that the command can offer, except those of MCP servers and extensions."""
    client = ClientServices(model=ScriptedModel("x"), ask=lambda request: Reply(allow=False))
    environ = {"MAINSPRING_HOME": str(home / ".agent")}
    conversation = await open_conversation(make_options(folder), print, environ, client)
    await conversation.agent.run("hi")  # the tools of skills are added when a run starts
    tools = list(conversation.agent.tools)
    await conversation.aclose()
    mcp = McpPlug([McpServerConfig(name="a", command="-")], connector=InMemoryConnector({"a": InMemoryServer([])}))
    context: Any = SimpleNamespace(skills=SimpleNamespace(config=SimpleNamespace(project=str(folder), user=())))
    more = [
        *builtin_tools(include_optional=True),
        *create_resource_tools(mcp),
        create_tool_search(list, lambda names: None),
        *CreateSkillToolset(context).tools(),
    ]
    return list({t.name: t for t in (*more, *tools)}.values())


async def test_own_tools_declare_what_they_touch(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    tools = await own_tools(folder, home)
    env, permissions, plan = LocalEnv(str(folder)), Permissions(), PlanMode()
    allowed: set[str] = set()
    for tool in tools:
        assert tool.access is not None, f"{tool.name} does not declare what it touches"
        arguments = sample_arguments(tool)
        touched = tuple(tool.access(arguments))
        decision = await permissions.decide(tool.name, arguments, env=env, definition=tool)
        only_reads = all(access.scope == "fs-read" for access in touched)
        assert (decision.outcome == "allow") is only_reads, f"{tool.name}: {decision}"
        if only_reads:
            allowed.add(tool.name)
            call = ToolUseBlock("1", tool.name, arguments)
            hook = PermissionCheck(call, "t", arguments, tool, cast("Any", env))
            assert await plan.refusal_reason(hook) == "", tool.name
    assert allowed == TOUCHES_NOTHING | READS_IN_THE_PROJECT
    assert {t.name for t in tools} >= {
        *ALL_TOOL_NAMES,
        "remember",
        "skills_create",
        "skills_run_script",
        "mcp_read_resource",
        "spawn",
    }


@pytest.mark.parametrize(
    ("uri", "is_trusted", "outcome", "asked"),
    [
        ("memo://x", False, "ask", ["my_server"]),
        ("memo://x", True, "allow", []),
        ("file:///etc/passwd", True, "ask", ["/etc/passwd"]),
        ("FILE:///etc/pass%77d", True, "ask", ["/etc/passwd"]),
        ("file://[broken/etc/passwd", True, "ask", ["my_server"]),
    ],
)
async def test_resource_of_a_server_asks_for_the_server_and_the_file(
    tmp_path: Path, uri: str, is_trusted: bool, outcome: str, asked: list[str]
) -> None:
    config = McpServerConfig(name="my server", command="-", trust_annotations=is_trusted)
    mcp = McpPlug([config], connector=InMemoryConnector({"my server": InMemoryServer([])}))
    tool = next(t for t in create_resource_tools(mcp) if t.name == "mcp_read_resource")
    arguments = {"server": "my server", "uri": uri}

    async def decide(*allow: str) -> Any:
        env = LocalEnv(str(tmp_path))
        return await Permissions(allow=allow).decide(tool.name, arguments, env=env, definition=tool, advise=True)

    decision = await decide()
    assert decision.outcome == outcome
    assert [v.resource for v in decision.needs_answer] == asked
    assert decision.outcome == "allow" or (await decide(*decision.advice[0])).outcome == "allow"
    if asked == ["my_server"]:
        assert (await decide("mcp_read_resource")).outcome == "allow"
        assert decision.advice[0] == ("mcp_read_resource(my_server)",)
