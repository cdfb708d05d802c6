"""The agent as an MCP server: a tool call is a run, progress and cancellation are those of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

from mcp import MCPError, types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from msgspec.structs import replace

from mainspring import __version__
from mainspring.app.server.mcp.runs import Decide, Runs, run_to_end
from mainspring.app.server.mcp.streams import Incoming, Outgoing
from mainspring.app.server.mcp.tools import RUN, SESSIONS, TOOLS, failed, listed, result_of
from mainspring.app.server.running import OpenChats
from mainspring.app.server.stdio import Wire
from mainspring.app.server.words import diff_text
from mainspring.errors import MainspringError
from mainspring.runtime.chat import ChatOptions
from mainspring.runtime.chat.events import ApprovalAsked
from mainspring.runtime.chat.words import Decision
from mainspring.runtime.commands.sessions import saved_sessions

MOST_RUNS = 8
"""Runs at the same time; further calls wait."""
_LONGEST = 6_000

Context = ServerRequestContext[Any]


class AgentServer:
    """Answers one client.

    Args:
        options: How chats are opened.
        runs: Where they live.
    """

    def __init__(self, options: ChatOptions, runs: Runs) -> None:
        self._options = options
        self._runs = runs
        self._free = asyncio.Semaphore(MOST_RUNS)
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

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        try:
            match params.name:
                case "run":
                    return await self._run(ctx, given)
                case "sessions":
                    return await self._sessions(given)
                case name:
                    return failed(f"there is no tool {name[:80]!r}; there are {RUN} and {SESSIONS}")
        except (MainspringError, OSError) as error:
            return failed(str(error))

    async def _sessions(self, given: dict[str, Any]) -> types.CallToolResult:
        limit = given.get("limit", 20)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= 100:
            return failed("limit must be a whole number from 1 to 100")
        found = await asyncio.to_thread(saved_sessions, self._options.ask.place, environ=self._options.environ)
        return listed([info for info in found if not info.problem][:limit])

    async def _run(self, ctx: Context, given: dict[str, Any]) -> types.CallToolResult:
        prompt, session = given.get("prompt"), given.get("session")
        if not isinstance(prompt, str) or not prompt.strip():
            return failed("prompt must be a text that is not empty")
        ask = self._options.ask
        if session is not None:
            found = await asyncio.to_thread(saved_sessions, ask.place, environ=self._options.environ)
            place = next((info.place for info in found if info.id == session), None)
            if place is None:
                return failed(f"there is no session {str(session)[:80]!r}; the tool {SESSIONS} lists them")
            ask = replace(ask, session=place)
        decide = asker(ctx)
        options = replace(self._options, ask=ask, attended=decide is not None, replay=False)
        count = 0

        async def progress(text: str) -> None:
            nonlocal count
            count += 1
            await ctx.session.report_progress(count, None, text)

        async with self._free, self._runs.open(options) as chat:
            finished = await run_to_end(chat, prompt, decide, progress)
            session = chat.status.session_id
        return failed("the server is being stopped") if finished is None else result_of(finished, session)


def asker(ctx: Context) -> Decide | None:
    """Asks the user of the client about calls; ``None`` where the client cannot ask anybody."""
    can = ctx.session.client_capabilities
    if can is None or can.elicitation is None or not ctx.session.can_send_request:
        return None

    async def decide(asked: ApprovalAsked) -> Decision:
        choices = ["once", "session", "deny"]
        if asked.suggestions:
            choices[2:2] = ["always"]
            choices.append("never")
        try:
            answer = await ctx.session.elicit_form(
                _question(asked),
                {"type": "object", "properties": {"decision": _field(choices)}, "required": ["decision"]},
            )
        except MCPError:
            return "deny"
        chosen = (answer.content or {}).get("decision") if answer.action == "accept" else None
        return next((d for d in get_args(Decision) if d == chosen and d in choices), "deny")

    return decide


def _field(choices: list[str]) -> dict[str, Any]:
    return {
        "type": "string",
        "title": "Decision",
        "enum": choices,
        "description": "always and never are saved as rules",
    }


def _question(asked: ApprovalAsked) -> str:
    parts = [f"The agent wants to {asked.action} {asked.resource} ({asked.display}).", asked.reason]
    parts += [diff_text(diff) for diff in asked.diffs]
    if asked.suggestions:
        parts.append(f"always and never save: {', '.join(asked.suggestions)}")
    return "\n\n".join(part for part in parts if part)[:_LONGEST]


async def serve_mcp(wire: Wire, chats: OpenChats, options: ChatOptions) -> None:
    """Serve one client to its end; its runs end with it.

    Args:
        wire: Its lines.
        chats: Where those of its runs are known.
        options: How chats are opened.
    """
    async with asyncio.TaskGroup() as tasks:
        runs = Runs(tasks, chats)
        server = AgentServer(options, runs).server
        try:
            await server.run(
                Incoming(wire), Outgoing(wire), server.create_initialization_options(NotificationOptions())
            )
        except* BrokenPipeError:
            pass  # the client has gone
        finally:
            runs.stop()
