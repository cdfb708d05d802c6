"""What language servers say of a file after it was changed. Its parts are loaded on use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.lazy import exports

if TYPE_CHECKING:
    from mainspring.tools.builtin.diagnostics.client import LanguageServer as LanguageServer
    from mainspring.tools.builtin.diagnostics.wire import Diagnostic as Diagnostic
    from mainspring.tools.builtin.diagnostics.wrapper import with_diagnostics as with_diagnostics

__all__, __getattr__ = exports(
    __name__,
    {
        "client": "LanguageServer",
        "wire": "Diagnostic",
        "wrapper": "with_diagnostics",
    },
)
