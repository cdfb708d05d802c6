"""How to run pip on this machine, with the configuration that the user gave pip or uv."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import site
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from mainspring.models.embedded.source import SourceError
from mainspring.programs import find_program
from mainspring.python import python_script

_POLL = 0.25
_TAIL = 4
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
    """A command that is pip: the environment's own, the one that Python carries, one that uv runs, or any on PATH.

    Raises:
        SourceError: If there is none.
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
    raise SourceError("neither pip nor uv was found")


async def download(requirements: Sequence[str], folder: Path, grown: Callable[[int], None]) -> None:
    """Download wheels into a folder; nothing is unpacked, installed or run.

    Args:
        requirements: Exact requirements.
        folder: Where to; pip's temporary files go there too, so that nothing is left elsewhere.
        grown: Told every now and then how many bytes lie there.

    Raises:
        SourceError: If pip fails; the text has its last lines.
    """
    command = [*await asyncio.to_thread(pip_command), *_DOWNLOAD, "--dest", str(folder), *requirements]
    environment = {**os.environ, **await asyncio.to_thread(index_of_uv), "PIP_REQUIRE_VIRTUALENV": "0"}
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
            grown(await asyncio.to_thread(_bytes_in, folder))
        said = talk.result()[1]
    finally:
        if not talk.done():
            _kill(process)
            await asyncio.wait((talk,))
    if process.returncode:
        lines = [line for line in said.decode("utf-8", "replace").splitlines() if not line.startswith("WARNING")]
        raise SourceError(f"pip download failed: {' '.join(lines[-_TAIL:]) or f'exit code {process.returncode}'}")


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


def index_of_uv() -> dict[str, str]:
    """The package index that uv is told to use, as pip's variables; what pip itself is told wins."""
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL") or _uv_settings()
    told = {
        "PIP_INDEX_URL": index.partition("=")[2] if index.partition("=")[2].startswith("http") else index,
        "PIP_FIND_LINKS": os.environ.get("UV_FIND_LINKS", ""),
    }
    return {name: value for name, value in told.items() if value and not os.environ.get(name)}


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
