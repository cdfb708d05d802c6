"""Diagnostics from language servers after a file changes.

The modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import lazy_exports

if TYPE_CHECKING:
    from mainspring.tools.diagnostics.client import LanguageServerConfig as LanguageServerConfig
    from mainspring.tools.diagnostics.protocol import Diagnostic as Diagnostic
    from mainspring.tools.diagnostics.wrapper import with_diagnostics as with_diagnostics

lazy_exports(
    __name__,
    {
        "client": "LanguageServerConfig",
        "protocol": "Diagnostic",
        "wrapper": "with_diagnostics",
    },
)
