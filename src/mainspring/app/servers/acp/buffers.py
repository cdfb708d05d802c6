"""The files that the editor has open, asked for over the protocol."""

from __future__ import annotations

import asyncio

from acp import Client, RequestError, schema

_PATIENCE = 5.0
"""Seconds until a file of the disk takes the place of one that the editor does not give."""


class ClientBuffers:
    """Texts of the editor. The `Buffers` of an environment.

    Args:
        client: The editor.
        offered: What it lets agents do with files.

    Attributes:
        session: The session, once it has an id.
    """

    def __init__(self, client: Client, offered: schema.FileSystemCapabilities) -> None:
        self._client = client
        self._offered = offered
        self.session = ""

    async def read(self, path: str) -> str | None:
        """The text as the editor has it."""
        if not self.session or not self._offered.read_text_file:
            return None
        try:
            async with asyncio.timeout(_PATIENCE):
                return (await self._client.read_text_file(session_id=self.session, path=path)).content
        except (RequestError, TimeoutError, ConnectionError, ValueError):
            return None

    async def write(self, path: str, text: str) -> bool:
        """Have the editor put a text in place of a file's."""
        if not self.session or not self._offered.write_text_file:
            return False
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._client.write_text_file(session_id=self.session, path=path, content=text)
        except (RequestError, TimeoutError, ConnectionError, ValueError):
            return False
        return True
