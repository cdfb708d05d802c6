"""Options that name tools: of a name that no tool has nobody would notice that it does nothing."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mainspring.errors import ConfigWarning
from mainspring.tools.builtin import BUILTIN_NAMES

if TYPE_CHECKING:
    from mainspring.tools import ToolRegistry


def tell_unknown(named: Mapping[str, Iterable[str]], tools: ToolRegistry, told: set[str]) -> None:
    """Warn of names that no tool has, once each. Those of tools of MCP servers are passed over: they may not be known yet.

    Args:
        named: By option, the names in it.
        tools: What there is, beside the built-in ones, which another agent with the same options may have.
        told: What was told already; grows.
    """
    known = sorted({*BUILTIN_NAMES, *(t.name for t in tools)})
    for option, names in named.items():
        for name in names:
            text = f"{option} names {name!r}, and there is no such tool"
            if name in known or name.startswith("mcp__") or text in told:
                continue
            told.add(text)
            near = difflib.get_close_matches(name, known, 1)
            warnings.warn(f"{text}{f'; did you mean {near[0]!r}?' if near else ''}", ConfigWarning, stacklevel=2)
