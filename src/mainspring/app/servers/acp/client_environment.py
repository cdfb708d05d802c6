"""Terminals and open files of the editor, which the client serves over the protocol.

Commands run in the editor's terminals, so that its user can watch them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from acp import Client, RequestError, schema

_PATIENCE = 5.0
"""Maximum number of seconds to wait until the editor opens a terminal."""


_DISPLAY_SECONDS = 2.0
"""Maximum number of seconds to wait until the editor displays a terminal with its tool call, before the terminal is released."""


class ClientTerminals:
    """Terminals of one session. Implements the `Terminals` protocol of an environment.

    Args:
        client: The editor.

    Attributes:
        session: The session, once it has an ID.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open: dict[str, asyncio.Event] = {}
        self.session = ""

    async def open(
        self, command: Sequence[str], *, cwd: str, variables: Mapping[str, str], keep: int
    ) -> ClientTerminal | None:
        """Run a program in a new terminal, or return ``None`` if the editor does not open one."""
        try:
            async with asyncio.timeout(_PATIENCE):
                created = await self._client.create_terminal(
                    session_id=self.session,
                    command=command[0],
                    args=list(command[1:]),
                    env=[schema.EnvVariable(name=name, value=value) for name, value in sorted(variables.items())],
                    cwd=cwd,
                    output_byte_limit=keep,
                )
        except (RequestError, TimeoutError, ConnectionError, ValueError):
            return None
        self._open[created.terminal_id] = displayed = asyncio.Event()
        return ClientTerminal(self._client, self.session, created.terminal_id, displayed)

    def is_open(self, id: str) -> bool:
        """Return True if the terminal is open."""
        return id in self._open

    def mark_displayed(self, id: str) -> None:
        """Record that the editor displays the terminal with its tool call. A released terminal stays visible there."""
        if (event := self._open.get(id)) is not None:
            event.set()


class ClientTerminal:
    """A program in a terminal of the editor. Implements the `Terminal` protocol of an environment."""

    def __init__(self, client: Client, session: str, id: str, displayed: asyncio.Event) -> None:
        self._client = client
        self._session = session
        self._displayed = displayed
        self.id = id

    async def wait_exit(self) -> tuple[int | None, str | None]:
        """Wait until the program ends, and return its exit code or the signal that ended it."""
        async with _errors_as_os_error():
            exit = await self._client.wait_for_terminal_exit(session_id=self._session, terminal_id=self.id)
            return exit.exit_code, exit.signal

    async def output(self) -> tuple[str, bool]:
        """Return the output, and whether its beginning was truncated."""
        async with _errors_as_os_error():
            output = await self._client.terminal_output(session_id=self._session, terminal_id=self.id)
            return output.output, output.truncated

    async def kill(self) -> None:
        """Kill the program; the terminal stays open."""
        async with _errors_as_os_error():
            await self._client.kill_terminal(session_id=self._session, terminal_id=self.id)

    async def release(self) -> None:
        """Release the terminal."""
        try:
            async with asyncio.timeout(_DISPLAY_SECONDS):
                await self._displayed.wait()
        except TimeoutError:
            pass
        async with _errors_as_os_error():
            await self._client.release_terminal(session_id=self._session, terminal_id=self.id)


@asynccontextmanager
async def _errors_as_os_error() -> AsyncGenerator[None]:
    """Convert any error of the editor to an OSError, like an error of a disk."""
    try:
        yield
    except (RequestError, ValueError) as error:
        raise OSError(5, f"Terminal of the editor: {error}") from error


_TIMEOUT_SECONDS = 5.0
"""Maximum number of seconds to wait for a file from the editor before the file on disk is used."""


class ClientFiles:
    """Open files of the editor. Implements the `Buffers` protocol of an environment.

    Args:
        client: The editor.
        capabilities: File operations that the editor offers to agents.

    Attributes:
        session: The session, once it has an ID.
    """

    def __init__(self, client: Client, capabilities: schema.FileSystemCapabilities) -> None:
        self._client = client
        self._capabilities = capabilities
        self.session = ""

    async def read(self, path: str) -> str | None:
        """Return the text of a file as the editor has it."""
        if not self.session or not (self._capabilities.read_text_file and self._capabilities.write_text_file):
            return None  # a change of unsaved text could not be written back, and saving it would undo the change
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return (await self._client.read_text_file(session_id=self.session, path=path)).content
        except (RequestError, TimeoutError, ConnectionError, ValueError):
            return None

    async def write(self, path: str, text: str) -> bool:
        """Replace the text of a file in the editor."""
        if not self.session or not self._capabilities.write_text_file:
            return False
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await self._client.write_text_file(session_id=self.session, path=path, content=text)
        except (RequestError, TimeoutError, ConnectionError, ValueError):
            return False
        return True
