"""Record what is said to hosts and what they answer, and answer from a recording without a network.

A real run becomes a test: run it once through a `RecordingTransport`, then again through a `ReplayTransport` of the same folder.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from mainspring.errors import ModelError, NetworkError
from mainspring.models.transport.default import default_transport
from mainspring.models.transport.memory import MemoryResponse
from mainspring.models.transport.port import Timeouts, Transport, TransportResponse
from mainspring.models.transport.recording_format import (
    api_for_path,
    first_difference,
    header_secrets,
    is_same_request,
    request_record,
    response_record,
)


class _RecordingResponse:
    """An answer that remembers what was read of it."""

    def __init__(self, answer: TransportResponse) -> None:
        self._answer = answer
        self.pieces: list[bytes] = []
        self.cut = False

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.chunks():
                self.pieces.append(piece)
                yield piece
        except ModelError:
            self.cut = True
            raise


class RecordingTransport:
    """A `Transport` that writes each exchange down, in the form that `replay_exchange` and `ReplayTransport` read.

    Keys do not get into the files: of the headers only harmless ones are kept, keys in the query are removed, and texts that are
    keys, or were sent as one, are masked everywhere. What the conversation itself holds is written as it is.

    Args:
        folder: Where the files go, ``0000.json`` and on; made if need be. Files that are there are not overwritten.
        transport: Sends the requests; by default the one all models share.
        provider: Name to write down as the provider.
    """

    def __init__(self, folder: str | Path, transport: Transport | None = None, *, provider: str = "") -> None:
        self._folder = Path(folder)
        self._own = transport
        self._provider = provider
        self._numbers = count()

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Send a request, and write it down with its answer when that has been read."""
        place = await asyncio.to_thread(self._next_path)
        try:
            async with (self._own or default_transport()).open(method, url, headers, body, timeouts) as answer:
                watched = _RecordingResponse(answer)
                try:
                    yield watched
                finally:
                    asked = request_record(method, url, headers, body)
                    told = response_record(
                        watched.status, watched.headers, watched.pieces, header_secrets(headers), cut=watched.cut
                    )
                    api = api_for_path(asked["path"])
                    exchange = {"provider": self._provider, "api": api, "request": asked, "response": told}
                    text = json.dumps(exchange, ensure_ascii=False, indent=1)
                    await asyncio.shield(asyncio.to_thread(place.write_text, text, encoding="utf-8"))
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_remove_if_empty, place))  # there was no answer at all
            raise

    async def aclose(self) -> None:
        """Close its connections."""
        if self._own is not None:
            await self._own.aclose()

    def _next_path(self) -> Path:
        """The next file that does not exist yet: requests keep their order even if answers do not."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            place = self._folder / f"{next(self._numbers):04}.json"
            try:
                place.touch(exist_ok=False)
            except FileExistsError:
                continue
            return place


class ReplayTransport:
    """A `Transport` that answers from recordings and never opens a connection.

    A request gets the answer of the first recording not used yet that asks the same (method, path and body; not the host). One that
    was never recorded fails at once, and the error says what is different.

    Args:
        recordings: A folder, a file, or exchanges that were read already.
        by_order: Whether each request gets the next answer, whatever it asks.
        piece: Bytes of each piece of an answer; all at once by default.

    Attributes:
        unused: The recordings that nobody has asked for yet.
    """

    def __init__(
        self, recordings: str | Path | Iterable[Mapping[str, Any]], *, by_order: bool = False, piece: int | None = None
    ) -> None:
        self.unused = list(_read(recordings) if isinstance(recordings, str | Path) else recordings)
        self._by_order = by_order
        self._piece = piece

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Give the recorded answer.

        Raises:
            ModelError: If there is no recording of the request.
        """
        exchange = self._take(request_record(method, url, headers, body))
        told = exchange["response"]
        data = str(told.get("body_text") or "").encode()
        step = self._piece or max(1, len(data))
        pieces: list[bytes | float | Exception] = [data[at : at + step] for at in range(0, len(data), step)]
        if told.get("cut"):
            pieces.append(NetworkError("The recorded answer breaks off here", reason="stream_cut"))
        yield MemoryResponse(pieces, int(told.get("status") or 200), dict(told.get("headers") or {}))

    async def aclose(self) -> None:
        """Nothing to close."""

    def _take(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        for at, exchange in enumerate(self.unused):
            if self._by_order or is_same_request(exchange["request"], asked):
                return self.unused.pop(at)
        raise ModelError(self._mismatch_message(asked), reason="not_recorded")

    def _mismatch_message(self, asked: Mapping[str, Any]) -> str:
        what = f"{asked['method']} {asked['path']}"
        if not self.unused:
            return f"Nothing is recorded for {what}: all recordings have been used. Record the run again"
        near = self.unused[0]["request"]
        found = next(
            (d for n in ("method", "path", "body") if (d := first_difference(near.get(n), asked.get(n), n))), ""
        )
        return f"Nothing is recorded for this {what}; beside the next recording {found}. Record the run again"


def _remove_if_empty(place: Path) -> None:
    if place.exists() and not place.stat().st_size:
        place.unlink()


def _read(place: str | Path) -> list[dict[str, Any]]:
    path = Path(place)
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    found = [json.loads(file.read_bytes()) for file in files]
    return [exchange for exchange in found if isinstance(exchange, dict) and "response" in exchange]
