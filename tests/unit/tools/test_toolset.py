"""Sets of tools: combine, prefix, filter, rename, and approvals, with permissions and without."""

from typing import Any

import pytest

from mainspring import Agent, Permissions
from mainspring.errors import ConfigError
from mainspring.loop.hooks import PermissionCheck, TurnBefore
from mainspring.messages import ToolDefinition
from mainspring.policies.tool_filter import ToolFilter
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import Toolset, tool


@tool
def read(name: str) -> str:
    """Read."""
    return f"read {name}"


@tool(access=lambda _: ())
def remove(name: str, force: bool = False) -> str:
    """Remove."""
    return f"removed {name}"


def plain(n: int) -> int:
    """Plain."""
    return n


def names(tools: Toolset) -> list[str]:
    return [each.name for each in tools]


async def call(tools: Any, name: str, arguments: Any = None, **options: Any) -> str:
    model = ScriptedModel(ScriptedCall(name, arguments or {"name": "x"}), "Done.")
    result = await Agent(model, tools=tools, **options).run("go")
    [found] = [block for each in result.messages[1:] for block in getattr(each, "tool_results", ())]
    return found.text


def test_sets_are_combined_prefixed_filtered_and_renamed() -> None:
    files = Toolset([read, remove])
    assert names(files.prefix("files_")) == ["files_read", "files_remove"]
    assert names(files.filter(lambda each: each.name != "remove")) == ["read"]
    assert names(files.rename({"read": "remove", "remove": "read"})) == ["remove", "read"]
    assert names(files.combine(files.prefix("b_"))) == ["read", "remove", "b_read", "b_remove"]
    assert names(Toolset([files, plain])) == ["read", "remove", "plain"]
    assert names(files) == ["read", "remove"]


def test_invalid_set_is_refused() -> None:
    files = Toolset([read, remove])
    with pytest.raises(ConfigError, match="Duplicate tool name: 'read'"):
        files.combine(files)
    with pytest.raises(ConfigError, match="Unknown tool: rad. Tools of this set: read, remove"):
        files.rename({"rad": "x"})
    with pytest.raises(ConfigError, match="Invalid tool name: 'a b'"):
        files.rename({"read": "a b"})
    with pytest.raises(ConfigError, match="Unknown tool: rad"):
        files.require_approval("rad")


async def test_renamed_tool_runs() -> None:
    assert await call(Toolset([read]).prefix("files_"), "files_read") == "read x"


@pytest.mark.parametrize("rule", ["remove", "files_remove", "b_files_remove", "rem*"])
async def test_deny_cannot_be_escaped_by_renaming(rule: str) -> None:
    tools = Toolset([remove]).prefix("files_").prefix("b_")
    text = await call(tools, "b_files_remove", permissions=Permissions(allow=["*"], deny=[rule]))
    assert text.startswith("Permission denied")
    assert rule in text
    assert await call(tools, "b_files_remove", permissions=Permissions(allow=["remove"])) == "removed x"


async def test_approval_is_denied_with_a_reason_if_no_user_can_be_asked() -> None:
    tools = Toolset([read, remove]).require_approval("remove")
    assert await call(tools, "read") == "read x"
    assert await call(tools, "remove") == "Permission denied: it requires an approval, and no user can be asked"
    text = await call(tools, "remove", permissions=Permissions(allow=["remove", "*"]))
    assert text.startswith("Permission denied")
    assert "requires an approval" in text


async def test_approval_is_asked_for_and_given() -> None:
    asked: list[str] = []

    def ask(request: Any) -> bool:
        asked.append(request.tool)
        return True

    tools = Toolset([remove]).require_approval(when=lambda arguments: arguments["force"])
    permissions = Permissions(allow=["remove"], on_permission_request=ask)
    assert await call(tools, "remove", {"name": "x", "force": False}, permissions=permissions) == "removed x"
    assert asked == []
    assert await call(tools, "remove", {"name": "x", "force": True}, permissions=permissions) == "removed x"
    assert asked == ["remove"]
    assert "requires an approval" in await call(tools, "remove", permissions=Permissions())  # the function fails: ask


async def test_handler_of_the_application_can_give_the_approval() -> None:
    model = ScriptedModel(ScriptedCall("remove", {"name": "x"}), "Done.")
    agent = Agent(model, tools=Toolset([remove]).require_approval())
    agent.on(PermissionCheck)(lambda hook: hook.confirm())
    result = await agent.run("go")
    assert "removed x" in str(result.messages[2])


async def test_tools_of_a_turn_are_chosen_by_the_context() -> None:
    def choose(turn: TurnBefore, found: ToolDefinition) -> bool:
        return found.name != "remove" or turn.turn > 1

    model = ScriptedModel(ScriptedCall("remove", {"name": "x"}), ScriptedCall("remove", {"name": "x"}), "Done.")
    result = await Agent(model, tools=[read, remove], plugs=[ToolFilter(choose)]).run("go")
    requests = [each.request for each in model.requests]
    offered = [[each.name for each in request.tools] for request in requests]
    assert offered == [["read"], ["read", "remove"], ["read", "remove"]]
    texts = [block.text for each in result.messages[1:] for block in getattr(each, "tool_results", ())]
    assert texts[1] == "removed x"
    assert "The tool remove is not available in this turn." in texts[0]
    assert requests[1].tools is requests[2].tools
