"""Weights from the hub they were published at, at a pinned revision, going on where an earlier attempt stopped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from mainspring.errors import ModelError
from mainspring.lazy import lazy_re
from mainspring.models.embedded.source import Progress, SourceError, append, cut, size_of
from mainspring.models.embedded.weights import Weights
from mainspring.models.transport.environment import is_loopback
from mainspring.models.transport.port import Timeouts, Transport, TransportResponse

HUB = "https://huggingface.co"
HUB_VARIABLE = "HF_ENDPOINT"
_LIMITS = Timeouts(connect=5.0, first_byte=30.0, idle=60.0)
_MOST_REDIRECTS = 5
_BLOCK = 1 << 20
_RANGE = lazy_re(r"bytes (\d+)-\d+/(\d+|\*)")


def hub() -> str:
    """The host of the hub."""
    return os.environ.get(HUB_VARIABLE, "").rstrip("/") or HUB


async def from_hub(weights: Weights, part: Path, progress: Progress, transport: Transport) -> None:
    """Bring ``part`` to its full size.

    Raises:
        SourceError: If the hub does not give the bytes.
    """
    url = weights.url.replace(HUB, hub(), 1)
    done = await asyncio.to_thread(size_of, part)
    if done == weights.size:
        return
    if done > weights.size:
        await asyncio.to_thread(cut, part, done := 0)
    try:
        for _ in range(_MOST_REDIRECTS + 1):
            headers = {"user-agent": "mainspring", "accept-encoding": "identity"}
            if done:
                headers["range"] = f"bytes={done}-"
            async with transport.open("GET", url, headers, b"", _LIMITS) as response:
                if response.status in {301, 302, 303, 307, 308}:
                    url = _target(url, response.headers)
                    continue
                if _begins_at(response, done, weights.size) == 0:
                    await asyncio.to_thread(cut, part, 0)
                await _receive(response.chunks(), weights.size, part, progress)
                return
    except ModelError as error:
        raise SourceError(str(error)) from error
    raise SourceError(f"{urlsplit(url).netloc} redirects in circles")


def _target(url: str, headers: Mapping[str, str]) -> str:
    target = urljoin(url, headers.get("location", ""))
    parts = urlsplit(target)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise SourceError(f"{urlsplit(url).netloc} redirects to {parts.scheme}://{parts.netloc}, which is not followed")
    return target


def _begins_at(response: TransportResponse, wanted: int, size: int) -> int:
    """Where the bytes that the host sends begin in the file."""
    if response.status == 200:
        return 0
    if response.status == 206:
        match = _RANGE.match(response.headers.get("content-range", ""))
        if match and int(match[1]) == wanted and match[2] in {str(size), "*"}:
            return wanted
        raise SourceError(f"the host sent other bytes than it was asked for ({response.headers.get('content-range')})")
    raise SourceError(f"the host answered {response.status}")


async def _receive(chunks: AsyncIterator[bytes], size: int, part: Path, progress: Progress) -> None:
    done = await asyncio.to_thread(size_of, part)
    progress(done, size, "hub")
    waiting: list[bytes] = []
    held = 0
    try:
        async for chunk in chunks:
            waiting.append(chunk)
            held += len(chunk)
            if done + held > size:
                raise SourceError(f"the host sends more than the {size} bytes that the file has")
            if held >= _BLOCK:
                block, waiting, held = b"".join(waiting), [], 0
                await asyncio.to_thread(append, part, block)
                done += len(block)
                progress(done, size, "hub")
    finally:
        if waiting and done + held <= size:
            await asyncio.to_thread(append, part, b"".join(waiting))
            done += held
    if done != size:
        raise SourceError(f"the host sent {done} of {size} bytes")
    progress(done, size, "hub")
