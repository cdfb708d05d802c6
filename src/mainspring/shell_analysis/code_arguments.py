"""Arguments that are code, or options that make a harmless program run code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import programs, wildcards
from mainspring.shell_analysis.options import behind
from mainspring.shell_analysis.words import Word

_AWK_DANGER = lazy_re(r"system|getline|(?<!\|)\|(?!\|)|@")
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

_BY_THEMSELVES = frozenset("git cmake go cargo openssl make gmake".split())
"""Programs that read no two short options from one word; git does behind its subcommand."""
_COMMANDED = frozenset("less more most man".split())
"""Programs that take commands behind a plus."""


def named_words(name: str, words: Sequence[Word]) -> int:
    """How many words of a command a pattern has to name before a wildcard may cover the rest.

    All, where arguments are code or make it run other programs; else its name.
    """
    if name == "git" and len(words) > 1 and words[1].text == "config":
        return 2  # what it sets may run
    return len(words) if _runs_code(name, words) else 1


def _runs_code(name: str, words: Sequence[Word]) -> bool:
    if name in programs.AWK:
        return _awk(words)
    if name in programs.SED:
        return _sed(words)
    return _runs_other(name, words)


def _runs_other(name: str, words: Sequence[Word]) -> bool:
    """Whether options make a program run another one."""
    options = programs.EXEC_OPTIONS.get(name, frozenset())
    if name == "git" and any(behind(w.text, o) is not None for o in _git_options(words) for w in words[2:]):
        return True
    if name in ("tar", "bsdtar", "gtar"):
        options = programs.EXEC_OPTIONS["tar"]
        if re.match(r"[A-Za-z]*[IF]", words[1].text if len(words) > 1 else ""):
            return True
    if name in _COMMANDED and any(w.text.startswith("+") for w in words[1:]):
        return True
    wary = name in programs.GLOB_WARY
    if not options and not wary:
        return False
    for before, word in zip(words, words[1:], strict=False):
        if any(_is_option(name, word.text, option) for option in options):
            return True
        unknown = word.text.startswith(wildcards.MANY) and before.text not in programs.MESSAGE_OPTIONS
        if unknown or (wary and word.text.startswith(wildcards.ONE)):
            return True
    return False


def _git_options(words: Sequence[Word]) -> frozenset[str]:
    """Short options that name a program with one subcommand, and something else with others."""
    subcommand = next((w.text for w in words[1:] if not w.text.startswith("-")), "")
    return programs.GIT_EXEC_OPTIONS.get(subcommand, frozenset())


def _is_option(program: str, text: str, option: str) -> bool:
    if option.endswith("="):
        return text.startswith(option)
    if option.startswith("--") or program not in _BY_THEMSELVES:
        return behind(text, option) is not None
    return text == option or (len(option) == 2 and text.startswith(option) and not text.startswith("--"))


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
    """Whether an awk program may print into a file: a text or a pattern before the ``>`` may hold what else ends a statement."""
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
        elif word.text.startswith("-") or word.text.startswith(wildcards.MANY):
            return True
        else:
            plain.append(word)
        i += 1
    if not scripts:
        scripts = plain[:1]
    return not scripts or any(not w.literal or not _harmless_sed(w.text) for w in scripts)


def _harmless_sed(script: str) -> bool:
    """Whether a sed script only prints, deletes and substitutes."""
    at = 0
    while at < len(script):
        step = _SED_STEP.match(script, at)
        if step is None or step.end() == at:
            return False
        at = step.end()
    return True
