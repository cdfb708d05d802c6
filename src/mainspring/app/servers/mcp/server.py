"""The agent as an MCP server: a tool call is a run, progress and cancellation are those of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import MCPError, types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from msgspec.structs import replace

from mainspring import __version__
from mainspring.app.chat import ChatOptions
from mainspring.app.servers.mcp.elicitation import Asked, elicitation_form
from mainspring.app.servers.mcp.runs import Ask, InputRequired, ToolRun, ToolRunPool
from mainspring.app.servers.mcp.tools import RUN_TOOL, SESSIONS_TOOL, TOOLS, error_result, run_result, sessions_result
from mainspring.app.servers.mcp.transport import ReadStream, WriteStream
from mainspring.app.servers.stdio import ChatRegistry, LineTransport
from mainspring.app.workspace.saved_sessions import list_saved_sessions
from mainspring.errors import MainspringError

MAX_RUNS = 8
"""Runs at the same time; further calls wait."""
_INPUT_REQUIRED_VERSION = "2026-07-28"
"""The first version of the protocol in which servers send no requests, and ask by what they answer."""

Context = ServerRequestContext[Any]
ToolCallOutcome = types.CallToolResult | types.InputRequiredResult


class McpAgentServer:
    """Answers one client.

    Args:
        options: How chats are opened.
        runs: Where they live.
    """

    def __init__(self, options: ChatOptions, runs: ToolRunPool) -> None:
        self._options = options
        self._runs = runs
        self._free = asyncio.Semaphore(MAX_RUNS)
        self.server: Server[Any] = Server(
            "mainspring",
            version=__version__,
            title="Mainspring",
            instructions="A coding agent. `run` gives it a task in its project folder; `sessions` lists earlier ones.",
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> ToolCallOutcome:
        given = params.arguments or {}
        try:
            match params.name:
                case "run":
                    return await self._run(ctx, params)
                case "sessions":
                    return await self._sessions(given)
                case name:
                    return error_result(f"there is no tool {name[:80]!r}; there are {RUN_TOOL} and {SESSIONS_TOOL}")
        except (MainspringError, OSError) as error:
            return error_result(str(error))

    async def _sessions(self, given: dict[str, Any]) -> types.CallToolResult:
        limit = given.get("limit", 20)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 100:
            return error_result("limit must be a whole number from 1 to 100")
        found = await asyncio.to_thread(list_saved_sessions, self._options.ask.place, environ=self._options.environ)
        return sessions_result([info for info in found if not info.problem][:limit])

    async def _run(self, ctx: Context, params: types.CallToolRequestParams) -> ToolCallOutcome:
        given = params.arguments or {}
        ask, later = elicit_callback(ctx), _supports_input_required(ctx)
        if params.request_state is not None:
            run = self._runs.take(params.request_state)
            if run is None or run.given != given:
                if run is not None:
                    run.leave()
                why = "the request state is none that was given for this call, or it is too old: call the tool anew"
                raise MCPError(types.INVALID_PARAMS, why, {"reason": "invalid_request_state"})
            return await self._flush_held(ctx, run, params, ask, later=later)
        prompt, session = given.get("prompt"), given.get("session")
        if not isinstance(prompt, str) or not prompt.strip():
            return error_result("prompt must be a text that is not empty")
        about = self._options.ask
        if session is not None:
            found = await asyncio.to_thread(list_saved_sessions, about.place, environ=self._options.environ)
            place = next((info.place for info in found if info.id == session), None)
            if place is None:
                return error_result(f"there is no session {str(session)[:80]!r}; the tool {SESSIONS_TOOL} lists them")
            about = replace(about, session=place)
        options = replace(self._options, ask=about, attended=ask is not None or later, replay=False)
        return await self._flush_held(ctx, None, params, ask, later=later, options=options)

    async def _flush_held(
        self,
        ctx: Context,
        run: ToolRun | None,
        params: types.CallToolRequestParams,
        ask: Ask | None,
        *,
        later: bool,
        options: ChatOptions | None = None,
    ) -> ToolCallOutcome:
        count = 0

        async def progress(text: str) -> None:
            nonlocal count
            count += 1
            await ctx.session.report_progress(count, None, text)

        parked = False
        async with self._free:
            begun, run = run is not None, run or self._runs.open(options or self._options, params.arguments or {})
            try:
                if begun:
                    await run.answer(params.input_responses or {})
                elif refused := await run.begin(str((params.arguments or {}).get("prompt"))):
                    return error_result(refused)
                done = await run.go_on(progress, ask, later=later)
                if isinstance(done, InputRequired):
                    parked = True
                    return _asked(done, self._runs.park(run))
                session = run.session
            finally:
                if not parked:
                    run.leave()
            await self._runs.closed(run)
        return error_result("the server is being stopped") if done is None else run_result(done, session)


def _asked(waits: InputRequired, name: str) -> types.InputRequiredResult:
    return types.InputRequiredResult(
        input_requests={
            id: types.ElicitRequest(params=elicitation_form(asked)) for id, asked in waits.questions.items()
        },
        request_state=name,
    )


def _has_forms(ctx: Context) -> bool:
    can = ctx.session.client_capabilities
    asking = can.elicitation if can is not None else None
    return asking is not None and (asking.form is not None or asking.url is None)


def _supports_input_required(ctx: Context) -> bool:
    """Whether the user of the client is asked by an answer that says what is missing; the client calls again then."""
    return ctx.protocol_version >= _INPUT_REQUIRED_VERSION and _has_forms(ctx)


def elicit_callback(ctx: Context) -> Ask | None:
    """Asks the user of the client at once; ``None`` where the client cannot be asked so."""
    if not _has_forms(ctx) or not ctx.session.can_send_request:
        return None

    async def ask(asked: Asked) -> object:
        form = elicitation_form(asked)
        try:
            return await ctx.session.elicit_form(form.message, form.requested_schema)
        except MCPError:
            return None

    return ask


async def serve_mcp(wire: LineTransport, chats: ChatRegistry, options: ChatOptions) -> None:
    """Serve one client to its end; its runs end with it.

    Args:
        wire: Its lines.
        chats: Where those of its runs are known.
        options: How chats are opened.
    """
    async with asyncio.TaskGroup() as tasks:
        runs = ToolRunPool(tasks, chats)
        server = McpAgentServer(options, runs).server
        try:
            await server.run(
                ReadStream(wire), WriteStream(wire), server.create_initialization_options(NotificationOptions())
            )
        except* BrokenPipeError:
            pass  # the client has gone
        finally:
            runs.stop()
