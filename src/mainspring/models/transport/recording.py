"""Record exchanges with hosts, and replay them without a network.

To convert a real run to a test, run it once with a `RecordingTransport`, then again with a `ReplayTransport` of the same folder.
A recording is one JSON object without keys.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct, field

from mainspring.errors import ModelError, NetworkError
from mainspring.lazy import lazy_re
from mainspring.models.json_values import as_dict, as_list
from mainspring.models.transport.default import default_transport
from mainspring.models.transport.port import Timeouts, Transport, TransportResponse
from mainspring.redaction import Redactor, is_secret_name, redact_stream

APIS = (
    ("chat_completions", lazy_re(r"/chat/completions/?$")),
    ("responses", lazy_re(r"/responses/?$")),
    ("messages", lazy_re(r"/messages/?$|:(stream)?rawpredict$", re.IGNORECASE)),
    ("stream_generate_content", lazy_re(r":streamGenerateContent$")),
    ("generate_content", lazy_re(r":generateContent$")),
)
"""Path suffix of each protocol."""


_RECORDED_HEADERS = lazy_re(
    r"content-type$|retry-after|.*ratelimit|.*request-id$|anthropic-(version|beta)$|x-should-retry$|date$"
)
"""Headers that are recorded; any other may contain private data."""


def api_for_path(path: str) -> str:
    """Return the protocol of a path; empty if it is unknown."""
    path = path.partition("?")[0]
    return next((name for name, pattern in APIS if pattern.search(path)), "")


def header_secrets(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys in the headers of a request."""
    values = [value for name, value in headers.items() if is_secret_name(name)]
    return tuple([part for value in values for part in value.split() if len(part) >= 8])


def request_record(method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return the record of a request: ``method``, ``host``, ``path``, ``headers``, ``body``."""
    parts = urlsplit(url)
    redactor = Redactor.of(values=header_secrets(headers))
    query = [(k, "removed" if is_secret_name(k) else v) for k, v in parse_qsl(parts.query)]
    path = redactor.text(f"{parts.path}?{urlencode(query)}" if query else parts.path)
    text = body.decode("utf-8", "replace")
    try:
        value: Any = json.loads(text) if text else None
    except ValueError:
        value = text
    return {
        "method": method,
        "host": parts.netloc.rpartition("@")[2],
        "path": path,
        "headers": _recorded_headers(headers),
        "body": redactor.value(value),
    }


def response_record(
    status: int, headers: Mapping[str, str], body: Sequence[bytes], secrets: tuple[str, ...], *, cut: bool
) -> dict[str, Any]:
    """Return the record of a response: ``status``, ``headers``, ``body_text``, and ``cut`` for an incomplete body."""
    text = redact_stream(Redactor.of(values=secrets), b"".join(body).decode("utf-8", "replace"))
    part: dict[str, Any] = {"status": status, "headers": _recorded_headers(headers), "body_text": text}
    return {**part, "cut": True} if cut else part


def is_same_request(recorded: Mapping[str, Any], expected_request: Mapping[str, Any]) -> bool:
    """Return True if two requests are the same, regardless of the host."""
    return all(recorded.get(name) == expected_request.get(name) for name in ("method", "path", "body"))


def first_difference(recorded: object, expected: object, path: str = "body") -> str:
    """Return the first difference between two JSON values; empty if they are equal."""
    one, other = as_dict(recorded), as_dict(expected)
    if one is not None and other is not None:
        pairs = [(f"{path}.{key}", one.get(key), other.get(key)) for key in [*one, *(k for k in other if k not in one)]]
    elif len(ones := as_list(recorded)) == len(others := as_list(expected)) > 0:
        pairs = [(f"{path}[{at}]", a, b) for at, (a, b) in enumerate(zip(ones, others, strict=True))]
    else:
        return (
            ""
            if recorded == expected
            else f"{path} is {str(expected)[:80]!r} instead of the recorded {str(recorded)[:80]!r}"
        )
    return next((found for where, a, b in pairs if (found := first_difference(a, b, where))), "")


def _recorded_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if _RECORDED_HEADERS.match(name.lower())}


class SentRequest(Struct, frozen=True):
    """A request that was sent."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


class MemoryResponse(Struct):
    """A scripted response.

    Attributes:
        body: Body, complete or in chunks. An exception is raised at its position; a number is a pause in seconds.
        status: HTTP status.
        headers: Headers with names in lower case.
        closed: Set when the response is released.
    """

    body: bytes | Sequence[bytes | float | Exception] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    closed: bool = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the scripted body."""
        for piece in [self.body] if isinstance(self.body, bytes) else self.body:
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, bytes):
                if piece:
                    yield piece
            else:
                await asyncio.sleep(piece)


class MemoryTransport:
    """Returns scripted responses and stores the requests.

    Args:
        answers: One response per request, in order; an exception is raised instead. The last one is repeated.

    Attributes:
        requests: Requests that were sent.
    """

    def __init__(self, *answers: MemoryResponse | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[SentRequest] = []
        self.closed = False

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Return the next response."""
        self.requests.append(SentRequest(method, url, dict(headers), body))
        answer: Any = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        try:
            yield answer
        finally:
            answer.closed = True

    async def aclose(self) -> None:
        """Record that the transport was closed."""
        self.closed = True


class _RecordingResponse:
    """A response that stores the chunks that were read."""

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
    """A `Transport` that records each exchange in a file for `decode_exchange` and `ReplayTransport`.

    The files contain no keys: only harmless headers are recorded, keys in the query are removed, and texts that are keys, or
    were sent as keys, are redacted everywhere. The conversation itself is recorded unchanged.

    Args:
        folder: Folder for the files ``0000.json`` and following; created if missing. Existing files are not overwritten.
        transport: Transport for the requests; by default the one that all models share.
        provider: Provider name to record.
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
        """Send a request, and record it with its response once that was read."""
        place = await asyncio.to_thread(self._next_path)
        try:
            async with (self._own or default_transport()).open(method, url, headers, body, timeouts) as answer:
                watched = _RecordingResponse(answer)
                try:
                    yield watched
                finally:
                    request = request_record(method, url, headers, body)
                    record = response_record(
                        watched.status, watched.headers, watched.pieces, header_secrets(headers), cut=watched.cut
                    )
                    api = api_for_path(request["path"])
                    exchange = {"provider": self._provider, "api": api, "request": request, "response": record}
                    text = json.dumps(exchange, ensure_ascii=False, indent=1)
                    await asyncio.shield(asyncio.to_thread(place.write_text, text, encoding="utf-8"))
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_remove_if_empty, place))  # The request failed without a response.
            raise

    async def aclose(self) -> None:
        """Close the connections of the transport."""
        if self._own is not None:
            await self._own.aclose()

    def _next_path(self) -> Path:
        """Return the next unused file: files are in the order of the requests, even if responses are not."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            place = self._folder / f"{next(self._numbers):04}.json"
            try:
                place.touch(exist_ok=False)
            except FileExistsError:
                continue
            return place


class ReplayTransport:
    """A `Transport` that replays recordings and never opens a connection.

    A request gets the response of the first unused recording with the same method, path, and body; the host is ignored. A request
    without a recording fails immediately, and the error describes the difference.

    Args:
        recordings: A folder, a file, or decoded exchanges.
        in_order: Whether each request gets the next response, without a comparison.
        chunk_size: Size of each chunk of a response in bytes; a single chunk by default.

    Attributes:
        unused: Recordings that were not replayed yet.
    """

    def __init__(
        self,
        recordings: str | Path | Iterable[Mapping[str, Any]],
        *,
        in_order: bool = False,
        chunk_size: int | None = None,
    ) -> None:
        self.unused = list(_read(recordings) if isinstance(recordings, str | Path) else recordings)
        self._by_order = in_order
        self._piece = chunk_size

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeouts: Timeouts
    ) -> AsyncGenerator[TransportResponse]:
        """Return the recorded response.

        Raises:
            ModelError: The request has no recording.
        """
        exchange = self._find_recording(request_record(method, url, headers, body))
        record = exchange["response"]
        data = str(record.get("body_text") or "").encode()
        step = self._piece or max(1, len(data))
        pieces: list[bytes | float | Exception] = [data[at : at + step] for at in range(0, len(data), step)]
        if record.get("cut"):
            pieces.append(NetworkError("The recorded response ends here.", reason="stream_cut"))
        yield MemoryResponse(pieces, int(record.get("status") or 200), dict(record.get("headers") or {}))

    async def aclose(self) -> None:
        """Do nothing."""

    def _find_recording(self, expected_request: Mapping[str, Any]) -> Mapping[str, Any]:
        for at, exchange in enumerate(self.unused):
            if self._by_order or is_same_request(exchange["request"], expected_request):
                return self.unused.pop(at)
        raise ModelError(self._mismatch_message(expected_request), reason="not_recorded")

    def _mismatch_message(self, expected_request: Mapping[str, Any]) -> str:
        what = f"{expected_request['method']} {expected_request['path']}"
        if not self.unused:
            return f"No recording left for {what}: all recordings were used. Record the run again."
        near = self.unused[0]["request"]
        found = next(
            (d for n in ("method", "path", "body") if (d := first_difference(near.get(n), expected_request.get(n), n))),
            "",
        )
        return f"No recording for this {what}; compared with the next recording, {found}. Record the run again."


def _remove_if_empty(place: Path) -> None:
    if place.exists() and not place.stat().st_size:
        place.unlink()


def _read(place: str | Path) -> list[dict[str, Any]]:
    path = Path(place)
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    found = [json.loads(file.read_bytes()) for file in files]
    return [exchange for exchange in found if isinstance(exchange, dict) and "response" in exchange]
