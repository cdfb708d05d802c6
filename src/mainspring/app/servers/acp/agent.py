"""The agent side of the Agent Client Protocol: capabilities and sessions."""

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
from mainspring.app.servers.stdio import ChatRegistry
from mainspring.app.workspace.saved_sessions import list_saved_sessions, remove_session
from mainspring.errors import MainspringError
from mainspring.line_transport import LineTransport
from mainspring.redaction import redact_environment

Servers = list[schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio]
FolderList = list[str]
_PAGE_SIZE = 50


class AcpAgent:
    """The agent of one client. Implements `Agent` of the ``acp`` package.

    Args:
        tasks: Task group that runs the sessions.
        transport: Transport that delays notifications until the client knows the session.
        chats: Registry of the sessions' chats.
        options: Options with which chats are opened.
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
        self._capabilities = schema.ClientCapabilities()
        self._sessions: dict[str, AcpSession] = {}
        self._opening: set[AcpSession] = set()

    def on_connect(self, conn: Client) -> None:
        """Store the connection to the client."""
        self._client = conn

    async def stop(self) -> None:
        """Stop all sessions."""
        for session in [*self._sessions.values(), *self._opening]:
            await session.stop()

    # --- connection -------------------------------------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **kwargs: Any,
    ) -> schema.InitializeResponse:
        """Report the agent's capabilities."""
        self._capabilities = client_capabilities or schema.ClientCapabilities()
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
        """Accept the client without a check: model API keys come from the user's settings."""
        return schema.AuthenticateResponse()

    # --- sessions ---------------------------------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: str,
        additional_directories: FolderList | None = None,
        mcp_servers: Servers | None = None,
        **kwargs: Any,
    ) -> schema.NewSessionResponse:
        """Create a session."""
        further = _folders(additional_directories)
        session = await self._open(self._launch_options(cwd, further), mcp_servers, cwd, further)
        status = session.chat.status
        return schema.NewSessionResponse(
            session_id=session.id, modes=session.choices.modes(status), config_options=session.choices.options(status)
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Servers | None = None,
        additional_directories: FolderList | None = None,
        **kwargs: Any,
    ) -> schema.LoadSessionResponse:
        """Resume a session, and replay its history."""
        session = await self._reopen(cwd, session_id, mcp_servers, _folders(additional_directories), replay=True)
        status = session.chat.status
        return schema.LoadSessionResponse(
            modes=session.choices.modes(status), config_options=session.choices.options(status)
        )

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: FolderList | None = None,
        mcp_servers: Servers | None = None,
        **kwargs: Any,
    ) -> schema.ResumeSessionResponse:
        """Resume a session that the client already displays."""
        session = await self._reopen(cwd, session_id, mcp_servers, _folders(additional_directories), replay=False)
        status = session.chat.status
        return schema.ResumeSessionResponse(
            modes=session.choices.modes(status), config_options=session.choices.options(status)
        )

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: FolderList | None = None,
        mcp_servers: Servers | None = None,
        **kwargs: Any,
    ) -> schema.ForkSessionResponse:
        """Fork a session."""
        further = _folders(additional_directories)
        ask = self._launch_options(cwd, further, session=await self._saved_folder(session_id), fork=True)
        session = await self._open(ask, mcp_servers, cwd, further, replay=False)
        status = session.chat.status
        return schema.ForkSessionResponse(
            session_id=session.id, modes=session.choices.modes(status), config_options=session.choices.options(status)
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: Any
    ) -> schema.ListSessionsResponse:
        """List the saved sessions of a folder, or of all folders, the most recently used first."""
        if cursor is not None and not (cursor.isdecimal() and len(cursor) < 9):
            raise RequestError.invalid_params(
                {"details": "Invalid cursor. Use the nextCursor of the previous response."}
            )
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
        """Delete a session permanently. A session that no longer exists counts as deleted."""
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
        """Close a session; it stays on disk."""
        await self._close(self._session(session_id))
        return schema.CloseSessionResponse()

    # --- requests within a session ----------------------------------------------------------------------------------

    async def prompt(self, session_id: str, prompt: list[PromptBlock], **kwargs: Any) -> schema.PromptResponse:
        """Send a prompt to a session, and wait until its run stops."""
        return schema.PromptResponse(stop_reason=await self._session(session_id).prompt(prompt))

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """Cancel the prompt that is running."""
        await self._session(session_id).cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **kwargs: Any) -> schema.SetSessionModeResponse:
        """Set the mode: work or plan."""
        session = self._session(session_id)
        await session.apply_command(session.choices.to_command("mode", mode_id))
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **kwargs: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Set the mode, the model, or the reasoning effort."""
        session = self._session(session_id)
        await session.apply_command(session.choices.to_command(config_id, value))
        return schema.SetSessionConfigOptionResponse(config_options=session.choices.options(session.chat.status))

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Reject all extension methods, except the protocol method that the package passes on as an extension."""
        if method != DELETE:
            raise RequestError.method_not_found(f"_{method}")
        await self._delete(schema.DeleteSessionRequest.model_validate(params).session_id)
        return {}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Handle a cancelled request: cancel a prompt, and ignore any other request, which ends soon anyway, and any unknown notification."""
        if method == CANCEL:
            request = schema.CancelRequestNotification.model_validate(params).request_id
            session = self._sessions.get(self._transport.session_for_request(request))
            if session is not None:
                await session.cancel()

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _session(self, id: str) -> AcpSession:
        found = self._sessions.get(id)
        if found is None:
            raise RequestError(-32002, f"Session {id[:200]!r} is not open. Create or load it first.")
        return found

    def _launch_options(
        self, cwd: str, additional_folders: FolderList, *, session: str | None = None, fork: bool = False
    ) -> LaunchOptions:
        _check_folder(cwd)
        place = WorkspaceOptions(cwd=cwd, offline=self._ask.place.offline)
        rules = self._ask.rules  # files in an additional folder may be read like files of the project
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
            raise RequestError(-32002, f"Session {id[:200]!r} not found. Use session/list to list the saved sessions.")
        return place

    async def _find_saved(self, id: str) -> str | None:
        """Find the file of a saved session by its ID only: a client cannot name a file."""
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
            self._capabilities,
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
        raise RequestError.invalid_params({"details": f"{name} must be an absolute path, not {cwd[:200]!r}."})
    if not os.path.isdir(cwd):
        raise RequestError.invalid_params({"details": f"{name}: folder {cwd[:200]!r} does not exist."})


def _folders(folder_list: FolderList | None) -> FolderList:
    """Return the additional folders of a workspace as real paths.

    Raises:
        RequestError: If one does not exist.
    """
    for folder in folder_list or ():
        _check_folder(folder, "additionalDirectories")
    return [os.path.realpath(folder) for folder in folder_list or ()]


def _servers(server_configs: Servers) -> dict[str, Any]:
    """Convert the client's MCP servers to the form of an ``mcp.json``.

    Raises:
        RequestError: If a server has a transport that the agent does not offer.
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
                reason = f"MCP server {server.name!r} has an unknown transport."
                raise RequestError.invalid_params({"details": reason})
    return found


async def serve_acp(wire: LineTransport, chats: ChatRegistry, options: ChatOptions) -> None:
    """Serve one client until it disconnects, and stop its sessions then.

    Args:
        wire: Transport of the lines.
        chats: Registry of the sessions' chats.
        options: Options with which chats are opened; the client sets the folder and the session.
    """
    transport = AcpTransport(wire)
    async with asyncio.TaskGroup() as tasks:
        agent = AcpAgent(tasks, transport, chats, options)
        try:
            await run_agent(agent, transport, use_unstable_protocol=True)
        finally:
            await agent.stop()
