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
    Lines that both have tell which; where they do not agree or there are none, the shallowest line does.

    Args:
        found: The lines in the file.
        old: The lines that were given for them.
        new: The lines that replace them.
        same: Pairs of lines of old and new that say the same.

    Returns:
        ``None`` if nothing tells.
    """
    as_file = as_old = 0
    for i, j in same:
        if old[i].strip() and indent_of(old[i]) != indent_of(found[i]):
            as_file += indent_of(new[j]) == indent_of(found[i])
            as_old += indent_of(new[j]) == indent_of(old[i])
    pairs = [(indent_of(o), indent_of(f)) for o, f in zip(old, found, strict=True) if o.strip()]
    if bool(as_file) != bool(as_old):
        is_as_file: bool | None = bool(as_file)
    else:
        is_as_file = _by_depth(pairs, new, None if as_file else False)
    if is_as_file is None:
        return None
    return (lambda indent: indent) if is_as_file else _move(pairs)


def _by_depth(pairs: Sequence[tuple[str, str]], new: Sequence[str], otherwise: bool | None) -> bool | None:
    """Whether the shallowest new line shows that new text is indented as the file is."""
    depths = [_width(indent_of(line)) for line in new if line.strip()]
    old, found = min(_width(o) for o, _ in pairs), min(_width(f) for _, f in pairs)
    if not depths:
        return True
    if found > old:
        return min(depths) >= found
    if found < old:
        return min(depths) < old
    return otherwise


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
