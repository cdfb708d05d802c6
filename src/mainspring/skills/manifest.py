"""Parses a skill file: the fields of the Agent Skills format, those of Mainspring, and those of other programs.

Lenient: everything that can be understood is used, with warnings. A file without a name or description is not a skill.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

from mainspring.frontmatter import FrontMatter, parse_front_matter
from mainspring.lazy import lazy_re
from mainspring.skills.content import strip_invisible
from mainspring.skills.skill import Script, Skill, SkillError, SkillSource, TriggerWords
from mainspring.text import to_snake_case, truncate_to_fit

MAX_ITEMS = 200
"""Maximum number of items of a list that are read."""


_MAX_ITEM_CHARS = 1024
_SENTENCE = lazy_re(r"[.!?](?=\s|$)|[。！？]")
_SHORT = lazy_re(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|Dr|Mr|Ms|St|No|fig|ca|bzw|z\.B|u\.a)|(?:^|\s)\w)$", re.IGNORECASE
)
_BRIEF = 200
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


def parse_text(value: Any) -> str:
    """Return text on one line, without hidden characters. Empty for other types."""
    return " ".join(strip_invisible(value).split()) if isinstance(value, str) else ""


def parse_hint(value: Any) -> str:
    """Return a text that may be written as a list or a map: ``[file]`` and ``{file}`` are YAML, but meant literally."""
    if isinstance(value, list):
        items = [parse_text(each) for each in cast("list[Any]", value)]
        return items[0] if len(items) == 1 and items[0][:1] in ("[", "<", "{") else f"[{', '.join(items)}]"
    return f"{{{', '.join(parse_map(value))}}}" if isinstance(value, dict) else parse_text(value)


def parse_list(value: Any) -> tuple[str, ...]:
    """Parse a list of texts: a list, or one text with commas, with or without brackets. Without duplicates."""
    return tuple(dict.fromkeys(t for each in _items(value) if (t := parse_text(each)[:_MAX_ITEM_CHARS])))


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return cast("list[Any]", value)[:MAX_ITEMS]
    if not isinstance(value, str):
        return []
    return [
        part.strip().strip("\"'") for part in split_unquoted(value.strip().removeprefix("[").removesuffix("]"), ",")
    ][:MAX_ITEMS]


def parse_tool_rules(value: Any) -> tuple[str, ...]:
    """Parse names of tools, some with a pattern in parentheses: a list, or one text separated by spaces or commas."""
    if isinstance(value, list):
        texts = [each for each in cast("list[Any]", value)[:MAX_ITEMS] if isinstance(each, str)]
        return tuple(dict.fromkeys(t for each in texts for t in parse_tool_rules(each)))
    parts = split_unquoted(parse_text(value).removeprefix("[").removesuffix("]"), ", ")
    return tuple(dict.fromkeys(p for part in parts if (p := part.strip().strip("\"'"))))


def split_unquoted(text: str, separators: str) -> Iterator[str]:
    """Split a text at separators outside of parentheses and quotes."""
    start, depth, quote = 0, 0, ""
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and depth == 0 and not text[start:at].strip():
            quote = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth = max(depth - 1, 0)
        elif char in separators and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def parse_bool(value: Any) -> bool | None:
    """Parse a YAML boolean in any spelling. ``None`` for other values."""
    word = parse_text(value).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def parse_map(value: Any) -> dict[str, Any]:
    """Parse a map with text keys. Empty for other types."""
    if not isinstance(value, dict):
        return {}
    pairs = list(cast("dict[Any, Any]", value).items())[:MAX_ITEMS]
    return {name: v for k, v in pairs if (name := parse_text(str(k) if not isinstance(k, (list, dict, tuple)) else ""))}


def parse_metadata_value(value: Any) -> str | None:
    """Return a value of ``metadata`` as text. A list becomes one line; deeper values are omitted."""
    if isinstance(value, str):
        return parse_text(value)[:_MAX_ITEM_CHARS]
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if all(isinstance(each, str) for each in items):
            return ", ".join(parse_text(each)[:100] for each in items[:20])[:_MAX_ITEM_CHARS]
    return None


def normalize_name(text: str) -> str:
    """Normalize a skill name: lower-case letters and digits, with single hyphens between them."""
    plain = unicodedata.normalize("NFKC", text).strip().lower()
    return "-".join(re.findall(r"[^\W_]+", plain))


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, on one line and truncated."""
    line = " ".join(text.split())
    for end in _SENTENCE.finditer(line):
        if not _SHORT.search(line[: end.start()]):
            line = line[: end.end()]
            break
    return truncate_to_fit(line, _BRIEF, strip=True)


MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
RECOMMENDED_DESCRIPTION_CHARS = 500
MAX_SCRIPT_SECONDS = 60.0
_MAX_WARNINGS = 30


SPEC_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed_tools"})
MAINSPRING_FIELDS = frozenset(
    "version author brief_description tools toolsets scripts triggers requires dependencies default_enabled disable_model_invocation "
    "user_invocable invocable argument_hint".split()
)
_FOREIGN_FIELDS = frozenset("model context agent hooks tags category keywords effort paths shell when_to_use".split())
"""Fields of other programs that have no effect here."""


_LINK = lazy_re(r"\.{1,2}/[^\s]+\.md")
_TOOLSET = lazy_re(r"[^\s:]+:[A-Za-z_]\w*")


def parse_skill(
    text: str,
    *,
    default_name: str = "",
    source: SkillSource = "inline",
    trusted: bool = False,
    directory: str | None = None,
    path: str | None = None,
    head: FrontMatter | None = None,
) -> Skill:
    """Parse the text of a skill file.

    Args:
        text: The text.
        default_name: The name if the front matter has none: that of the folder.
        source: Its source.
        trusted: Whether its code may run.
        directory: The real path of its folder, if it has one.
        path: Its file. Without one, the instructions are stored in the skill.
        head: Its front matter, if that is parsed already.

    Raises:
        SkillError: If it is invalid. The message has the reason and the fix.
    """
    head = head or _parse_head(text)
    given: dict[str, Any] = {}
    for key, value in head.fields.items():
        given.setdefault(to_snake_case(key), value)
    warnings = _field_warnings(head, given)
    name = _name(given, default_name, head, warnings)
    description = _description(given, head, warnings)
    metadata = _metadata(given, warnings)
    compatibility = parse_text(given.get("compatibility")) or None
    if compatibility and len(compatibility) > 500:
        warnings.append(f"its compatibility has {len(compatibility)} characters; the maximum is 500")
    allowed = parse_tool_rules(given["allowed_tools"]) if given.get("allowed_tools") not in (None, "") else None
    toggled = {key: _flag(given, key, warnings) for key in ("default_enabled", "disable_model_invocation")}
    users = _flag(given, "user_invocable", warnings)
    return Skill(
        name=name,
        description=description,
        brief=first_sentence(parse_text(given.get("brief_description")) or description),
        source=source,
        trusted=trusted,
        directory=directory,
        path=path,
        text=None if path is not None else head.body,
        version=parse_text(given.get("version")) or metadata.get("version") or None,
        license=parse_text(given.get("license")) or None,
        compatibility=compatibility,
        metadata=metadata,
        tools=parse_tool_rules(given.get("tools")),
        allowed_tools=allowed,
        triggers=_triggers(given.get("triggers"), warnings),
        scripts=_scripts(given.get("scripts"), warnings),
        toolsets=_toolsets(given.get("toolsets"), warnings),
        requires=_requires(given),
        default_enabled=toggled["default_enabled"] is not False,
        model_invocable=toggled["disable_model_invocation"] is not True,
        user_invocable=(_flag(given, "invocable", warnings) if users is None else users) is not False,
        argument_hint=parse_hint(given.get("argument_hint"))[:200],
        warnings=_limit_warnings(warnings),
    )


def _limit_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """Limit the number of warnings."""
    more = len(warnings) - _MAX_WARNINGS
    return (*warnings[:_MAX_WARNINGS], f"and {more} more of this kind") if more > 0 else tuple(warnings)


def _parse_head(text: str) -> FrontMatter:
    head = parse_front_matter(text)
    if head is not None:
        return head
    plain = text.strip().removeprefix("\ufeff")
    if not plain:
        raise SkillError(
            "the file is empty; it needs front matter with name and description, and instructions after it"
        )
    if _LINK.fullmatch(plain):
        raise SkillError(
            f"it contains only the path {plain[:200]}: it is a link that was checked out as a file. "
            "Enable links (git config core.symlinks true) and check it out again, or use that file"
        )
    if plain.startswith("---"):
        raise SkillError("its front matter has no end: a line with only --- must follow the fields", line=1)
    raise SkillError("it has no front matter: it must start with ---, then name: and description:, then ---", line=1)


def _field_warnings(head: FrontMatter, mapping: Mapping[str, Any]) -> list[str]:
    """Return warnings about the fields."""
    odd: list[str] = []
    for key in head.repaired:
        at = f"line {head.lines[key]}: " if key in head.lines else ""
        odd.append(f"{at}{key} is not valid YAML and was read as plain text; put its value in quotes")
    if head.flaw and not head.repaired:
        odd.append(
            f"line {head.flaw_line}: its front matter is not valid YAML ({head.flaw}); its fields were read one by one"
        )
    odd += [f"line {head.lines[key]}: {key} is a duplicate; the last one applies" for key in head.twice]
    if not mapping:
        raise SkillError("its front matter has no fields; it needs name: and description:", line=1)
    for key in sorted(head.fields):
        name = to_snake_case(key)
        if name in _FOREIGN_FIELDS:
            odd.append(f"{parse_text(key)} is a field of other programs and has no effect here")
        elif name not in SPEC_FIELDS and name not in MAINSPRING_FIELDS:
            odd.append(f"{parse_text(key)[:80]} is not a field of a skill; move it below metadata")
    return odd


def _name(mapping: Mapping[str, Any], fallback: str, head: FrontMatter, warnings: list[str]) -> str:
    written, line = parse_text(mapping.get("name")), head.lines.get("name", 1)
    spare = normalize_name(fallback)
    spare = spare if len(spare) <= MAX_NAME_CHARS else ""
    if not written:
        if not spare:
            raise SkillError("it has no name; add name: to its front matter", line=line)
        warnings.append(f"it has no name; {spare!r} is used after its folder or file")
        return spare
    name = normalize_name(written)
    if not name or len(name) > MAX_NAME_CHARS:
        reason = f"has {len(name)} characters; the maximum is {MAX_NAME_CHARS}" if name else "has no letter or digit"
        if not spare:
            raise SkillError(f"its name {reason}", line=line)
        warnings.append(f"its name {reason}; {spare!r} is used after its folder or file")
        return spare
    if name != written:
        warnings.append(
            f"its name {written[:100]!r} should have only lower-case letters, digits, and single hyphens; {name!r} is used"
        )
    elif fallback and name != spare:
        warnings.append(f"its name differs from that of its folder or file, {fallback[:100]!r}")
    return name


def _description(mapping: Mapping[str, Any], head: FrontMatter, warnings: list[str]) -> str:
    description = parse_text(mapping.get("description"))
    if not description:
        line = head.lines.get("description", 1)
        raise SkillError(
            "it has no description, so it is unknown when to use it; add description: to its front matter", line=line
        )
    if len(description) > MAX_DESCRIPTION_CHARS:
        warnings.append(
            f"its description has {len(description)} characters and is truncated to {MAX_DESCRIPTION_CHARS}"
        )
        return truncate_to_fit(description, MAX_DESCRIPTION_CHARS, strip=True)
    if len(description) > RECOMMENDED_DESCRIPTION_CHARS:
        warnings.append(
            f"its description has {len(description)} characters; it is part of every prompt, and {RECOMMENDED_DESCRIPTION_CHARS} are enough"
        )
    return description


def _metadata(mapping: Mapping[str, Any], warnings: list[str]) -> dict[str, str]:
    value = mapping.get("metadata")
    if value not in (None, "") and not isinstance(value, dict):
        warnings.append("metadata must be a map of names and texts; it was ignored")
    notes: dict[str, str] = {}
    for key, each in parse_map(value).items():
        note = parse_metadata_value(each)
        if note is None:
            warnings.append(f"metadata.{key[:80]} is not text and was ignored")
        else:
            notes[key] = note
    author = parse_text(mapping.get("author"))
    return {**({"author": author} if author else {}), **notes}


_KINDS = {
    **dict.fromkeys(("programs", "program", "bins", "bin", "commands", "tools"), ""),
    **dict.fromkeys(("python", "packages", "pip", "modules"), "python:"),
    **dict.fromkeys(("env", "variables", "environment"), "env:"),
}


def _requires(mapping: Mapping[str, Any]) -> tuple[str, ...]:
    """Parse requirements: a list, or lists by kind, and the packages that other programs call dependencies."""
    value = mapping.get("requires")
    needs = list(parse_list(value))
    for key, each in parse_map(value).items():
        kind = _KINDS.get(to_snake_case(key))
        if kind is not None:
            needs += [f"{kind}{text.removeprefix(kind)}" for text in parse_list(each)]
    for text in parse_list(mapping.get("dependencies")):
        if not text.lower().startswith("python") or text[6:7].isalnum() or text[6:7] in "-_":
            needs.append(f"python:{text}")
    return tuple(dict.fromkeys(needs))


def _flag(mapping: Mapping[str, Any], key: str, warnings: list[str]) -> bool | None:
    value = mapping.get(key)
    if value in (None, ""):
        return None
    flag = parse_bool(value)
    if flag is None:
        warnings.append(f"{key} must be true or false; it was ignored")
    return flag


def _triggers(value: Any, warnings: list[str]) -> TriggerWords:
    """Parse a map of keywords, verbs, and patterns. A list contains keywords."""
    if not isinstance(value, dict):
        return TriggerWords(keywords=parse_list(value))
    given = {to_snake_case(key): each for key, each in parse_map(cast("Any", value)).items()}
    unknown = sorted(set(given) - {"keywords", "verbs", "patterns"})
    warnings += [f"triggers has an unknown key {key[:80]}; use keywords, verbs, and patterns" for key in unknown]
    patterns: list[str] = []
    listed = given.get("patterns")
    for text in cast("list[Any]", listed) if isinstance(listed, list) else [listed] if listed else []:
        try:
            if isinstance(text, str) and text:
                re.compile(text)
                patterns.append(text)
        except (re.error, RecursionError, OverflowError) as error:
            warnings.append(f"the trigger pattern {parse_text(text)[:80]!r} is invalid ({error}) and was ignored")
    return TriggerWords(
        keywords=parse_list(given.get("keywords")), verbs=parse_list(given.get("verbs")), patterns=tuple(patterns)
    )


def _scripts(value: Any, warnings: list[str]) -> tuple[Script, ...]:
    """Parse a list of paths or maps, or a map of names to either."""
    rows: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        rows = list(parse_map(cast("Any", value)).items())
    elif isinstance(value, list):
        rows = [("", each) for each in cast("list[Any]", value)]
    else:
        rows = [("", each) for each in parse_list(value)]
    found: dict[str, Script] = {}
    for name, row in rows:
        script = _script(name, row, warnings)
        if script is not None and found.setdefault(script.name, script) is not script:
            warnings.append(f"the script {script.name!r} is a duplicate; the first one applies")
    return tuple(found.values())


def _script(name: str, row: Any, warnings: list[str]) -> Script | None:
    given = {to_snake_case(k): v for k, v in parse_map(row).items()} if isinstance(row, dict) else {"path": row}
    path = parse_text(given.get("path") or given.get("file") or given.get("script")).removeprefix("./")
    called = name or parse_text(given.get("name")) or path
    if not is_relative_inside(path):
        warnings.append(f"the script {called[:80]!r} has no path inside the skill's folder and was ignored")
        return None
    seconds = MAX_SCRIPT_SECONDS
    if given.get("timeout") not in (None, ""):
        try:
            seconds = float(parse_text(given["timeout"]).removesuffix("s"))
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= MAX_SCRIPT_SECONDS:
            warnings.append(
                f"the timeout of {called[:80]!r} must be more than 0 and at most {MAX_SCRIPT_SECONDS:g} seconds; {MAX_SCRIPT_SECONDS:g} is used"
            )
            seconds = MAX_SCRIPT_SECONDS
    return Script(name=called, path=path, description=parse_text(given.get("description"))[:500], timeout=seconds)


def is_relative_inside(path: str) -> bool:
    """Return True if a path in a skill file is inside the folder."""
    pure = PurePosixPath(path.replace("\\", "/"))
    return (
        bool(path)
        and not pure.is_absolute()
        and ".." not in pure.parts
        and ":" not in path.split("/")[0]
        and path[0] != "~"
    )


def _toolsets(value: Any, warnings: list[str]) -> tuple[str, ...]:
    """Parse ``path:Class`` or ``module:Class``: one, a list, or a list of maps with ``class`` or ``path``."""
    rows = cast("list[Any]", value) if isinstance(value, list) else list(parse_list(value))
    found: list[str] = []
    for row in rows:
        given = parse_map(row)
        text = parse_text(given.get("class") or given.get("path") or given.get("toolset")) if given else parse_text(row)
        place = text.rpartition(":")[0]
        if not _TOOLSET.fullmatch(text) or not is_relative_inside(place):
            warnings.append(f"invalid toolset {text[:80]!r}: use tools.py:Class or module:Class")
        elif text not in found:
            found.append(text)
    return tuple(found)
