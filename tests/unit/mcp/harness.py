"""Shared parts of the MCP tests: a real server program, servers in memory, and agents that follow a script."""

import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mainspring.agent.agent import Agent
from mainspring.env import MemoryEnv
from mainspring.mcp import InMemoryConnector, InMemoryServer, McpPlug, McpServerConfig
from mainspring.mcp.types import ToolInfo
from mainspring.messages import Message, ToolResultBlock
from mainspring.testing.scripted_model import ScriptedModel

RAW = Path(__file__).with_name("raw_server.py")


def raw_server_config(*flags: str, name: str = "raw", **fields: Any) -> McpServerConfig:
    """Return a server configuration for `raw_server.py` with these flags."""
    return McpServerConfig(name=name, command=sys.executable, args=("-S", "-E", str(RAW), *flags), **fields)


def make_tool_info(name: str, **fields: Any) -> ToolInfo:
    """Return the description of a tool that takes a text."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return ToolInfo(name=name, description=f"It does {name}.", input_schema=schema, **fields)


def make_echo_server(*names: str, **fields: Any) -> InMemoryServer:
    """Return a server in memory whose tools return their input."""
    return InMemoryServer([(make_tool_info(name), lambda text="", n=name: f"{n}: {text}") for name in names], **fields)


def make_agent(
    servers: Mapping[str, InMemoryServer], *script: Any, mcp: Mapping[str, Any] | None = None, **fields: Any
) -> Agent:
    """Return an agent that follows a script and uses these servers."""
    configs = [McpServerConfig(name=name, command="-", **(fields.pop("config", {}))) for name in servers]
    plug = McpPlug(configs, connector=InMemoryConnector(servers), **(mcp or {}))
    return Agent(ScriptedModel(*script), execution=MemoryEnv(), mcp_servers=plug, **fields)


def get_plugin(agent: Agent) -> McpPlug:
    """Return the MCP plugin of an agent."""
    return next(p for p in agent.plugs if isinstance(p, McpPlug))


def results(agent: Agent) -> list[ToolResultBlock]:
    """Return all tool results in the agent's history."""
    return [r for m in agent.messages if isinstance(m, Message) for r in m.tool_results]


async def wait_until(condition: Callable[[], Any]) -> None:
    """Wait until a condition becomes true in another task or process."""
    while not condition():
        await asyncio.to_thread(threading.Event().wait, 0.01)


def parse_search_results(text: str) -> list[dict[str, Any]]:
    """Return the tools of a result of `tool_search`, with their schemas; the tags are all that has a ``<``."""
    envelope = re.match(r"<tool_search_results>\n(.*?)</tool_search_results>", text, re.DOTALL)
    assert envelope is not None
    found: list[dict[str, Any]] = []
    for tool in re.findall(r"<tool>\n(.*?)\n</tool>", envelope[1], re.DOTALL):
        parts: dict[str, Any] = dict(re.findall(r"<(name|description|input_schema|note)>([^<]*)</\1>", tool))
        found.append(parts | ({"input_schema": json.loads(parts["input_schema"])} if "input_schema" in parts else {}))
    return found
