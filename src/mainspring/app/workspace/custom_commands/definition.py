"""The definition of a custom command, and the files that define one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.frontmatter import parse_front_matter
from mainspring.lazy import lazy_re
from mainspring.state_files import read_regular_file
from mainspring.text import truncate_to_fit

CommandScope = Literal["user", "project"]


_ARGUMENT = lazy_re(r"[A-Za-z_][A-Za-z0-9_-]*\??")
_FRONTMATTER_START = lazy_re(r"\A\ufeff?---[ \t]*\r?\n")


class CustomCommand(Struct, frozen=True, kw_only=True):
    """A custom command.

    Attributes:
        name: Name; a file in a subfolder is prefixed with the folder, for example, ``git:review``.
        body: Text of the prompt.
        description: Description in one line.
        arguments: Names of its arguments, if it declares them; optional ones end with ``?``.
        hint: Description of its arguments for users.
        tools: Tools of its run, each with an optional pattern to allow: ``shell(git diff *)``; None for all tools.
        model: Model of its run; None for the current model.
        scope: Owner: user or project.
        path: File.
    """

    name: str
    body: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    hint: str = ""
    tools: tuple[str, ...] | None = None
    model: str | None = None
    scope: CommandScope = "user"
    path: str = ""

    @property
    def usage(self) -> str:
        """Return the usage text."""
        shown = " ".join(f"[{a[:-1]}]" if a.endswith("?") else a.upper() for a in self.arguments)
        return f"/{self.name} {self.hint or shown}".strip()

    @property
    def tool_names(self) -> tuple[str, ...] | None:
        """Return the tools of its run, without patterns."""
        return None if self.tools is None else tuple(dict.fromkeys([t.partition("(")[0].strip() for t in self.tools]))

    @property
    def allow_rules(self) -> tuple[str, ...]:
        """Return the rules that it allows: its tools with a pattern."""
        return tuple(t for t in self.tools or () if "(" in t)


def parse_command(text: str, name: str, *, scope: CommandScope = "user", path: str = "") -> CustomCommand:
    """Parse the command in a Markdown file: frontmatter, followed by the prompt.

    Fields: ``description``, ``arguments`` (names), ``argument-hint``, ``allowed-tools``, ``model``; others are ignored, because
    programs share these files.

    Args:
        text: Text of the file.
        name: Name of the command.
        scope: Owner: user or project.
        path: File.

    Raises:
        ConfigError: If the prompt is empty, or a field is invalid.
    """
    head = parse_front_matter(text)
    if head is None and _FRONTMATTER_START.match(text):
        raise ConfigError("The frontmatter is not closed. Add a line with ---.")
    fields = {} if head is None else {k.lower().replace("_", "-"): v for k, v in head.fields.items()}
    body = (text.removeprefix("\ufeff") if head is None else head.body).replace("\r\n", "\n").strip()
    if not body:
        raise ConfigError("The prompt is empty.")
    arguments = _names(fields.get("arguments"))
    for argument in arguments:
        if not _ARGUMENT.fullmatch(argument):
            raise ConfigError(
                f"Invalid argument name: {argument!r}. Use letters, for example: arguments: [file, focus?]"
            )
    allowed = fields.get("allowed-tools", fields.get("tools"))
    return CustomCommand(
        name=name,
        body=body,
        description=_line(fields.get("description")) or _first_line(body),
        arguments=arguments,
        hint=_hint(fields.get("argument-hint")),
        tools=None if allowed in (None, "") else _rules(allowed),
        model=_line(fields.get("model")) or None,
        scope=scope,
        path=path,
    )


def _line(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _hint(value: Any) -> str:
    if isinstance(value, list):  # [file] is a YAML list
        return " ".join(f"[{_line(item)}]" for item in cast("list[Any]", value))
    return _line(value)


def _first_line(body: str) -> str:
    line = next((line.strip("# ").strip() for line in body.splitlines() if line.strip("# ").strip()), "")
    return truncate_to_fit(line, 80, "...")


def _names(value: Any) -> tuple[str, ...]:
    listed = cast("list[Any]", value) if isinstance(value, list) else str(value or "").replace(",", " ").split()
    return tuple([_line(item) for item in listed if _line(item)])


def _rules(value: Any) -> tuple[str, ...]:
    """Split tool names with optional patterns at commas outside patterns."""
    if isinstance(value, list):
        return tuple([_line(item) for item in cast("list[Any]", value) if _line(item)])
    parts: list[str] = []
    depth = 0
    for piece in re.split(r"([(),])", _line(value)):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if piece == "," and depth <= 0:
            parts.append("")
        elif parts:
            parts[-1] += piece
        else:
            parts.append(piece)
    return tuple([part.strip() for part in parts if part.strip()])


COMMANDS_FOLDER = "commands"
MAX_COMMAND_FILES = 1000
"""Maximum number of files to read in a folder."""


_MAX_BYTES = 256 << 10


def command_files(folder: Path) -> list[Path]:
    """Return the Markdown files below a folder by name, at most one more than `MAX_COMMAND_FILES`. Links to folders are not followed."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(place, n) for n in sorted(names) if n.endswith(".md") and n.lower() != "readme.md"]
        if len(found) > MAX_COMMAND_FILES:
            return found[: MAX_COMMAND_FILES + 1]
    return found


def command_name(file: Path, folder: Path) -> str:
    """Return the name of the command in a file."""
    return ":".join(file.relative_to(folder).with_suffix("").parts)


def read_command(file: Path) -> str:
    """Read the text of a command.

    Raises:
        ConfigError: If the file is too large, or not UTF-8.
        OSError: If it cannot be read.
    """
    data = read_regular_file(file, _MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"The file is larger than {_MAX_BYTES // 1024} KiB.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"The file is not valid UTF-8: {error.reason} at byte {error.start}.") from None
