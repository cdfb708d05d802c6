"""Arguments that are code, and options that make a harmless program run code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import programs, wildcards
from mainspring.shell_analysis.syntax import Word

_AWK_DANGER = lazy_re(r"system|getline|(?<!\|)\|(?!\|)|@|ARG[VC]|ENVIRON|PROCINFO|SYMTAB|FUNCTAB")
_AWK_WRITES = lazy_re(r"print[^;}]*>")
_AWK_TEXT = lazy_re(r'"(?:\\.|[^"\\])*"', re.DOTALL)
_AWK_MAY_WRITE = lazy_re(r"print.*>", re.DOTALL)
_SED_ADDRESS = r"(?:\d+|\$|/(?:\\.|[^/\\\n])*/)"
_SED_END = r"(?=\s*(?:[;\n}]|$))"
_SED_STEP = lazy_re(
    rf"[\s;]*(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d+))?)?\s*!?\s*(?:"
    rf"[pdq=nNgGhHxDPl]{_SED_END}"
    rf"|s(?P<s>[/|#,:@!])(?:\\.|(?!(?P=s))[^\\\n])*(?P=s)(?:\\.|(?!(?P=s))[^\\\n])*(?P=s)[gpiI0-9]*{_SED_END}"
    rf"|y(?P<y>[/|#,])(?:(?!(?P=y))[^\\\n])*(?P=y)(?:(?!(?P=y))[^\\\n])*(?P=y){_SED_END}"
    r"|$)"
)


def required_literal_words(name: str, words: Sequence[Word]) -> int:
    """Return how many words of a command a pattern must name before a wildcard may cover the rest.

    All words, if arguments are code or make the command run other programs; else its name.
    """
    if name == "git" and len(words) > 1 and words[1].text == "config":
        return 2  # the variables that it sets may run code
    return len(words) if _runs_code(name, words) else 1


def _runs_code(name: str, words: Sequence[Word]) -> bool:
    if name in programs.AWK:
        return _awk(words)
    if name in programs.SED:
        return _sed(words)
    return False


def _awk(words: Sequence[Word]) -> bool:
    i = 1
    while i < len(words):
        text = words[i].text
        if not words[i].literal:
            return True
        if text in ("-F", "-v"):
            i += 2
        elif re.match(r"-F.|-v.|--$", text):
            i += 1
        elif text.startswith("-"):
            return True
        else:
            return _AWK_DANGER.search(text) is not None or _awk_writes(text)
    return True


def _awk_writes(code: str) -> bool:
    """Return True if an awk program may print into a file.

    A string or a pattern before the ``>`` may contain the characters that otherwise end a statement.
    """
    if "/" in code or "#" in code:
        return _AWK_MAY_WRITE.search(code) is not None
    return _AWK_WRITES.search(_AWK_TEXT.sub("", code)) is not None


def _sed(words: Sequence[Word]) -> bool:
    scripts: list[Word] = []
    plain: list[Word] = []
    i = 1
    while i < len(words):
        word = words[i]
        if word.text in ("-e", "--expression") and i + 1 < len(words):
            scripts.append(words[i + 1])
            i += 1
        elif word.text.startswith("--expression="):
            scripts.append(Word(word.text.partition("=")[2], word.source, word.splits))
        elif re.fullmatch(r"-[nErszui]+|-i\.\w+|--quiet|--silent|--regexp-extended|--in-place(=\.\w+)?", word.text):
            pass
        elif word.text.startswith("-") or word.text.startswith(wildcards.ANY_TEXT):
            return True
        else:
            plain.append(word)
        i += 1
    if not scripts:
        scripts = plain[:1]
    return not scripts or any(not w.literal or not _is_harmless_sed(w.text) for w in scripts)


def _is_harmless_sed(script: str) -> bool:
    """Return True if a sed script only prints, deletes, and substitutes."""
    at = 0
    while at < len(script):
        step = _SED_STEP.match(script, at)
        if step is None or step.end() == at:
            return False
        at = step.end()
    return True
