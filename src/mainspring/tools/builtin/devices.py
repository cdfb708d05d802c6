"""Names of devices that mean something to one kind of shell only."""

from __future__ import annotations

import re

from mainspring.lazy import lazy_re

_QUOTED = lazy_re(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_TO_NUL = lazy_re(r">[>|&]?[ \t]*nul(?=[\s;&|<>)]|$)", re.IGNORECASE)

_REFUSED = (
    "The command was not run: in bash `> NUL` makes a file of that name, which on Windows cannot be deleted. Write /dev/null to throw "
    "output away, or ./NUL if you do mean a file."
)


def misused_device(script: str) -> str:
    """Why a script is not run that sends output to ``NUL``, as those for Windows do; empty where it does not.

    What stands in quotes or here-documents may be anything.
    """
    to_nul = "<<" not in script and _TO_NUL.search(_QUOTED.sub("''", script))
    return _REFUSED if to_nul else ""
