"""Custom commands: Markdown files whose text, with arguments, files and the output of commands filled in, is a prompt."""

from mainspring.app.workspace.custom_commands.definition import CustomCommand, parse_command
from mainspring.app.workspace.custom_commands.expansion import ExpandedPrompt
from mainspring.app.workspace.custom_commands.registry import CommandInvocation, CustomCommands, SkippedCommand

__all__ = ["CommandInvocation", "CustomCommand", "CustomCommands", "ExpandedPrompt", "SkippedCommand", "parse_command"]
