"""Running commands."""

from mainspring.tools.builtin.terminal.shell import shell

__all__ = ["shell"]
