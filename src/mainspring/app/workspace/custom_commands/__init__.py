"""Custom commands: Markdown files whose text, with arguments, files and the output of commands filled in, is a prompt."""

from mainspring.runtime.templates.command import CustomCommand, parse_command
from mainspring.runtime.templates.expand import Expansion
from mainspring.runtime.templates.registry import CommandCall, CustomCommands, SkippedCommand

__all__ = ["CommandCall", "CustomCommand", "CustomCommands", "Expansion", "SkippedCommand", "parse_command"]
