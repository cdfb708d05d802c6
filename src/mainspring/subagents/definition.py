"""A kind of sub-agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re
from mainspring.loop import Behavior

if TYPE_CHECKING:
    from mainspring.models import ModelProvider

NAME = lazy_re(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Names are shown to the model as values of an enumeration."""


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """A kind of sub-agent. What is left out is as its parent has it.

    Attributes:
        name: 1 to 64 letters, digits, ``_`` and ``-``.
        description: What it is for; the parent's model reads this and decides.
        system: Its system prompt.
        tools: The only tools that it gets, of those that its parent has; ``*`` and ``?`` may stand in a name.
        model: ``provider:model``, or a `ModelProvider`.
        behavior: Limits and options, over those of its parent.
        source: Where it was defined: a file, or empty.

    Raises:
        ConfigError: If the name is none, or ``tools`` is a text.
    """

    name: str
    description: str = ""
    system: str | None = None
    tools: tuple[str, ...] | None = None
    model: ModelProvider | str | None = None
    behavior: Behavior = Behavior()
    source: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"the name of a sub-agent is 1 to 64 letters, digits, '_' or '-', not {self.name[:80]!r}"
                + (f" ({self.source})" if self.source else "")
            )
        if isinstance(self.tools, str):  # of a text every letter would be a tool's name
            raise ConfigError(f'tools of the sub-agent {self.name!r} are names in a tuple, as in tools=("read_file",)')
