"""Expand a custom command and its arguments to a prompt. All placeholders are expanded in one pass, so that inserted text is never
expanded again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from mainspring.app.workspace.custom_commands.definition import CustomCommand
from mainspring.app.workspace.file_mentions import find_mentions
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_re

_MAX_ARGUMENTS = 9

_TOKEN = lazy_re(
    r"""(?P<escaped>\\[$@!{])
    |   (?P<fence>^[ \t]*(?:```|~~~)[^\n]*$)
    |   !`(?P<shell>[^`\n]+)`
    |   \{\{(?P<place>[A-Z_]+)\}\}
    |   \$(?:(?P<all>ARGUMENTS\b|@)|(?P<number>[1-9])(?![0-9])|\{(?P<braced>[A-Za-z_][\w-]*)\}|(?P<named>[A-Za-z_]\w*))
    |   (?:(?<=[\s(\["'])|^)@(?:"(?P<quoted>[^"\n]+)"|(?P<file>(?:\$\{[A-Za-z_][\w-]*\}|[^\s"'`,;:()<>\[\]{}])+))""",
    re.VERBOSE | re.MULTILINE,
)
_INNER = lazy_re(r"\$(?:(?P<all>ARGUMENTS\b|@)|(?P<number>[1-9])(?![0-9])|\{(?P<braced>[A-Za-z_][\w-]*)\})")
_IN_PATH = lazy_re(
    r"\$(?:(?P<all>ARGUMENTS\b|@)|(?P<number>[1-9])(?![0-9])|\{(?P<braced>[A-Za-z_][\w-]*)\}|(?P<named>[A-Za-z_]\w*))"
)
_ENDS = ".!?"
"""Punctuation that can end a sentence after a path."""


class PromptPart(Struct, frozen=True):
    """A part of a prompt: text, or a command that is replaced with its output.

    Attributes:
        text: Text, or the script of a command.
        is_shell: Whether it is a command.
    """

    text: str
    is_shell: bool = False


class ExpandedPrompt(Struct, frozen=True):
    """A prompt whose commands have not run yet.

    Attributes:
        pieces: Parts, in order.
        files: Paths of files to attach.
    """

    pieces: tuple[PromptPart, ...]
    files: tuple[str, ...]

    def text(self, outputs: Sequence[str] = ()) -> str:
        """Return the prompt with the outputs of its commands, in order, or with the commands themselves."""
        given = iter(outputs)
        return "".join(
            [p.text if not p.is_shell else next(given, f"!`{p.text}`") for p in self.pieces],
        )


def expand(command: CustomCommand, arguments: str, values: Mapping[str, str]) -> ExpandedPrompt:
    """Expand the arguments. Commands and files are left to a caller with permission to run and read them.

    Args:
        command: Command.
        arguments: Text after the command name, as typed.
        values: Values of ``{{NAME}}``.

    Raises:
        ConfigError: If a required argument is missing.
    """
    return _Expander(command, arguments, values).fill()


def scripts_in(body: str) -> tuple[str, ...]:
    """Return the scripts that a command's text runs, as written."""
    found: list[str] = []
    fenced = False
    for match in _TOKEN.finditer(body):
        if match["fence"]:
            fenced = not fenced
        elif match["shell"] and not fenced:
            found.append(match["shell"])
    return tuple(found)


class _Expander:
    """Expands one command."""

    def __init__(self, command: CustomCommand, arguments: str, values: Mapping[str, str]) -> None:
        self._command = command
        self._all = arguments.strip()
        self._given = split_arguments(self._all)
        self._names = [name.rstrip("?") for name in command.arguments]
        self._values = values
        self._arguments_used = False
        self._check()

    def _check(self) -> None:
        needed = [name for name in self._command.arguments if not name.endswith("?")]
        if len(self._given) < len(needed):
            raise ConfigError(f"/{self._command.name} needs {needed[len(self._given)]}: {self._command.usage}")

    def fill(self) -> ExpandedPrompt:
        pieces: list[PromptPart] = []
        files: list[str] = list(find_mentions(self._all))
        for text in self._pieces(files):
            if pieces and not pieces[-1].is_shell and not text.is_shell:
                pieces[-1] = PromptPart(pieces[-1].text + text.text)
            else:
                pieces.append(text)
        if self._all and not self._arguments_used:
            pieces.append(PromptPart(f"\n\nArguments: {self._all}"))
        return ExpandedPrompt(tuple(pieces), tuple(dict.fromkeys(files)))

    def _pieces(self, files: list[str]) -> Iterator[PromptPart]:
        body, at, fenced = self._command.body, 0, False
        for match in _TOKEN.finditer(body):
            yield PromptPart(body[at : match.start()])
            at = match.end()
            text = match.group(0)
            if match["fence"]:
                fenced = not fenced
                yield PromptPart(text)
            elif match["escaped"]:
                yield PromptPart(text[1:])
            elif match["shell"] and not fenced:
                yield PromptPart(self._script(match["shell"]), is_shell=True)
            elif match["place"]:
                yield PromptPart(self._values.get(match["place"], text))
            elif match["quoted"] or match["file"]:
                yield PromptPart(text if fenced else self._mention(match, files))
            else:
                value = None if match["shell"] else self._argument(match)
                yield PromptPart(text if value is None else value)
        yield PromptPart(body[at:])

    def _mention(self, match: re.Match[str], files: list[str]) -> str:
        """Expand a file mention, whose path may contain an argument."""
        name = match["quoted"] or match["file"].rstrip(_ENDS)
        path = _IN_PATH.sub(self._required_argument, name)
        if path and (path != name or "/" in path or "." in path):
            files.append(path)
        text = match.group(0)
        return f"{text[: text.index('@') + 1]}{path}{'' if match['quoted'] else match['file'][len(name) :]}"

    def _required_argument(self, match: re.Match[str]) -> str:
        value = self._argument(match)
        if value is None and match["named"]:
            return match.group(0)  # part of a file name
        if not value:
            raise ConfigError(
                f"/{self._command.name} requires {match.group(0)}, the name of a file: {self._command.usage}"
            )
        return value

    def _script(self, script: str) -> str:
        """Expand a script with its arguments as single quoted words, so that an argument cannot be a command."""

        def quoted(match: re.Match[str]) -> str:
            if match["all"]:
                self._arguments_used = True
                return " ".join(map(shlex.quote, self._given))
            value = self._argument(match)
            return match.group(0) if value is None else shlex.quote(value)

        return _INNER.sub(quoted, script)

    def _argument(self, match: re.Match[str]) -> str | None:
        """Return the value of a placeholder; None if it is not one, so that the text is unchanged."""
        groups = match.groupdict()
        if groups["all"]:
            self._arguments_used = True
            return self._all
        if groups["number"]:
            place = int(groups["number"]) - 1
            known = place < (len(self._names) if self._names else len(self._given))
        else:
            name = groups["braced"] or groups.get("named") or ""
            known = name in self._names
            place = self._names.index(name) if known else 0
        if not known:
            return None
        self._arguments_used = True
        return self._given[place] if place < len(self._given) else ""


def split_arguments(arguments: str) -> list[str]:
    """Split arguments at whitespace, except inside quotes. Unclosed quotes are plain characters."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
