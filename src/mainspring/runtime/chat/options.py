"""How a chat is opened."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.runtime.options import AskOptions

if TYPE_CHECKING:
    from mainspring.runtime.build import Conversation
    from mainspring.runtime.outcome import Reporter


class ChatOptions(Struct, frozen=True, kw_only=True):
    """How a chat is opened.

    Attributes:
        ask: Model, session, rules, limits and place, as for a run; its prompt is the first thing said, if there is one.
        environ: The environment.
        attended: Whether somebody can answer. Otherwise what needs an answer is denied, with a reason.
        replay: Whether a session that is gone on with is told from its beginning.
        converse: Makes the conversation; the command's own if not given.
    """

    ask: AskOptions = AskOptions(prompt="")
    environ: Mapping[str, str] = os.environ
    attended: bool = True
    replay: bool = True
    converse: Callable[[AskOptions, Reporter, Mapping[str, str]], Awaitable[Conversation]] | None = None
