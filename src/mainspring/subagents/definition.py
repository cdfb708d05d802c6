"""Definitions of subagents, in code and in Markdown files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec import Struct

from mainspring.errors import ConfigError
from mainspring.frontmatter import parse_fields_and_body
from mainspring.lazy import lazy_re
from mainspring.run_options import RunOptions
from mainspring.text import to_snake_case
from mainspring.tools.names import COMMON_ALIASES

if TYPE_CHECKING:
    from mainspring.models import ModelProvider


_NAME = lazy_re(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Pattern of names; the model gets them as values of an enumeration."""


class AgentDefinition(Struct, frozen=True, kw_only=True):
    """A kind of subagent. It inherits fields that are not set from its parent.

    Attributes:
        name: 1 to 64 letters, digits, ``_``, and ``-``.
        description: Its purpose; the parent's model reads it to choose a kind.
        system: Its system prompt.
        tools: The only tools that it gets from its parent; ``*`` and ``?`` are wildcards.
        model: ``provider:model``, or a `ModelProvider`.
        behavior: Limits and options that override those of its parent.
        source: The file that defines it, or empty.

    Raises:
        ConfigError: If the name is invalid, or ``tools`` is a string.
    """

    name: str
    description: str = ""
    system: str | None = None
    tools: tuple[str, ...] | None = None
    model: ModelProvider | str | None = None
    behavior: RunOptions = RunOptions()
    source: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"A subagent name has 1 to 64 letters, digits, '_', or '-', not {self.name[:80]!r}."
                + (f" ({self.source})" if self.source else "")
            )
        if isinstance(self.tools, str):  # every letter of a string would be the name of a tool
            raise ConfigError(
                f'The tools of the subagent {self.name!r} must be names in a tuple, for example tools=("read_file",).'
            )


_MAX_BYTES = 256 * 1024
"""Maximum size of a definition file in bytes: its text is a system prompt."""

_MAX_FOLDERS = 100
"""Maximum number of folders that are searched: a link may lead to any folder."""


_PROJECT_FOLDERS = (".agents/agents", ".agent/agents")
_INHERITED = ("", "inherit", "default")


_TOOL_ALIASES = {**COMMON_ALIASES, "ls": "list_files", "multiedit": "multi_edit", "task": "spawn", "agent": "spawn"}
"""Tool names in files for other programs, in lower case."""


class SkippedFile(Struct, frozen=True):
    """A file without a valid definition, and the reason."""

    path: str
    reason: str


class DefinitionScan(Struct, frozen=True):
    """The definitions in folders, sorted by name, and the files that are not valid definitions."""

    definitions: tuple[AgentDefinition, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()


def load_definitions(
    *, user: Iterable[str | Path] = (), project: str | Path | None = None, trusted: bool = False
) -> DefinitionScan:
    """Read the Markdown files that define subagents. Blocks while it reads.

    If a name is defined twice, the project's definition wins, then that of the first folder.

    Args:
        user: The user's own folders, each with ``*.md`` files, also in subfolders.
        project: The root of a project; ``.agents/agents`` and ``.agent/agents`` in it are read.
        trusted: Whether the user trusts the project. Its definitions are instructions to a model, so without trust they are
            listed as skipped and not used.
    """
    places: list[tuple[Path, bool]] = []
    if project is not None:
        places += [(Path(project) / folder, trusted) for folder in _PROJECT_FOLDERS]
    places += [(Path(folder), True) for folder in user]
    found: dict[str, AgentDefinition] = {}
    skipped: list[SkippedFile] = []
    for folder, usable in places:
        for path in _files(folder):
            if not usable:
                skipped.append(SkippedFile(str(path), "the project is not trusted"))
                continue
            try:
                parsed = parse_definition(_read(path), name=path.stem, source=str(path))
            except (ConfigError, OSError) as error:
                skipped.append(SkippedFile(str(path), str(error)))
                continue
            if parsed.name in found:
                skipped.append(
                    SkippedFile(str(path), f"{parsed.name} is already defined by {found[parsed.name].source}")
                )
            else:
                found[parsed.name] = parsed
    return DefinitionScan(tuple([found[name] for name in sorted(found)]), tuple(skipped))


def parse_definition(text: str, *, name: str = "", source: str = "") -> AgentDefinition:
    """Parse a Markdown file: the fields in its front matter, and the system prompt in its body.

    Fields: ``name``, ``description``, ``tools`` (a list, or names separated by commas), ``model`` (``inherit`` is the parent's),
    ``max_turns``, ``max_cost``, ``max_seconds``, ``max_total_tokens``, ``max_output_tokens``, ``thinking``, ``temperature``; with ``-`` or
    in camelCase as well. Others are ignored, since programs share these files.

    Args:
        text: The file's text.
        name: Default name if the front matter has none.
        source: Origin of the text, for messages.

    Raises:
        ConfigError: If a field has an invalid value.
    """
    fields, body = parse_fields_and_body(text)
    known = {to_snake_case(key): value for key, value in fields.items()}
    behavior = {key: value for key in _BEHAVIOR if (value := known.get(key)) not in (None, "")}
    try:
        settled = msgspec.convert(behavior, _FileBehavior, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"The front matter of this subagent is invalid: {error}" + (f" ({source})" if source else "")
        ) from None
    model = _text(known.get("model"))
    return AgentDefinition(
        name=_text(known.get("name")) or name,
        description=_text(known.get("description")),
        system=body.strip() or None,
        tools=_tools(known["tools"]) if known.get("tools") not in (None, "") else None,
        model=None if model.lower() in _INHERITED else model,
        behavior=RunOptions(**{key: getattr(settled, key) for key in behavior}),
        source=source,
    )


class _FileBehavior(Struct, frozen=True):
    """The fields of a behavior that a file may set, with their types."""

    max_turns: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    max_total_tokens: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    thinking: Literal["off", "minimal", "low", "medium", "high", "xhigh"] | None = None

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_cost", "max_seconds", "max_total_tokens", "max_output_tokens"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be more than 0, not {value}")


_BEHAVIOR = _FileBehavior.__struct_fields__


def _files(folder: Path) -> Iterator[Path]:
    """Return the Markdown files below a folder, also through links; a missing or unreadable folder has none."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen or len(seen) == _MAX_FOLDERS:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = [Path(place, name) for name in sorted(names) if name.endswith(".md") and name.lower() != "readme.md"]
        yield from (path for path in paths if os.path.isfile(path))


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"it is larger than {_MAX_BYTES // 1024}KiB, too large for the definition of a subagent")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"it is not UTF-8: {error.reason} at byte {error.start}") from None


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _tools(value: Any) -> tuple[str, ...]:
    """Return tool names, with names of other programs converted to ours."""
    listed = cast("list[Any]", value) if isinstance(value, list) else str(value).strip("[]").split(",")
    names = [_text(each).strip("\"' ") for each in listed if isinstance(each, str)]
    return tuple([_canonical_tool_name(name) for name in names if name])


def _canonical_tool_name(name: str) -> str:
    lower = name.lower()
    if lower in _TOOL_ALIASES:
        return _TOOL_ALIASES[lower]
    return lower if lower in ("edit", "glob", "grep") else name
