"""How the options of a program may be spelled: shortened, in one word with others, with their value attached or behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mainspring.shell_analysis.words import Word


def behind(text: str, option: str) -> str | None:
    """What a word holds behind an option: its value, or nothing if that is the next word; ``None`` if it holds no such option.

    What stands before a short option in a word is taken for other options, so that now and then a word is found that holds a value.
    """
    if option.startswith("--"):
        name, _, value = text.partition("=")
        return value if len(name) > 3 and option.startswith(name) else None
    found = re.match(rf"-[A-Za-z0-9]*?{re.escape(option[1:])}", text)
    return None if found is None else text[found.end() :]


def holds(words: Sequence[Word], options: Sequence[str]) -> bool:
    """Whether one of some options stands in a command."""
    return any(behind(word.text, option) is not None for word in words[1:] for option in options)


def values(words: Sequence[Word], options: Sequence[str]) -> Iterator[Word]:
    """The values of some options in a command."""
    for word, following in zip(words[1:], [*words[2:], None], strict=False):
        for option in options:
            value = behind(word.text, option)
            if value:
                yield Word(value.removeprefix("=") if option.startswith("--") else value, word.source, word.splits)
            elif value == "" and "=" not in word.text and following is not None:
                yield following
