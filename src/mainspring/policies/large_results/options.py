"""The options of large tool results. The code that stores them is loaded with the first one."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from mainspring.lazy import lazy_function
from mainspring.loop.hooks import ToolTransform
from mainspring.loop.policy import ORDER_PERSIST, PolicyContext, PolicyHandlers
from mainspring.options import Options, option

if TYPE_CHECKING:
    from mainspring.policies.large_results.store import PersistLargeResults
else:
    PersistLargeResults = lazy_function("mainspring.policies.large_results.store", "PersistLargeResults")


class LargeResultOptions(Options, page="context.md#store-large-results-in-files"):
    """Options of large results."""

    persist_threshold: int | None = option(
        default=None, ge=0, doc="Bytes of text from which on a result is stored in a file and the model gets a preview."
    )
    persist_dir: str | None = option(
        default=None,
        doc="Folder of those files, created when needed; `None`: nothing is stored.",
        check=(lambda value: isinstance(value, str | os.PathLike), "the path of a folder"),
    )
    persist_exclude_tools: tuple[str, ...] = option(
        default=(),
        doc="Tools whose results are never stored.",
        check=(
            lambda value: isinstance(value, Collection) and not isinstance(value, str | bytes),
            "the names of tools in a tuple",
        ),
        names_tools=True,
    )


def large_result_handlers(options: LargeResultOptions, run: PolicyContext) -> PolicyHandlers:
    """Return the handlers for large results."""
    if options.persist_dir and options.persist_threshold is not None:
        folder = os.path.join(run.agent.env.cwd, os.path.expanduser(options.persist_dir))
        persist = PersistLargeResults(folder, options.persist_threshold, options.persist_exclude_tools)
        yield ORDER_PERSIST, {ToolTransform: persist.on_tool_transform}
