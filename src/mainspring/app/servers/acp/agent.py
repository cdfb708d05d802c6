"""The agent as a client of the protocol sees it: what it can do, and its sessions."""

from __future__ import annotations

import asyncio
import os
from typing import Any, NoReturn

from acp import PROTOCOL_VERSION, Client, RequestError, run_agent, schema
from msgspec.structs import replace

from mainspring import __version__
from mainspring.app.chat import ChatOptions
from mainspring.app.run.options import LaunchOptions, WorkspaceOptions
from mainspring.app.servers.acp.session import AcpSession, PromptBlock
from mainspring.app.servers.acp.transport import CANCEL, DELETE, AcpTransport
from mainspring.app.servers.stdio import ChatRegistry, LineTransport
from mainspring.app.workspace.saved_sessions import list_saved_sessions, remove_session
from mainspring.errors import MainspringError
from mainspring.redaction import redact_environment

Servers = list[schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio]
FolderList = list[str]
_PAGE_SIZE = 50


class AcpAgent:
    """Answers one client. An `Agent` of the ``acp`` package.

    Args:
        tasks: Where its sessions live.
        transport: Where what is told of a session waits until the client knows the session.
        chats: Where those of the sessions are known.
        options: How chats are opened.
    """

    def __init__(
        self, tasks: asyncio.TaskGroup, transport: AcpTransport, chats: ChatRegistry, options: ChatOptions
    ) -> None:
        self._tasks = tasks
        self._transport = transport
        self._chats = chats
        self._ask = options.ask
        self._options = options
        self._client: Client | None = None
        self._has_tools = schema.ClientCapabilities()
        self._sessions: dict[str, AcpSession] = {}
        self._opening: set[AcpSession] = set()

    def on_connect(self, conn: Client) -> None:
        """Take up the connection."""
        self._client = conn

    async def stop(self) -> None:
        """End every session."""
        for session in [*self._sessions.values(), *self._opening]:
            await session.stop()

    # --- the beginning ----------------------------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **kwargs: Any,
    ) -> schema.InitializeResponse:
        """Say what can be done here."""
        self._has_tools = client_capabilities or schema.ClientCapabilities()
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="mainspring", title="Mainspring", version=__version__),
            auth_methods=[],
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    delete=schema.SessionDeleteCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                    additional_directories=schema.SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
        )

    async def authenticate(self, method_id: str, **kwargs: Any) -> schema.AuthenticateResponse:
        """Nothing is to be proved: keys of models are those of the user's settings."""
        return schema.AuthenticateResponse()

    # --- sessions ---------------------------------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: str,
        additional_directories: FolderList | None = None,
        mcp_servers: Servers | None = None,
        **kwargs: Any,
    ) -> schema.NewSessionResponse:
        """Begin a session."""
        further = _folders(additional_directories)
        made = await self._open(self._launch_options(cwd, further), mcp_servers, cwd, further)
        status = made.chat.status
        return schema.NewSessionResponse(
            session_id=made.id, modes=made.choices.modes(status), config_options=made.choices.options(status)
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Servers | None = None,
        additional_directories: FolderList | None = None,
        **kwargs: Any,
    ) -> schema.LoadSessionResponse:
        """Go on with a session, and tell all that was said in it before."""
        made = await self._reopen(cwd, session_id, mcp_servers, _folders(additional_directories), replay=True)
        status = made.chat.status
        return schema.LoadSessionResponse(modes=made.choices.modes(status), config_options=made.choices.options(status))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: FolderList | None = None,
        mcp_servers: Servers | None = None,
        **kwargs: Any,
    ) -> schema.ResumeSessionResponse:
        """Go on with a session that the client shows already."""
        made = await self._reopen(cwd, session_id, mcp_servers, _folders(additional_directories), replay=False)
        status = made.chat.status
        return schema.ResumeSessionResponse(
            modes=made.choices.modes(status), config_options=made.choices.options(status)
        )

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: FolderList | None = None,
        mcp_servers: Servers | None = None,
        **kwargs: Any,
    ) -> schema.ForkSessionResponse:
        """Begin a session with a copy of another."""
        further = _folders(additional_directories)
        ask = self._launch_options(cwd, further, session=await self._saved_folder(session_id), fork=True)
        made = await self._open(ask, mcp_servers, cwd, further, replay=False)
        status = made.chat.status
        return schema.ForkSessionResponse(
            session_id=made.id, modes=made.choices.modes(status), config_options=made.choices.options(status)
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> schema.ListSessionsResponse:
        """The saved sessions of a folder, or of all, last used first."""
        if cursor is not None and not (cursor.isdecimal() and len(cursor) < 9):
            raise RequestError.invalid_params({"details": "the cursor is none that was given"})
        if cwd is not None:
            _check_folder(cwd)
        place = WorkspaceOptions(cwd=cwd or self._ask.place.cwd, offline=self._ask.place.offline)
        try:
            found = await asyncio.to_thread(
                list_saved_sessions, place, everywhere=cwd is None, environ=self._options.environ
            )
        except MainspringError as error:
            _raise_request_error(error)
        first = int(cursor or 0)
        shown = [info for info in found if not info.problem]
        page = shown[first : first + _PAGE_SIZE]
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=info.id,
                    cwd=info.cwd or place.cwd or os.getcwd(),
                    title=info.title or info.preview or None,
                    updated_at=info.updated.isoformat() if info.updated else None,
                )
                for info in page
            ],
            next_cursor=str(first + _PAGE_SIZE) if len(shown) > first + _PAGE_SIZE else None,
        )

    async def _delete(self, id: str) -> None:
        """Remove a session for good. One that is not there any more is removed already."""
        if id in self._sessions:
            await self._close(self._sessions[id])
        place = await self._find_saved(id)
        if place is None:
            return
        try:
            await asyncio.to_thread(remove_session, place, self._ask.place, environ=self._options.environ)
        except MainspringError as error:
            _raise_request_error(error)

    async def close_session(self, session_id: str, **kwargs: Any) -> schema.CloseSessionResponse:
        """End a session; it stays on disk."""
        await self._close(self._session(session_id))
        return schema.CloseSessionResponse()

    # --- in a session -----------------------------------------------------------------------------------------------

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **kwargs: Any) -> schema.PromptResponse:
        """Say something, and wait for the end of what comes of it."""
        return schema.PromptResponse(stop_reason=await self._session(session_id).prompt(prompt))

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """Stop the prompt that goes on."""
        await self._session(session_id).cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **kwargs: Any) -> schema.SetSessionModeResponse:
        """Work, or plan."""
        session = self._session(session_id)
        await session.apply_command(session.choices.to_command("mode", mode_id))
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Choose the mode, the model or how much it reasons."""
        session = self._session(session_id)
        await session.apply_command(session.choices.to_command(config_id, value))
        return schema.SetSessionConfigOptionResponse(config_options=session.choices.options(session.chat.status))

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """There are no methods beside those of the protocol; one of them the package hands on in this way."""
        if method != DELETE:
            raise RequestError.method_not_found(f"_{method}")
        await self._delete(schema.DeleteSessionRequest.model_validate(params).session_id)
        return {}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """A request of the client is taken back: a prompt is cancelled, anything else is soon done. What is not known is passed over."""
        if method == CANCEL:
            request = schema.CancelRequestNotification.model_validate(params).request_id
            session = self._sessions.get(self._transport.session_for_request(request))
            if session is not None:
                await session.cancel()

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _session(self, id: str) -> AcpSession:
        found = self._sessions.get(id)
        if found is None:
            raise RequestError(-32002, f"there is no open session {id[:200]!r}; begin or load it first")
        return found

    def _launch_options(
        self, cwd: str, additional_folders: FolderList, *, session: str | None = None, fork: bool = False
    ) -> LaunchOptions:
        _check_folder(cwd)
        place = WorkspaceOptions(cwd=cwd, offline=self._ask.place.offline)
        rules = self._ask.rules  # what lies in a further folder may be read as what lies in the project
        allowed = [f"scope:fs-read({folder}/**)" for folder in additional_folders if not {"*", "?"} & set(folder)]
        rules = replace(rules, allow=(*rules.allow, *allowed))
        return replace(self._ask, place=place, rules=rules, session=session, fork=fork)

    async def _reopen(
        self, cwd: str, id: str, servers: Servers | None, additional_folders: FolderList, *, replay: bool
    ) -> AcpSession:
        _check_folder(cwd)
        open_one = self._sessions.get(id)
        if open_one is not None:
            await self._close(open_one)
        ask = self._launch_options(cwd, additional_folders, session=await self._saved_folder(id))
        return await self._open(ask, servers, cwd, additional_folders, id=id, replay=replay)

    async def _saved_folder(self, id: str) -> str:
        place = await self._find_saved(id)
        if place is None:
            raise RequestError(-32002, f"there is no session {id[:200]!r}; session/list has those that are kept")
        return place

    async def _find_saved(self, id: str) -> str | None:
        """Where a session is kept. Only by its id: a client cannot name a file."""
        try:
            found = await asyncio.to_thread(
                list_saved_sessions, self._ask.place, everywhere=True, environ=self._options.environ
            )
        except MainspringError as error:
            _raise_request_error(error)
        return next((info.place for info in found if info.id == id), None)

    async def _open(
        self,
        ask: LaunchOptions,
        servers: Servers | None,
        cwd: str,
        additional_folders: FolderList,
        *,
        id: str = "",
        replay: bool = True,
    ) -> AcpSession:
        assert self._client is not None
        hold = None if id else self._transport.hold_notifications
        session = AcpSession(
            self._client,
            self._has_tools,
            cwd,
            additional_folders,
            id=id,
            hold_notifications=hold,
            cancel_requests=self._transport.cancel_outgoing_requests,
        )
        options = replace(
            self._options,
            ask=ask,
            replay=replay,
            buffers=session.buffers,
            terminals=session.terminals,
            mcp_servers=_servers(servers or []),
        )
        self._opening.add(session)
        self._tasks.create_task(session.run(self._chats, options))
        try:
            await session.wait_opened(replayed=bool(id) and replay)
        except BaseException:
            await session.stop()
            raise
        finally:
            self._opening.discard(session)
        self._sessions[session.id] = session
        return session

    async def _close(self, session: AcpSession) -> None:
        self._sessions.pop(session.id, None)
        await session.stop()
        await session.wait_closed()


def _raise_request_error(error: MainspringError) -> NoReturn:
    raise RequestError.invalid_params({"details": redact_environment(str(error))}) from error


def _check_folder(cwd: str, name: str = "cwd") -> None:
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise RequestError.invalid_params({"details": f"{name} must be an absolute path, not {cwd[:200]!r}"})
    if not os.path.isdir(cwd):
        raise RequestError.invalid_params({"details": f"{name}: there is no folder {cwd[:200]!r}"})


def _folders(folder_list: FolderList | None) -> FolderList:
    """The further folders of a workspace, as they are on disk.

    Raises:
        RequestError: If one is none.
    """
    for folder in folder_list or ():
        _check_folder(folder, "additionalDirectories")
    return [os.path.realpath(folder) for folder in folder_list or ()]


def _servers(server_configs: Servers) -> dict[str, Any]:
    """MCP servers of the client, as an ``mcp.json`` has them.

    Raises:
        RequestError: If one is of a kind that was not offered.
    """
    found: dict[str, Any] = {}
    for server in server_configs:
        match server:
            case schema.McpServerStdio():
                variables = {variable.name: variable.value for variable in server.env}
                found[server.name] = {"command": server.command, "args": server.args, "env": variables}
            case schema.HttpMcpServer() | schema.SseMcpServer():
                headers = {header.name: header.value for header in server.headers}
                found[server.name] = {"type": server.type, "url": server.url, "headers": headers}
            case _:
                reason = f"the MCP server {server.name!r} is of a kind that is not known here"
                raise RequestError.invalid_params({"details": reason})
    return found


async def serve_acp(wire: LineTransport, chats: ChatRegistry, options: ChatOptions) -> None:
    """Serve one client to its end; its sessions end with it.

    Args:
        wire: Its lines.
        chats: Where those of its sessions are known.
        options: How chats are opened; folder and session are the client's.
    """
    transport = AcpTransport(wire)
    async with asyncio.TaskGroup() as tasks:
        agent = AcpAgent(tasks, transport, chats, options)
        try:
            await run_agent(agent, transport, use_unstable_protocol=True)
        finally:
            await agent.stop()
