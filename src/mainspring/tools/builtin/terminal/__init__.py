"""Running commands."""

from mainspring.tools.builtin.terminal.jobs import jobs
from mainspring.tools.builtin.terminal.shell import shell

__all__ = ["jobs", "shell"]
