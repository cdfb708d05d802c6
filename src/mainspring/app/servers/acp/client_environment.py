"""Terminals of the editor, in which commands run before the eyes of its user.

The files that the editor has open, asked for over the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from acp import Client, RequestError, schema

_PATIENCE = 5.0
"""Seconds that the editor has to open a terminal."""


_DISPLAY_SECONDS = 2.0
"""Seconds in which the editor has to be told which call a terminal belongs to, before it is released."""


class ClientTerminals:
    """The terminals of one session. The `Terminals` of an environment.

    Args:
        client: The editor.

    Attributes:
        session: The session, once it has an id.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open: dict[str, asyncio.Event] = {}
        self.session = ""

    async def open(
        self, command: Sequence[str], *, cwd: str, variables: Mapping[str, str], keep: int
    ) -> ClientTerminal | None:
        """Run a program in a new terminal; ``None`` where the editor does not open one."""
        try:
            async with asyncio.timeout(_PATIENCE):
                made = await self._client.create_terminal(
                    session_id=self.session,
                    command=command[0],
                    args=list(command[1:]),
                    env=[schema.EnvVariable(name=name, value=value) for name, value in sorted(variables.items())],
                    cwd=cwd,
                    output_byte_limit=keep,
                )
        except (RequestError, TimeoutError, ConnectionError, ValueError):
            return None
        self._open[made.terminal_id] = told = asyncio.Event()
        return ClientTerminal(self._client, self.session, made.terminal_id, told)

    def is_open(self, id: str) -> bool:
        """Whether it is one of these."""
        return id in self._open

    def mark_displayed(self, id: str) -> None:
        """The editor knows which call a terminal belongs to: it may be released, and goes on to be shown there."""
        if (event := self._open.get(id)) is not None:
            event.set()


class ClientTerminal:
    """A program in a terminal of the editor. The `Terminal` of an environment."""

    def __init__(self, client: Client, session: str, id: str, told: asyncio.Event) -> None:
        self._client = client
        self._session = session
        self._told = told
        self.id = id

    async def wait_exit(self) -> tuple[int | None, str | None]:
        """Wait for the end of the program: its code, or the signal that ended it."""
        async with _errors_as_os_error():
            exit = await self._client.wait_for_terminal_exit(session_id=self._session, terminal_id=self.id)
            return exit.exit_code, exit.signal

    async def output(self) -> tuple[str, bool]:
        """What it has written, and whether its beginning is lost."""
        async with _errors_as_os_error():
            output = await self._client.terminal_output(session_id=self._session, terminal_id=self.id)
            return output.output, output.truncated

    async def kill(self) -> None:
        """End the program; the terminal stays."""
        async with _errors_as_os_error():
            await self._client.kill_terminal(session_id=self._session, terminal_id=self.id)

    async def release(self) -> None:
        """Let go of the terminal."""
        try:
            async with asyncio.timeout(_DISPLAY_SECONDS):
                await self._told.wait()
        except TimeoutError:
            pass
        async with _errors_as_os_error():
            await self._client.release_terminal(session_id=self._session, terminal_id=self.id)


@asynccontextmanager
async def _errors_as_os_error() -> AsyncGenerator[None]:
    """Whatever goes wrong over there is an error of the outside, like one of a disk."""
    try:
        yield
    except (RequestError, ValueError) as error:
        raise OSError(5, f"terminal of the editor: {error}") from error


_TIMEOUT_SECONDS = 5.0
"""Seconds until a file of the disk takes the place of one that the editor does not give."""


class ClientFiles:
    """Texts of the editor. The `Buffers` of an environment.

    Args:
        client: The editor.
        capabilities: What it lets agents do with files.

    Attributes:
        session: The session, once it has an id.
    """

    def __init__(self, client: Client, capabilities: schema.FileSystemCapabilities) -> None:
        self._client = client
        self._has_tools = capabilities
        self.session = ""

    async def read(self, path: str) -> str | None:
        """The text as the editor has it."""
        if not self.session or not self._has_tools.read_text_file:
            return None
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return (await self._client.read_text_file(session_id=self.session, path=path)).content
        except (RequestError, TimeoutError, ConnectionError, ValueError):
            return None

    async def write(self, path: str, text: str) -> bool:
        """Have the editor put a text in place of a file's."""
        if not self.session or not self._has_tools.write_text_file:
            return False
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                await self._client.write_text_file(session_id=self.session, path=path, content=text)
        except (RequestError, TimeoutError, ConnectionError, ValueError):
            return False
        return True
