"""Custom commands: Markdown files that expand to a prompt with arguments, files, and command output."""

from mainspring.app.workspace.custom_commands.definition import CustomCommand, parse_command
from mainspring.app.workspace.custom_commands.expansion import ExpandedPrompt

__all__ = ["CustomCommand", "ExpandedPrompt", "parse_command"]
