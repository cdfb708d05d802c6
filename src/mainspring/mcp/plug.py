"""Plugin that starts an agent's MCP servers, offers their tools when ready, and stops them with the agent.

The hooks of calls to servers fire right after the tool hooks from which they derive, for tools of a server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.errors import ConfigError
from mainspring.events import ErrorInfo, Event, McpServer as McpServerEvent, McpStartup, Notice
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    ContextTransform,
    SessionEnd,
    ToolGate,
    ToolUnknown,
)
from mainspring.loop.shared_task import SharedTask
from mainspring.mcp.client_features import (
    AllowSamplingCallback,
    ClientFeatures,
    ElicitCallback,
    SamplingCallback,
    ServerClient,
)
from mainspring.mcp.config import McpServerConfig, parse_mcp_config
from mainspring.mcp.oauth import logins_path
from mainspring.mcp.prompts import McpPrompt
from mainspring.mcp.resource_tools import RESOURCE_TOOLS, create_resource_tools
from mainspring.mcp.sdk import SdkConnector
from mainspring.mcp.server import McpServer
from mainspring.mcp.server_log import ServerLog, server_log_path
from mainspring.mcp.tools import server_of_tool_name, server_prefixes
from mainspring.mcp.types import McpConnector, McpError, ResourceInfo
from mainspring.tools import Tool, ToolErrorCode, ToolResult, Toolset

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


logger = logging.getLogger("mainspring")


_MAX_NAMED = 5
_SILENT_WAIT = 0.75  # a shorter wait is not reported
GRACE = 3.0
"""Maximum seconds that the first prompt waits for servers."""
_HOOK_ORDER = -900
"""Tools change before any other handler prepares a request."""


class McpPlug(Plugin):
    """Plugin that adds the tools of servers to an agent.

    All servers start at the same time, at warm-up or at the first run. The first prompt waits for servers that are still
    connecting, but no longer than ``startup_wait``; the tools of a late server are offered from the next request on. A server
    that cannot be reached or is late is a warning, and affects nothing else, unless it is ``required``.

    Args:
        servers: Configurations, in any form that `parse_mcp_config` accepts.
        connector: Connector that opens connections (default: the official SDK).
        startup_wait: Maximum seconds that the first prompt waits.
        elicit: Function that answers a server's question in place of the user.
        allow_sampling: Function that decides in place of the user whether a server may send a prompt to the model.
        roots: Folders that servers may work in (default: the agent's folder).
        environ: Variables, for ``${VAR}`` and for the base set that programs get.
        home: Folder of the user's logins and of the servers' logs.

    Attributes:
        servers: The servers.
        startup_wait: Maximum seconds that the first prompt waits.

    Raises:
        ConfigError: A configuration is invalid. (For files with many servers, use `parse_mcp_config`, which skips invalid
            entries.)
    """

    def __init__(
        self,
        servers: Any = (),
        *,
        connector: McpConnector | None = None,
        startup_wait: float = GRACE,
        elicit: ElicitCallback | None = None,
        allow_sampling: AllowSamplingCallback | None = None,
        roots: Sequence[str] | None = None,
        environ: Mapping[str, str] = os.environ,
        home: Path | None = None,
    ) -> None:
        found = parse_mcp_config(servers)
        if found.problems:
            raise ConfigError("\n".join(found.problems))
        self._toolsets: dict[str, Callable[[Toolset], Toolset]] = {}
        self._toolset_problems: dict[str, str] = {}
        self.startup_wait = startup_wait
        self._asking = ClientFeatures(elicit, allow_sampling)
        self._connector = connector or SdkConnector(environ, logins_path(home) if home else None)
        self._roots = roots
        self._agent: CoreAgent | None = None
        self._startup = SharedTask(self._start_all)
        self._tools_changed = False
        self._added_tools: tuple[Tool, ...] = ()
        self._announced_questions: set[str] = set()
        keys = server_prefixes([s.name for s in found.servers])
        self.servers: tuple[McpServer, ...] = tuple(
            [self._server(config, keys[config.name], environ, home) for config in found.servers]
        )

    def _server(self, config: McpServerConfig, key: str, environ: Mapping[str, str], home: Path | None) -> McpServer:
        return McpServer(
            config,
            key,
            self._connector,
            asking=self._asking,
            roots=self._root_folders,
            environ=environ,
            watcher=self,
            log=ServerLog(server_log_path(home, config.name) if home else None),
        )

    def _root_folders(self) -> Sequence[str]:
        if self._roots is not None:
            return self._roots
        return (self._agent.env.cwd,) if self._agent is not None else (os.getcwd(),)

    # --- plugin interface -------------------------------------------------------------------------------------------

    def install(self, agent: CoreAgent) -> None:
        """Register the plugin's handlers with an agent."""
        if self._agent is not None:
            raise ConfigError("This Mcp plugin belongs to another agent. Create one plugin for each agent.")
        self._agent = agent
        self._asking.client.bind(agent)
        if not self.servers:
            return
        agent.on(ContextTransform, self._on_context_transform, order=_HOOK_ORDER)
        agent.on("agent:done", self._on_agent_done)
        agent.on(ToolGate, self._on_tool_gate, order=_HOOK_ORDER)
        agent.on(ToolUnknown, self.answer_unknown_tool)

    def for_child(self) -> Plugin | None:
        """Return ``None``: a subagent inherits the tools and connections of its parent."""

    def for_conversation(self) -> Plugin:
        """Return the plugin for another conversation, which shares the tools and connections."""
        return SharedServers(self)

    def set_sampler(self, sampler: SamplingCallback) -> None:
        """Set the function that sends prompts of servers to the model."""
        self._asking.client.sample_model = sampler

    async def prepare(self) -> None:
        """Start all servers, and wait for them at most ``startup_wait`` seconds; for required ones until they are ready or fail.

        Raises:
            ConfigError: If a required server does not start.
        """
        if not self.servers:
            return
        is_missing = any(s.config.required and s.status == "failed" for s in self.servers)
        # An empty context, since the startup is not related to the run that begins it.
        startup = self._startup.start(repeat=is_missing, context=Context())
        silent_wait = min(_SILENT_WAIT, self.startup_wait)
        await asyncio.wait({startup}, timeout=silent_wait)
        names = [repr(s.name) for s in self.servers if s.status == "connecting"]
        more = f", and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        late = ", ".join(names[:_MAX_NAMED]) + more
        if late and self.startup_wait > silent_wait:  # report why the prompt waits
            await self._notify(Notice(f"Waiting up to {self.startup_wait:g}s for MCP server {late}"))
            await asyncio.wait({startup}, timeout=self.startup_wait - silent_wait)
        required = [s for s in self.servers if s.config.required and s.status != "disabled"]
        for server in required:
            await server.wait_ready()
        for server in self.servers:
            if server.status == "connecting":
                await self._warn(
                    f"MCP server {server.name!r} is still connecting. Its tools will be available when it is ready."
                )
        self._update_tools()
        self._check_toolsets()
        failed = [str(s.error or f"MCP server {s.name!r} is {s.status}") for s in required if s.status != "ready"]
        if failed:
            raise ConfigError("\n".join([f"A required MCP server did not start. {text}" for text in failed]))

    async def settle(self) -> None:
        """Wait until every server is ready or has failed."""
        if (startup := self._startup.current) is not None:
            await asyncio.wait({startup})
            self._update_tools()

    async def _warn(self, text: str) -> None:
        """Report a failed or late server, which does not end the run."""
        logger.warning("%s", text)
        await self._notify(Notice(text, "warn"))

    async def aclose(self) -> None:
        """Close all connections, and stop all programs. Later use starts them again."""
        startup = self._startup.clear()
        await asyncio.gather(*[server.aclose() for server in self.servers])
        if startup is not None:
            await asyncio.wait({startup}, timeout=1.0)
            startup.cancel()

    def change_tools(self, server: str, change: Callable[[Toolset], Toolset]) -> None:
        """Set the function that prefixes, renames, filters, or approves the tools of a server.

        ```python
        servers.change_tools("files", lambda tools: tools.prefix("files_").require_approval("files_delete"))
        ```

        It is called again when the server changes its tools. If it raises an error, the server has no tools, and each run fails with a
        `ConfigError` until it succeeds.

        Args:
            server: Name of the server.
            change: Function that gets the tools and returns those for the agent.

        Raises:
            ConfigError: The server is unknown.
        """
        self._toolsets[self.get(server).name] = change
        self._toolset_problems.pop(server, None)
        self._mark_tools_changed()

    # --- servers ----------------------------------------------------------------------------------------------------

    def get(self, name: str) -> McpServer:
        """Return the server with a name.

        Raises:
            ConfigError: The name is unknown.
        """
        found = next((s for s in self.servers if s.name == name), None)
        if found is None:
            known = ", ".join([s.name for s in self.servers]) or "none"
            raise ConfigError(f"Unknown MCP server: {name!r}. Configured servers: {known}.")
        return found

    async def prompts(self) -> list[McpPrompt]:
        """Return the prompts of all ready servers, as commands; servers that do not respond are skipped."""
        found: list[McpPrompt] = []
        for server in self._ready():
            try:
                found += [McpPrompt(server, info) for info in await server.list_prompts()]
            except McpError as failure:
                server.log.note(str(failure))
        return found

    async def resources(self) -> dict[str, Sequence[ResourceInfo]]:
        """Return the resources by server."""
        found: dict[str, Sequence[ResourceInfo]] = {}
        for server in self._ready():
            try:
                found[server.name] = await server.list_resources()
            except McpError as failure:
                server.log.note(str(failure))
        return found

    def _ready(self) -> list[McpServer]:
        return [s for s in self.servers if s.status == "ready"]

    # --- startup ----------------------------------------------------------------------------------------------------

    async def _start_all(self) -> None:
        """Start all servers, and publish when each is ready or has failed."""
        used = [s for s in self.servers if s.status != "disabled"]
        began = time.monotonic()
        for server in used:
            await self._notify(McpStartup(server.name))
        for server in used:
            server.start()
        await asyncio.gather(*[self._report_startup(server, began) for server in used])

    async def _report_startup(self, server: McpServer, began: float) -> None:
        """Publish that a server is ready or has failed, also if the agent is closed before."""
        try:
            await server.wait_ready()
        finally:
            error, seconds = None, time.monotonic() - began
            if server.status != "ready":
                closed = McpError(server.name, f"MCP server {server.name!r} is {server.status}", "lost")
                error = ErrorInfo.from_exception(server.error or closed)
            await self._notify(McpStartup(server.name, seconds, 0 if error else len(server.tools), error))

    async def _notify(self, event: Event) -> None:
        if self._agent is not None:
            await self._agent.bus.notify(event)

    async def ensure_started(self) -> None:
        """Start the servers if the event loop is new and has no connections.

        Raises:
            ConfigError: If a required server does not start, or a function of `change_tools` failed.
        """
        if self._startup.current is None:
            await self.prepare()
        self._check_toolsets()

    def _check_toolsets(self) -> None:
        if self._toolset_problems:
            raise ConfigError("\n".join(self._toolset_problems.values()))

    # --- offered tools ------------------------------------------------------------------------------------------------

    def _on_context_transform(self, hook: ContextTransform) -> None:
        """Update the list of tools between turns; it must not change within a turn."""
        if self._tools_changed:
            self._update_tools()

    def _on_agent_done(self, hook: SessionEnd) -> None:
        if self._tools_changed:
            self._update_tools(between_runs=True)

    async def _on_tool_gate(self, hook: ToolGate) -> None:
        """Handle a call of a tool that is not known yet, for example in a resumed session: wait for its server."""
        if self._agent is None:
            return
        while self._agent.tools.get(hook.name) is None:
            server = self._server_of(hook.name)
            if server is None or server.status != "connecting":
                return
            await server.wait_ready()
            self._update_tools()

    def _server_of(self, tool_name: str) -> McpServer | None:
        """Return the server that a tool's name contains."""
        name = server_of_tool_name(tool_name, {s.name: s.key for s in self.servers})
        named = next((s for s in self.servers if s.name == name), None)
        if named is not None or not self._toolsets:
            return named
        # Its tools may have any name: it is known once the server is connected.
        return next((s for s in self.servers if s.name in self._toolsets and s.status == "connecting"), None)

    async def answer_unknown_tool(self, hook: ToolUnknown) -> None:
        """Handle a call of an unknown tool of a server: the server may still be connecting, or have failed."""
        server = self._server_of(hook.name)
        if server is None or server.status == "ready":
            return
        await server.wait_ready()
        text = str(server.error or f"MCP server {server.name!r} is {server.status}")
        if server in self._ready():
            text = f"MCP server {server.name!r} was not connected yet; it is now, and its tools are offered from the next request on."
        hook.result = ToolResult(output=text, is_error=True, code=ToolErrorCode.NOT_FOUND)

    def current_tools(self) -> tuple[Tool, ...]:
        """Return the tools of the servers that are connected now."""
        if self._tools_changed:
            self._update_tools(between_runs=True)
        return self._added_tools

    def _update_tools(self, *, between_runs: bool = False) -> None:
        """Update the agent's tools: by server in the order of the configuration, and by name within a server.

        A tool with an alias is added only between runs, since a run's names are fixed when it begins.
        """
        agent = self._agent
        if agent is None:
            return
        self._tools_changed = False
        known = {t.name for t in self._added_tools}
        requested: list[Tool] = []
        for tool in (t for server in self.servers for t in self._tools_of(server)):
            if (
                agent.running
                and not between_runs
                and tool.name not in known
                and tool.name in agent.tool_aliases
                and self._has_run_started()
            ):
                self._tools_changed = True
            else:
                requested.append(tool)
        if any("resources" in s.info.capabilities for s in self.servers):
            requested += create_resource_tools(self)
        if [_tool_signature(t) for t in requested] == [_tool_signature(t) for t in self._added_tools]:
            return
        self._added_tools = _replace_tools(agent, self._added_tools, requested)

    def _tools_of(self, server: McpServer) -> Iterable[Tool]:
        """Return the tools of a server as the function of `change_tools` returns them."""
        change = self._toolsets.get(server.name)
        if change is None or not server.tools:
            return server.tools
        try:
            tools = tuple(change(server.toolset()))
        except Exception as error:
            text = f"The function of change_tools for MCP server {server.name!r} failed, so its tools are not available: {error!r}."
            if self._toolset_problems.setdefault(server.name, text) is text:
                logger.warning("%s", text, exc_info=True)
            return ()
        self._toolset_problems.pop(server.name, None)
        return tools

    def _has_run_started(self) -> bool:
        """Return True if the run's names are fixed, which happens before its first turn."""
        return self._agent is not None and self._agent.context.side_call is not None

    # --- see `ServerObserver` -----------------------------------------------------------------------------------------

    async def on_connected(self, server: McpServer, seconds: float) -> None:
        """Handle a server that is ready."""
        self._announced_questions.discard(server.name)
        self._mark_tools_changed()
        names = tuple([t.name for t in server.tools])
        await self._notify(McpServerEvent(server.name, names, seconds))

    async def on_failed(self, server: McpServer, error: McpError) -> None:
        """Handle a failed server.

        Its tools stay, so that the prompt does not change: a call returns the reason.
        """
        is_raised = server.config.required and server.seconds == 0.0  # never connected: `prepare` raises the error
        if not is_raised and server.name not in self._announced_questions:  # once, regardless of the number of retries
            self._announced_questions.add(server.name)
            await self._warn(str(error))
        await self._notify(McpServerEvent(server.name, error=ErrorInfo.from_exception(error), exception=error))

    def on_tools_changed(self, server: McpServer) -> None:
        """Handle changed tools of a server."""
        self._mark_tools_changed()

    def _mark_tools_changed(self) -> None:
        self._tools_changed = True
        if self._agent is not None and not self._agent.running:
            self._update_tools()


def _tool_signature(tool: Tool) -> Any:
    if tool.name in RESOURCE_TOOLS:
        return tool.name
    return tool.name, tool.description, tool.input_schema, tool.source, tool.requires_approval


def _replace_tools(agent: CoreAgent, added: Iterable[Tool], requested: Iterable[Tool]) -> tuple[Tool, ...]:
    """Replace the tools of servers that were added to an agent, and return those that could be added."""
    for tool in added:
        agent.tools.remove(tool.name)
    return tuple([tool for tool in requested if _try_add(agent, tool)])


def _try_add(agent: CoreAgent, tool: Tool) -> bool:
    try:
        agent.tools.add(tool)
    except ConfigError as error:
        logger.warning("Skipped a tool of an MCP server: %s", error)
        return False
    return True


class SharedServers(Plugin):
    """The servers of another agent, for a conversation of that agent.

    Args:
        servers: The plugin of the other agent.
    """

    def __init__(self, servers: McpPlug) -> None:
        self._servers = servers
        self._agent: CoreAgent | None = None
        self._offered: tuple[Tool, ...] = ()
        self._added_tools: tuple[Tool, ...] = ()
        self._client = ServerClient()

    def set_sampler(self, sampler: SamplingCallback) -> None:
        """Set the function that sends prompts of servers to the model."""
        self._client.sample_model = sampler

    def install(self, agent: CoreAgent) -> None:
        """Register the handlers with the agent of the conversation."""
        self._agent = agent
        self._client.bind(agent)
        if self._servers.servers:
            agent.on(ContextTransform, lambda _: self._update_tools(), order=_HOOK_ORDER)
            agent.on(ToolUnknown, self._servers.answer_unknown_tool)

    def for_child(self) -> Plugin | None:
        """Return ``None``: a subagent inherits the tools and connections of its parent."""

    def for_conversation(self) -> Plugin:
        """Return the plugin for another conversation."""
        return SharedServers(self._servers)

    async def prepare(self) -> None:
        """Start the servers, and wait for them; see `McpPlug.prepare`."""
        await self._servers.prepare()
        self._update_tools()

    async def settle(self) -> None:
        """Wait until every server is ready or has failed."""
        await self._servers.settle()
        self._update_tools()

    async def aclose(self) -> None:
        """Close the connections for all conversations, when the event loop ends."""
        await self._servers.aclose()

    async def ensure_started(self) -> None:
        """Start the servers if the event loop has no connections; see `McpPlug.ensure_started`."""
        await self._servers.ensure_started()
        self._update_tools()

    def _update_tools(self) -> None:
        agent, tools = self._agent, self._servers.current_tools()
        if agent is None or tools is self._offered:
            return
        self._offered, self._added_tools = tools, _replace_tools(agent, self._added_tools, tools)
