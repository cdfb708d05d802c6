"""Custom commands: Markdown files whose text, with arguments, files and the output of commands filled in, is a prompt."""

from mainspring.app.workspace.custom_commands.definition import CustomCommand, parse_command
from mainspring.app.workspace.custom_commands.expansion import ExpandedPrompt

__all__ = ["CustomCommand", "ExpandedPrompt", "parse_command"]
