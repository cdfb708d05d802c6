"""The hooks of calls to servers: fired right after the tool hooks that they derive from, for tools with a server.

The plug: an agent's servers, started together, offered when they are ready, ended with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.errors import ConfigError
from mainspring.loop import Plugin
from mainspring.loop.hooks import (
    ContextTransform,
    HookBus,
    McpBootstrapEnd,
    McpBootstrapStart,
    McpConnect,
    McpToolAfter,
    McpToolBefore,
    McpToolGate,
    McpToolTransform,
    RunDone,
    SessionStart,
    ToolBefore,
    ToolFinished,
    ToolGate,
    ToolTransform,
    ToolUnknown,
)
from mainspring.loop.hooks import McpError as McpErrorHook
from mainspring.mcp.client_features import AllowSamplingCallback, ClientFeatures, ElicitCallback, SamplingCallback
from mainspring.mcp.config import McpServerConfig, parse_mcp_config
from mainspring.mcp.content import NO_OUTPUT, to_model_blocks
from mainspring.mcp.oauth import logins_path
from mainspring.mcp.prompts import McpPrompt
from mainspring.mcp.sdk import SdkConnector
from mainspring.mcp.server import McpServer
from mainspring.mcp.server_log import ServerLog, server_log_path
from mainspring.mcp.tools import server_of_tool, server_of_tool_name, server_prefixes
from mainspring.mcp.types import McpConnector, McpError, ResourceInfo
from mainspring.messages import ImageBlock, TextBlock
from mainspring.tools import Tool, ToolContext, ToolErrorCode, ToolResult
from mainspring.tools.interaction import INTERACTION_KEY

if TYPE_CHECKING:
    from mainspring.loop import CoreAgent


LIST_TOOL, READ_TOOL = "mcp_list_resources", "mcp_read_resource"
RESOURCE_TOOLS = (LIST_TOOL, READ_TOOL)
_MAX_LISTED = 200


def create_resource_tools(mcp: McpPlug) -> list[Tool]:
    """The two tools, for the servers of an agent."""

    async def list_resources(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        wanted = arguments.get("server") or None
        found = await mcp.resources()
        if wanted is not None and wanted not in found:
            return _error_result(
                f"there is no MCP server {wanted!r} that is ready; there are {', '.join(found) or 'none'}"
            )
        lines = [
            line
            for name, resources in found.items()
            if wanted in (None, name)
            for line in [f"{name}:", *[_line(r) for r in resources]]
            if resources
        ]
        more = [f"... {len(lines) - _MAX_LISTED} more; name a server"] if len(lines) > _MAX_LISTED else []
        return ToolResult(output="\n".join([*lines[:_MAX_LISTED], *more]) or "There are no resources.")

    async def read_resource(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        try:
            contents = await mcp.get(arguments["server"]).read_resource(arguments["uri"])
        except (McpError, ConfigError) as error:
            return _error_result(str(error))
        blocks, attachments = to_model_blocks(contents)
        details = {"server": arguments["server"], "uri": arguments["uri"]}
        return ToolResult(output=_output(blocks), metadata=details, attachments=tuple(attachments))

    return [
        Tool(
            name=LIST_TOOL,
            description="List what MCP servers have to read (resources), and templates of addresses for more.",
            input_schema={
                "type": "object",
                "properties": {"server": {"type": "string", "description": "Only this server's."}},
                "additionalProperties": False,
            },
            execute=list_resources,
            source="builtin",
            access=lambda arguments: (),
        ),
        Tool(
            name=READ_TOOL,
            description="Read a resource of an MCP server.",
            input_schema={
                "type": "object",
                "properties": {
                    "server": {"type": "string", "description": "The server's name."},
                    "uri": {"type": "string", "description": f"The address, as {LIST_TOOL} gives it."},
                },
                "required": ["server", "uri"],
                "additionalProperties": False,
            },
            execute=read_resource,
            source="builtin",
        ),
    ]


def _line(resource: ResourceInfo) -> str:
    name = resource.title or resource.name
    kind = f" ({resource.media_type})" if resource.media_type else ""
    about = f": {resource.description}" if resource.description else ""
    return f"- {resource.uri}{' [template]' if resource.template else ''}{kind} {name}{about}".replace("\n", " ")[:500]


def _output(blocks: list[TextBlock | ImageBlock]) -> str | tuple[TextBlock | ImageBlock, ...]:
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text or NO_OUTPUT
    return tuple(blocks) or NO_OUTPUT


def _error_result(text: str) -> ToolResult:
    return ToolResult(output=text, is_error=True, code=ToolErrorCode.NOT_FOUND)


GATE_ORDER, AFTER_ORDER = 45, 70
"""Behind what an application and its budgets say, before large results are put aside."""


def add_mcp_hooks(agent: CoreAgent, find: Callable[[str], Tool | None]) -> None:
    """Have an agent fire them.

    Args:
        agent: The agent.
        find: Gives a tool by its name.
    """
    handlers = _McpHooks(agent.bus, find)
    agent.on(ToolGate, handlers.gate, order=GATE_ORDER)
    agent.on(ToolBefore, handlers.before, order=AFTER_ORDER)
    agent.on(ToolTransform, handlers.transform, order=AFTER_ORDER)
    agent.on(ToolFinished, handlers.after, order=AFTER_ORDER)


class _McpHooks:
    def __init__(self, bus: HookBus, find: Callable[[str], Tool | None]) -> None:
        self._bus = bus
        self._find = find

    def _server(self, name: str) -> str | None:
        tool = self._find(name)
        return server_of_tool(tool) if tool is not None else None

    async def gate(self, hook: ToolGate) -> None:
        server = self._server(hook.name) if self._bus.has(McpToolGate) else None
        if server is not None:
            asked = await self._bus.emit(McpToolGate.of(hook, server))
            hook.block, hook.reason, hook.result, hook.pause = asked.block, asked.reason, asked.result, asked.pause

    async def before(self, hook: ToolBefore) -> None:
        server = self._server(hook.name) if self._bus.has(McpToolBefore) else None
        if server is not None:
            hook.input = (await self._bus.emit(McpToolBefore.of(hook, server))).input

    async def transform(self, hook: ToolTransform) -> None:
        server = self._server(hook.name) if self._bus.has(McpToolTransform) else None
        if server is not None:
            hook.result = (await self._bus.emit(McpToolTransform.of(hook, server))).result

    async def after(self, hook: ToolFinished) -> None:
        server = self._server(hook.name) if self._bus.has(McpToolAfter) else None
        if server is not None:
            await self._bus.emit(McpToolAfter.of(hook, server))


logger = logging.getLogger("mainspring")


_SILENT_WAIT = 0.75  # what takes no longer is not worth telling
GRACE = 3.0
"""Seconds that the first prompt waits for servers, at most."""
HOOK_ORDER = -900
"""Tools change before anything else of a request is made."""


class McpPlug(Plugin):
    """Gives an agent the tools of servers.

    All servers are started at once, at warm-up or the first run. The first prompt waits for those that are still on their way, but no
    longer than ``grace``; one that is late is offered from the next request on. A server that cannot be reached is told of by the hook
    ``mcp:error`` and harms nothing.

    Args:
        servers: Configurations, in any form that `parse_mcp_config` takes.
        connector: Who makes connections; the official SDK if left out.
        grace: Seconds that the first prompt waits at most.
        elicit: Answers a server's question in place of the user.
        allow_sampling: Decides in place of the user whether a server may ask the model.
        roots: The folders that servers are told of; the agent's own if left out.
        environ: Our variables, for ``${VAR}`` and for the base set that programs get.
        home: The user's folder: what servers write is kept there, and logins are looked for.

    Attributes:
        servers: The servers.
        grace: As given.
        tell: Is told in a sentence what people should know: a server failed, was lost, or is late. Tells nobody until it is set.

    Raises:
        ConfigError: If a configuration is none. (Files of many are better read by `parse_mcp_config`, which leaves out the broken.)
    """

    def __init__(
        self,
        servers: Any = (),
        *,
        connector: McpConnector | None = None,
        grace: float = GRACE,
        elicit: ElicitCallback | None = None,
        allow_sampling: AllowSamplingCallback | None = None,
        roots: Sequence[str] | None = None,
        environ: Mapping[str, str] = os.environ,
        home: Path | None = None,
    ) -> None:
        found = parse_mcp_config(servers)
        if found.problems:
            raise ConfigError("\n".join(found.problems))
        self.grace = grace
        self._asking = ClientFeatures(elicit, allow_sampling)
        self._connector = connector or SdkConnector(environ, logins_path(home) if home else None)
        self._roots = roots
        self._agent: CoreAgent | None = None
        self._startup_task: asyncio.Task[None] | None = None
        self._dirty = False
        self._has_tools: tuple[Tool, ...] = ()
        self.tell: Callable[[str], object] = _ignore
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
            roots=self._folders,
            environ=environ,
            watcher=self,
            log=ServerLog(server_log_path(home, config.name) if home else None),
        )

    def _folders(self) -> Sequence[str]:
        if self._roots is not None:
            return self._roots
        return (self._agent.env.cwd,) if self._agent is not None else (os.getcwd(),)

    # --- as a plug --------------------------------------------------------------------------------------------------

    def install(self, agent: CoreAgent) -> None:
        """Sit in an agent."""
        if self._agent is not None:
            raise ConfigError("this Mcp belongs to another agent; make one for each")
        self._agent = agent
        self._asking.interaction = lambda: agent.extra.get(INTERACTION_KEY)
        if not self.servers:
            return
        agent.on(SessionStart, self._begin, order=HOOK_ORDER)
        agent.on(ContextTransform, self._turn, order=HOOK_ORDER)
        agent.on(RunDone, self._on_agent_done)
        agent.on(ToolUnknown, self._on_tool_unknown)
        add_mcp_hooks(agent, agent.tools.get)

    def for_child(self) -> Plugin | None:
        """The same connections: a sub-agent has its parent's tools already."""
        return _ChildMcpPlug() if self.servers else None

    def set_sampler(self, sampler: SamplingCallback) -> None:
        """Say who asks the model when a server wants that and may."""
        self._asking.sampler = sampler

    async def prepare(self) -> None:
        """Start all servers; wait for them, but no longer than the grace."""
        if not self.servers:
            return
        self._start()
        assert self._startup_task is not None
        at_once = min(_SILENT_WAIT, self.grace)
        await asyncio.wait({self._startup_task}, timeout=at_once)
        late = ", ".join([repr(s.name) for s in self.servers if s.status == "connecting"])
        if late and self.grace > at_once:  # nobody waits in the dark
            self.tell(f"waiting for MCP server {late}, {self.grace:g} s at most")
            await asyncio.wait({self._startup_task}, timeout=self.grace - at_once)
        for server in self.servers:
            if server.status == "connecting":
                self.tell(f"MCP server {server.name!r} has not answered yet; its tools are offered once it does")
        self._offer()

    async def aclose(self) -> None:
        """End all connections, and all programs that were started. What is used later is started again."""
        boot, self._startup_task = self._startup_task, None
        await asyncio.gather(*[server.aclose() for server in self.servers])
        if boot is not None and boot.get_loop() is asyncio.get_running_loop():
            await asyncio.wait({boot}, timeout=1.0)
            boot.cancel()

    # --- servers ----------------------------------------------------------------------------------------------------

    def get(self, name: str) -> McpServer:
        """The server of this name.

        Raises:
            ConfigError: If there is none.
        """
        found = next((s for s in self.servers if s.name == name), None)
        if found is None:
            known = ", ".join([s.name for s in self.servers]) or "none"
            raise ConfigError(f"there is no MCP server {name!r}; there are {known}")
        return found

    async def prompts(self) -> list[McpPrompt]:
        """The prompts of all servers that are ready, as commands; one that does not say has none."""
        found: list[McpPrompt] = []
        for server in self._ready():
            try:
                found += [McpPrompt(server, info) for info in await server.list_prompts()]
            except McpError as failure:
                server.log.note(str(failure))
        return found

    async def resources(self) -> dict[str, Sequence[ResourceInfo]]:
        """What there is to read, by server."""
        found: dict[str, Sequence[ResourceInfo]] = {}
        for server in self._ready():
            try:
                found[server.name] = await server.list_resources()
            except McpError as failure:
                server.log.note(str(failure))
        return found

    def _ready(self) -> list[McpServer]:
        return [s for s in self.servers if s.status == "ready"]

    # --- starting ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        if self._startup_task is None or self._startup_task.get_loop() is not loop:
            self._startup_task = loop.create_task(self._bootstrap(), name="mcp bootstrap", context=Context())

    async def _bootstrap(self) -> None:
        """Start all, and tell when all have answered or failed."""
        used = [s for s in self.servers if s.status != "disabled"]
        names = tuple([s.name for s in used])
        began = time.monotonic()
        await self._emit(McpBootstrapStart, lambda: McpBootstrapStart(names))
        try:
            for server in used:
                server.start()
            await asyncio.gather(*[server.settled() for server in used])
        finally:
            failed = tuple([s.name for s in used if s.status != "ready"])
            seconds = time.monotonic() - began
            await self._emit(McpBootstrapEnd, lambda: McpBootstrapEnd(names, seconds, failed))

    async def _emit(self, kind: type[Any], make: Callable[[], Any]) -> None:
        if self._agent is not None and self._agent.bus.has(kind):
            await self._agent.bus.emit(make())

    async def _begin(self, hook: SessionStart) -> None:
        """A run begins: in an event loop of its own perhaps, where nothing is connected yet."""
        if self._startup_task is None or self._startup_task.get_loop() is not asyncio.get_running_loop():
            await self.prepare()

    # --- what is offered ----------------------------------------------------------------------------------------------

    def _turn(self, hook: ContextTransform) -> None:
        """Between turns the list of tools may change; within one never."""
        if self._dirty:
            self._offer()

    def _on_agent_done(self, hook: RunDone) -> None:
        if self._dirty:
            self._offer(between=True)

    async def _on_tool_unknown(self, hook: ToolUnknown) -> None:
        """A tool of a server that is not there: it may be on its way, or there is a reason."""
        name = server_of_tool_name(hook.name, {s.name: s.key for s in self.servers})
        server = next((s for s in self.servers if s.name == name and s.status != "ready"), None)
        if server is None:
            return
        await server.settled()
        text = str(server.error or f"MCP server {name!r} is {server.status}")
        if server in self._ready():
            text = f"MCP server {name!r} was not connected yet; it is now, and its tools are offered from the next request on."
        hook.result = ToolResult(output=text, is_error=True, code=ToolErrorCode.NOT_FOUND)

    def _offer(self, *, between: bool = False) -> None:
        """Bring the agent's tools up to date: by server in the order of the configuration, in a server by name.

        A tool with an alias joins only between runs, since a run's names are settled when it begins.
        """
        agent = self._agent
        if agent is None:
            return
        self._dirty = False
        known = {t.name for t in self._has_tools}
        wanted: list[Tool] = []
        for tool in (t for server in self.servers for t in server.tools):
            if (
                agent.running
                and not between
                and tool.name not in known
                and tool.name in agent.tool_aliases
                and self._begun()
            ):
                self._dirty = True
            else:
                wanted.append(tool)
        if any("resources" in s.facts.capabilities for s in self.servers):
            wanted += create_resource_tools(self)
        if [_tool_signature(t) for t in wanted] == [_tool_signature(t) for t in self._has_tools]:
            return
        for tool in self._has_tools:
            agent.tools.remove(tool.name)
        self._has_tools = tuple([t for t in wanted if _try_add(agent, t)])

    def _begun(self) -> bool:
        """Whether the run's names are settled: they are once its first turn is looked at."""
        return self._agent is not None and self._agent.context.side_call is not None

    # --- see `Watcher` ------------------------------------------------------------------------------------------------

    async def connected(self, server: McpServer, seconds: float) -> None:
        """A server is ready."""
        self._announced_questions.discard(server.name)
        self._news()
        names = tuple([t.name for t in server.tools])
        await self._emit(McpConnect, lambda: McpConnect(server.name, names, seconds))

    async def failed(self, server: McpServer, error: McpError) -> None:
        """A server failed. Its tools stay, so that the prompt does: a call is told why."""
        logger.warning("%s", error)
        if server.name not in self._announced_questions:  # once, however often it is tried again
            self._announced_questions.add(server.name)
            self.tell(str(error))
        await self._emit(McpErrorHook, lambda: McpErrorHook(server.name, error))

    def on_tools_changed(self, server: McpServer) -> None:
        """A server has other tools."""
        self._news()

    def _news(self) -> None:
        self._dirty = True
        if self._agent is not None and not self._agent.running:
            self._offer()


class _ChildMcpPlug(Plugin):
    """What a sub-agent has of its parent's servers: the hooks. The tools come with the others that it inherits."""

    def install(self, agent: CoreAgent) -> None:
        add_mcp_hooks(agent, agent.tools.get)

    def for_child(self) -> Plugin | None:
        return _ChildMcpPlug()


def _ignore(text: str) -> None:
    """Tells nobody."""


def _tool_signature(tool: Tool) -> Any:
    return tool.name if tool.name in RESOURCE_TOOLS else (tool.name, tool.description, tool.input_schema, tool.source)


def _try_add(agent: CoreAgent, tool: Tool) -> bool:
    try:
        agent.tools.add(tool)
    except ConfigError as error:
        logger.warning("a tool of an MCP server is left out: %s", error)
        return False
    return True
