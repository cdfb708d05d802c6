"""What language servers say of a file after it was changed."""

from mainspring.tools.builtin.diagnostics.client import LanguageServer
from mainspring.tools.builtin.diagnostics.wire import Diagnostic
from mainspring.tools.builtin.diagnostics.wrapper import with_diagnostics

__all__ = ["Diagnostic", "LanguageServer", "with_diagnostics"]
