"""An editor in the same process as the agent, with a scripted model."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, schema
from acp.client.connection import ClientSideConnection

from mainspring.app.chat import ChatOptions
from mainspring.app.run.options import LaunchOptions, WorkspaceOptions
from mainspring.app.servers.acp.agent import serve_acp
from mainspring.app.servers.stdio import ChatRegistry
from mainspring.testing.scripted_model import ScriptedModel
from tests.helpers.memory_lines import MemoryLines
from tests.unit.app.servers.acp.schema_rules import Watch


class Editor:
    """An editor whose user gives the answers of the test."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[Any] = []
        self.offered: list[list[str]] = []
        self.kinds: list[list[str]] = []
        self.open: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.terminals: dict[str, FakeTerminal] = {}
        self.fills: list[dict[str, Any] | None] = []
        self.forms: list[str] = []
        self.no_terminals = False
        self.watch = Watch()
        self.waits = asyncio.Event()
        self.seen = asyncio.Condition()

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        async with self.seen:
            self.updates.append((session_id, update))
            self.seen.notify_all()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append(tool_call)
        self.offered.append([option.option_id for option in options])
        self.kinds.append([option.kind for option in options])
        self.waits.set()
        if not self.answers:
            await asyncio.Event().wait()
        chosen = self.answers.pop(0)
        if not chosen:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append(message)
        content = self.fills.pop(0)
        if content is None:
            return schema.DeclineElicitationResponse(action="decline")
        return schema.AcceptElicitationResponse(action="accept", content=content)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        if path not in self.open:
            raise RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.open[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        self.written[path] = self.open[path] = content
        Path(path).write_text(content)
        return schema.WriteTextFileResponse()

    # --- terminals ----------------------------------------------------------------------------------------------------

    async def create_terminal(
        self, session_id: str, command: str, args: Any = None, env: Any = None, cwd: Any = None, **more: Any
    ) -> Any:
        if self.no_terminals:
            raise RequestError.internal_error({"details": "no terminal is left"})
        created = await FakeTerminal.start(
            command, args or [], env or [], cwd, more.get("output_byte_limit") or 1 << 20
        )
        self.terminals[f"t{len(self.terminals) + 1}"] = created
        return schema.CreateTerminalResponse(terminal_id=f"t{len(self.terminals)}")

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        return self.terminals[terminal_id].output()

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        code, signal = await self.terminals[terminal_id].wait_for_exit()
        return schema.WaitForTerminalExitResponse(exit_code=code, signal=signal)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.terminals[terminal_id].kill()
        return schema.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        self.terminals[terminal_id].released = terminal_id in self.embedded_terminal_ids()
        self.terminals[terminal_id].kill()
        return schema.ReleaseTerminalResponse()

    # --- for assertions -----------------------------------------------------------------------------------------------

    def of(self, kind: str, session: str = "") -> list[Any]:
        return [u for s, u in self.updates if u.session_update == kind and session in ("", s)]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.of(kind))

    async def until_shown(self, *names: str) -> None:
        """Wait until terminals (by default the first) belong to calls and have printed output."""
        requested = names or ("t1",)
        async with self.seen:
            await self.seen.wait_for(lambda: set(requested) <= set(self.embedded_terminal_ids()))
        for name in requested:
            await self.terminals[name].begun.wait()

    def embedded_terminal_ids(self) -> list[str]:
        """Return the IDs of terminals that belong to calls."""
        updates = self.of("tool_call_update")
        return [c.terminal_id for u in updates for c in u.content or () if c.type == "terminal"]

    async def until(self, kind: str) -> Any:
        async with self.seen:
            await self.seen.wait_for(lambda: self.of(kind))
        return self.of(kind)[-1]


class FakeTerminal:
    """A terminal of the editor that runs a program.

    Attributes:
        released: Whether the agent released the terminal after the update that names its tool call.
        closed: Whether the user closed the terminal.
        begun: Set when the first output arrives.
    """

    def __init__(self, process: asyncio.subprocess.Process, command: list[str], keep: int) -> None:
        self.process = process
        self.command = command
        self.released = False
        self.closed = False
        self._keep = keep
        self._written = b""
        self.begun = asyncio.Event()
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, command: str, args: list[str], env: list[Any], cwd: str, keep: int) -> "FakeTerminal":
        process = await asyncio.create_subprocess_exec(
            command,
            *args,
            env={**os.environ, **{each.name: each.value for each in env}},
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        return cls(process, [command, *args], keep)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(1 << 16):
            self._written += data
            self.begun.set()

    def output(self) -> schema.TerminalOutputResponse:
        stored = self._written[-self._keep :].decode(errors="ignore")
        return schema.TerminalOutputResponse(output=stored, truncated=len(self._written) > self._keep)

    async def wait_for_exit(self) -> tuple[int | None, str | None]:
        await self._reading
        code = await self.process.wait()
        if self.closed:
            return None, None
        return (code, None) if code >= 0 else (None, signal.Signals(-code).name)

    def kill(self) -> None:
        if self.process.returncode is None:
            with suppress(ProcessLookupError):  # the process has already ended
                os.killpg(self.process.pid, signal.SIGKILL)


async def ask(connection: ClientSideConnection, method: str, **params: Any) -> Any:
    """Call a method of the agent that the client package does not have."""
    return await connection._conn.send_request(method, params)


async def notify(connection: ClientSideConnection, method: str, **params: Any) -> None:
    """Send the agent a notification that the client package does not have."""
    await connection._conn.send_notification(method, params)


def client_capabilities(
    *, files: bool = False, terminal: bool = False, forms: bool = False
) -> schema.ClientCapabilities:
    return schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(read_text_file=files, write_text_file=files),
        terminal=terminal,
        elicitation=schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()) if forms else None,
    )


class Line:
    """In-memory lines between a client and the agent; the `Transport` of the client."""

    def __init__(self) -> None:
        self.lines = MemoryLines()

    async def send(self, message: dict[str, Any]) -> None:
        self.lines.send_line(json.dumps(message).encode())

    async def receive(self) -> dict[str, Any] | None:
        line = await self.lines.written()
        return json.loads(line) if line else None

    async def close(self) -> None:
        self.lines.feed(b"")


def options_for(folder: Path, home: Path, model: Any, **more: Any) -> ChatOptions:
    """Return the options of chats in a test."""
    return ChatOptions(
        ask=LaunchOptions(prompt="", place=WorkspaceOptions(cwd=str(folder), offline=True)),
        environ={"MAINSPRING_HOME": str(home / ".agent"), "HOME": str(home), "PATH": "/usr/bin:/bin"},
        model=model,
        **more,
    )


@asynccontextmanager
async def serving(options: ChatOptions) -> AsyncGenerator[Line]:
    """Serve the agent on a line until the end of the block."""
    line = Line()
    task = asyncio.create_task(serve_acp(line.lines.wire, ChatRegistry(), options))
    try:
        yield line
    finally:
        await line.close()
        await task
        line.lines.end_output()


@asynccontextmanager
async def run_client(
    folder: Path,
    home: Path,
    editor: Editor,
    *script: Any,
    files: bool = False,
    terminal: bool = False,
    forms: bool = False,
    **more: Any,
) -> AsyncGenerator[tuple[ClientSideConnection, Any]]:
    """Connect an editor; yield the connection and the model."""
    model = script[0] if len(script) == 1 and isinstance(script[0], ScriptedModel) else ScriptedModel(*script)
    async with serving(options_for(folder, home, model, **more)) as line:
        client: Any = editor  # implements only the methods that the tests use
        async with connect_to_agent(client, line, use_unstable_protocol=True, observers=[editor.watch]) as connection:
            can = client_capabilities(files=files, terminal=terminal, forms=forms)
            await connection.initialize(PROTOCOL_VERSION, client_capabilities=can)
            yield connection, model
    for each in editor.terminals.values():
        if each.released:
            await each.process.wait()  # the event loop must know of the end before it closes
    editor.watch.check()
