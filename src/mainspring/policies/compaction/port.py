"""The port of whatever makes a history shorter.

Above: the overflow recovery and the threshold. Below: leaving out results of tools (`TailCompactor`), or a summary by a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mainspring.messages import AgentMessage

if TYPE_CHECKING:
    from mainspring.loop.hooks import SideCall


class Compactor(Protocol):
    """Makes a history shorter."""

    async def compact(
        self, messages: Sequence[AgentMessage], *, reason: str, side_call: SideCall | None = None
    ) -> Sequence[AgentMessage] | None:
        """A shorter history, or ``None`` if there is nothing to shorten. Messages that stay must be the same objects.

        Args:
            messages: The history. It is not changed; a session keeps it whatever comes of this.
            reason: Why, as in ``overflow``.
            side_call: Asks a model; ``None`` where none may be asked.
        """
        ...
