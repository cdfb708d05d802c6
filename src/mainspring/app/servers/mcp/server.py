"""The MCP server: its tools and its transports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from mcp import MCPError, types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.shared.message import SessionMessage
from msgspec.structs import replace

from mainspring import __version__
from mainspring.app.chat import ChatOptions
from mainspring.app.chat.events import error_hint
from mainspring.app.servers.json_rpc import INVALID_MESSAGE, receive_json, send_error
from mainspring.app.servers.mcp.runs import Ask, InputRequired, PendingQuestion, ToolRun, ToolRunPool, elicitation_form
from mainspring.app.servers.stdio import ChatRegistry
from mainspring.app.workspace.saved_sessions import list_saved_sessions
from mainspring.errors import MainspringError
from mainspring.events import AgentEnd, encode
from mainspring.line_transport import LineTransport
from mainspring.redaction import redact_environment

RUN_TOOL = "run"
SESSIONS_TOOL = "sessions"


TOOLS = [
    types.Tool(
        name=RUN_TOOL,
        title="Run a task",
        description=(
            "Give a task to a coding agent that reads, searches, edits and runs commands in its project folder, within its "
            "permissions, and get its answer. It knows nothing of this conversation: include all that matters. With `session` it "
            "continues where an earlier task ended."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "minLength": 1, "description": "The task. @path attaches a file."},
                "session": {"type": "string", "description": "ID of the session to continue; a new one if left out."},
            },
            "required": ["prompt"],
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {
                "answer": {"type": "string"},
                "session": {"type": "string"},
                "status": {"type": "string"},
                "turns": {"type": "integer"},
                "tokens": {"type": "integer"},
                "denied": {"type": "integer"},
                "cost": {"type": ["number", "null"]},
            },
            "required": ["answer", "session", "status"],
        },
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
    ),
    types.Tool(
        name=SESSIONS_TOOL,
        title="List sessions",
        description="The sessions of the agent's project folder, last used first: which `run` can continue.",
        input_schema={
            "type": "object",
            "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}},
            "additionalProperties": False,
        },
        annotations=types.ToolAnnotations(read_only_hint=True),
    ),
]


def run_result(finished: AgentEnd, session: str) -> types.CallToolResult:
    """Convert the outcome of a run to a tool result."""
    answer, stats, denied = finished.text, finished.stats, len(finished.denied)
    cost = stats.usage.cost
    facts: dict[str, Any] = {
        "answer": answer,
        "session": session,
        "status": finished.status,
        "turns": stats.turns,
        "tokens": stats.usage.total_tokens,
        "denied": denied,
        "cost": None if cost is None else round(cost.total, 6),
    }
    notes: list[str] = []
    if finished.status != "completed":
        reason = f": {finished.error.message}" if finished.error else ""
        notes.append(f"The run did not complete ({finished.status}){reason}. {error_hint(finished.error)}".strip())
    if denied:
        notes.append(f"{denied} of its calls were not permitted; start the server with --allow RULE to permit them.")
    if session:
        notes.append(f"(session {session})")
    text = "\n\n".join([part for part in (answer, *notes) if part])
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=facts,
        is_error=finished.status in ("error", "no_output"),
    )


def mcp_error_result(text: str) -> types.CallToolResult:
    """Return a tool result for a call that failed."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=redact_environment(text))], is_error=True)


def sessions_result(sessions: Sequence[Any]) -> types.CallToolResult:
    """Return the sessions as a tool result, one on each line."""
    lines = [
        f"{info.id}  {info.updated:%Y-%m-%d %H:%M}  {' '.join((info.title or info.preview).split())[:100]}"
        if info.updated
        else f"{info.id}  {info.title or info.preview}"
        for info in sessions
    ]
    text = "\n".join(lines) or "No sessions yet."
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


class _Stream:
    async def aclose(self) -> None:
        """Do nothing: the caller of the server owns the lines."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class ReadStream(_Stream):
    """Messages of the client. An invalid line gets an error response and is skipped.

    Args:
        wire: Transport of the lines.
    """

    def __init__(self, wire: LineTransport) -> None:
        self._wire = wire

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            StopAsyncIteration: At the end.
        """
        return await self.__anext__()

    def __aiter__(self) -> ReadStream:
        return self

    async def __anext__(self) -> SessionMessage:
        while (received := await receive_json(self._wire)) is not None:
            try:
                return SessionMessage(types.jsonrpc_message_adapter.validate_json(received[0], by_name=False))
            except (ValueError, RecursionError):
                await send_error(self._wire, INVALID_MESSAGE, "The line is not a JSON-RPC 2.0 message.")
        raise StopAsyncIteration


class WriteStream(_Stream):
    """Messages to the client.

    Args:
        wire: Transport of the lines.
    """

    def __init__(self, wire: LineTransport) -> None:
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message.

        Raises:
            BrokenPipeError: If the client closed the connection.
        """
        await self._wire.send(encode(item.message.model_dump(by_alias=True, exclude_unset=True)))


MAX_RUNS = 8
"""Maximum number of runs at the same time; further calls wait."""
_INPUT_REQUIRED_VERSION = "2026-07-28"
"""First protocol version in which servers send no requests, and return the questions as a result instead."""


Context = ServerRequestContext[Any]
ToolCallOutcome = types.CallToolResult | types.InputRequiredResult


class McpAgentServer:
    """The server of one client.

    Args:
        options: Options with which chats are opened.
        runs: Pool of the client's runs.
    """

    def __init__(self, options: ChatOptions, runs: ToolRunPool) -> None:
        self._options = options
        self._runs = runs
        self._free = asyncio.Semaphore(MAX_RUNS)
        self.server: Server[Any] = Server(
            "mainspring",
            version=__version__,
            title="Mainspring",
            instructions="A coding agent. `run` sends it a task in its project folder; `sessions` lists earlier ones.",
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
                    return mcp_error_result(
                        f"Unknown tool: {name[:80]!r}. Available tools: {RUN_TOOL} and {SESSIONS_TOOL}."
                    )
        except (MainspringError, OSError) as error:
            return mcp_error_result(str(error))

    async def _sessions(self, mapping: dict[str, Any]) -> types.CallToolResult:
        limit = mapping.get("limit", 20)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 100:
            return mcp_error_result("limit must be an integer from 1 to 100.")
        found = await asyncio.to_thread(list_saved_sessions, self._options.ask.place, environ=self._options.environ)
        return sessions_result([info for info in found if not info.problem][:limit])

    async def _run(self, ctx: Context, params: types.CallToolRequestParams) -> ToolCallOutcome:
        given = params.arguments or {}
        ask, later = elicit_callback(ctx), _supports_input_required(ctx)
        if params.request_state is not None:
            run = self._runs.resume(params.request_state)
            if run is None or run.given != given:
                if run is not None:
                    run.stop()
                reason = "The request state is invalid for this call, or it has expired. Call the tool again."
                raise MCPError(types.INVALID_PARAMS, reason, {"reason": "invalid_request_state"})
            return await self._flush_held(ctx, run, params, ask, later=later)
        prompt, session = given.get("prompt"), given.get("session")
        if not isinstance(prompt, str) or not prompt.strip():
            return mcp_error_result("prompt must be a non-empty string.")
        about = self._options.ask
        if session is not None:
            found = await asyncio.to_thread(list_saved_sessions, about.place, environ=self._options.environ)
            place = next((info.place for info in found if info.id == session), None)
            if place is None:
                return mcp_error_result(
                    f"Session {str(session)[:80]!r} not found. List the sessions with the tool {SESSIONS_TOOL}."
                )
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
                elif rejected := await run.begin(str((params.arguments or {}).get("prompt"))):
                    return mcp_error_result(rejected)
                done = await run.advance(progress, ask, can_ask_later=later)
                if isinstance(done, InputRequired):
                    parked = True
                    return _input_required_result(done, self._runs.suspend(run))
                session = run.session
            finally:
                if not parked:
                    run.stop()
            await self._runs.closed(run)
        return mcp_error_result("The server is shutting down.") if done is None else run_result(done, session)


def _input_required_result(waits: InputRequired, name: str) -> types.InputRequiredResult:
    return types.InputRequiredResult(
        input_requests={
            id: types.ElicitRequest(params=elicitation_form(request)) for id, request in waits.questions.items()
        },
        request_state=name,
    )


def _has_forms(ctx: Context) -> bool:
    can = ctx.session.client_capabilities
    asking = can.elicitation if can is not None else None
    return asking is not None and (asking.form is not None or asking.url is None)


def _supports_input_required(ctx: Context) -> bool:
    """Return True if the server returns questions as a result, and the client calls again with the answers."""
    return ctx.protocol_version >= _INPUT_REQUIRED_VERSION and _has_forms(ctx)


def elicit_callback(ctx: Context) -> Ask | None:
    """Return the function that asks the user of the client immediately, or ``None`` if the client does not support it."""
    if not _has_forms(ctx) or not ctx.session.can_send_request:
        return None

    async def ask(question: PendingQuestion) -> object:
        form = elicitation_form(question)
        try:
            return await ctx.session.elicit_form(form.message, form.requested_schema)
        except MCPError:
            return None

    return ask


async def serve_mcp(wire: LineTransport, chats: ChatRegistry, options: ChatOptions) -> None:
    """Serve one client until it disconnects, and stop its runs then.

    Args:
        wire: Transport of the lines.
        chats: Registry of the runs' chats.
        options: Options with which chats are opened.
    """
    async with asyncio.TaskGroup() as tasks:
        runs = ToolRunPool(tasks, chats)
        server = McpAgentServer(options, runs).server
        try:
            await server.run(
                ReadStream(wire), WriteStream(wire), server.create_initialization_options(NotificationOptions())
            )
        except* BrokenPipeError:
            pass  # the client disconnected
        finally:
            runs.stop()
