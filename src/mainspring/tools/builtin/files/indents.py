"""Putting new lines where they belong when the text that they replace was found with another indentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Reindent = Callable[[str], str | None]
"""From the indentation that new text has to the one that the file wants; ``None`` if that cannot be told."""


def indent_of(line: str) -> str:
    """The white space at the start of a line."""
    return line[: len(line) - len(line.lstrip())]


def reindenter(
    found: Sequence[str], old: Sequence[str], new: Sequence[str], same: Sequence[tuple[int, int]]
) -> Reindent | None:
    """How to indent new lines.

    New text is either indented as the file is, while only the old text was not, or in the same wrong way as the old text.
    Lines that both have tell which; else the shallowest line does.

    Args:
        found: The lines in the file.
        old: The lines that were given for them.
        new: The lines that replace them.
        same: Pairs of lines of old and new that say the same.

    Returns:
        ``None`` if the lines contradict each other.
    """
    as_file = as_old = 0
    for i, j in same:
        if old[i].strip() and indent_of(old[i]) != indent_of(found[i]):
            as_file += indent_of(new[j]) == indent_of(found[i])
            as_old += indent_of(new[j]) == indent_of(old[i])
    if as_file and as_old:
        return None
    pairs = [(indent_of(o), indent_of(f)) for o, f in zip(old, found, strict=True) if o.strip()]
    moved = _move(pairs)
    if as_file or (not as_old and _is_as_file(pairs, new, moved)):
        return lambda indent: indent
    return moved


def _is_as_file(pairs: Sequence[tuple[str, str]], new: Sequence[str], moved: Reindent | None) -> bool:
    indents = [indent_of(line) for line in new if line.strip()]
    if not indents:
        return True
    shallowest = min(indents, key=_width)
    shallowest_old, shallowest_found = min((o for o, _ in pairs), key=_width), min((f for _, f in pairs), key=_width)
    if shallowest == shallowest_old:
        return False
    return shallowest == shallowest_found or (_width(shallowest) > _width(shallowest_old) < _width(shallowest_found))


def _width(indent: str) -> int:
    return len(indent.expandtabs(4))


def _move(pairs: Sequence[tuple[str, str]]) -> Reindent | None:
    """The one rule that leads from every old indentation to the file's, if there is one."""
    rules: list[Reindent] = []
    old, found = min(pairs, key=lambda p: _width(p[0]))
    if found.endswith(old):
        deeper = found[: len(found) - len(old)]
        rules.append(lambda indent: deeper + indent)
    if old.endswith(found):
        shallower = old[: len(old) - len(found)]
        rules.append(lambda indent: indent.removeprefix(shallower) if indent.startswith(shallower) else None)
    rules += [_spaces_for_tabs(n) for n in (4, 2, 8, 3)] + [_tabs_for_spaces(n) for n in (4, 2, 8, 3)]
    known = dict(pairs)
    if len(set(pairs)) == len(known):
        fitting = [rule for rule in rules if all(rule(o) == f for o, f in pairs)]
        if fitting:
            return fitting[0]
        return known.get
    return None


def _spaces_for_tabs(n: int) -> Reindent:
    return lambda indent: indent.replace("\t", " " * n)


def _tabs_for_spaces(n: int) -> Reindent:
    return lambda indent: indent.replace(" " * n, "\t")
