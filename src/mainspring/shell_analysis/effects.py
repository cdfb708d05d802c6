"""The effects of common commands on files, and of builtins on the shell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import programs, wildcards
from mainspring.shell_analysis.syntax import FileEffect, FileScope, Word

_DELETE = frozenset("rm rmdir unlink shred trash srm".split())
_WRITE = frozenset("tee touch mkdir truncate mkfifo mknod chmod chown chgrp setfacl chattr sponge patch".split())
_COPY = frozenset("cp install ln rsync scp ditto".split())
_READ = frozenset(
    "cat head tail less more tac nl od xxd hexdump strings base64 base32 wc sort uniq cut comm diff cmp paste md5sum sha1sum sha256sum "
    "sha512sum b2sum cksum file stat ls tree du grep egrep fgrep rg ag bat zcat bzcat xzcat jq yq sed awk column fold rev expand".split()
)
_PATTERN_FIRST = frozenset(("grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "jq", "yq"))


def file_effects(name: str, words: Sequence[Word]) -> tuple[FileEffect, ...]:
    """Return the files that a command is known to touch.

    Args:
        name: The program's plain name.
        words: The command.
    """
    operands = _operands(words)
    if name == "install" and programs.has_option(words, ("-d", "--directory")):
        return tuple(FileEffect("fs-write", w) for w in operands)
    if name == "mv":
        return _mv_effects(words, operands)
    if name in _COPY:
        into = _target_folder(words)
        reads = operands if into else operands[:-1]
        return tuple(FileEffect("fs-read", w) for w in reads) + tuple(
            FileEffect("fs-write", w) for w in into or operands[-1:]
        )
    if name == "dd":
        return tuple(_dd(words))
    if name == "git":
        return _git(words)
    if name in ("sed", "gsed", "yq") and programs.has_option(words, ("-i", "--in-place", "--inplace")):
        scripts = programs.has_option(words, ("-e", "-f", "--expression", "--file", "--from-file"))
        return tuple(FileEffect("fs-write", w) for w in operands[0 if scripts else 1 :])
    scope: FileScope | None = "fs-delete" if name in _DELETE else "fs-write" if name in _WRITE else None
    if scope is not None:
        return tuple(FileEffect(scope, w) for w in [*operands, *_output_files(name, words)])
    reads = operands[1 if name in _PATTERN_FIRST else 0 :] if name in _READ else ()
    written = [*_output_files(name, words), *_output_operands(name, words, operands)]
    return tuple(FileEffect("fs-write", w) for w in written) + tuple(FileEffect("fs-read", w) for w in reads)


def _output_operands(name: str, words: Sequence[Word], operands: list[Word]) -> list[Word]:
    """Return the operands of some programs that are written."""
    if name in ("uniq", "xxd", "split", "csplit"):
        return [*operands[1:], *(word for word in operands[:1] if word.splits)]
    if name == "zip":
        return operands[:1]
    if name not in ("tar", "bsdtar", "gtar") or not creates_archive(words):
        return []
    bundled = re.fullmatch(r"[A-Za-z]*f[A-Za-z]*", words[1].text) is not None
    return [*words[2:3], *_file_values(words)] if bundled else _file_values(words)


def creates_archive(words: Sequence[Word]) -> bool:
    """Return True if ``tar`` creates or changes an archive; else it lists or unpacks one."""
    making = ("-c", "-r", "-u", "--create", "--append", "--update")
    bundle = len(words) > 1 and re.match(r"[A-Za-z]*[cru]", words[1].text) is not None
    return bundle or programs.has_option(words, making)


def _file_values(words: Sequence[Word]) -> list[Word]:
    return list(programs.option_values(words, ("-f", "--file")))


def find_command_effects(words: Sequence[Word]) -> tuple[FileEffect, ...]:
    """Return the effects of ``find``: the folders it searches, the folders it deletes in, and the files it writes."""
    starts: list[Word] = []
    for word in words[1:]:
        if word.text.startswith(("-", "(", "!", ")")) and word.text not in ("-H", "-L", "-P"):
            break
        if not word.text.startswith("-"):
            starts.append(word)
    starts = starts or [Word(".", ".")]
    found = [FileEffect("fs-read", w) for w in starts]
    for option, value in zip(words[1:], [*words[2:], None], strict=False):
        if option.text == "-delete":
            found += [FileEffect("fs-delete", w) for w in starts]
        elif option.text in ("-fprint", "-fprint0", "-fprintf", "-fls") and value is not None:
            found.append(FileEffect("fs-write", value))
    return tuple(found)


def _operands(words: Sequence[Word]) -> list[Word]:
    """Return the arguments that are not options. The value of an option is included, which is harmless here."""
    found: list[Word] = []
    ended = False
    for word in words[1:]:
        if ended or not word.text.startswith("-") or word.text == "-":
            found.append(word)
        elif word.text == "--":
            ended = True
    return [w for w in found if w.text != "-"]


def _target_folder(words: Sequence[Word]) -> list[Word]:
    return list(programs.option_values(words, ("-t", "--target-directory")))


def _mv_effects(words: Sequence[Word], operands: list[Word]) -> tuple[FileEffect, ...]:
    into = _target_folder(words)
    sources = operands if into or len(operands) < 2 else operands[:-1]
    return tuple(FileEffect("fs-delete", w) for w in sources) + tuple(
        FileEffect("fs-write", w) for w in into or operands[-1:]
    )


def _dd(words: Sequence[Word]) -> list[FileEffect]:
    found: list[FileEffect] = []
    for word in words[1:]:
        key, _, value = word.text.partition("=")
        if key in ("of", "if"):
            found.append(FileEffect("fs-write" if key == "of" else "fs-read", Word(value, word.source, word.splits)))
    return found


def _git(words: Sequence[Word]) -> tuple[FileEffect, ...]:
    subcommand = words[1].text if len(words) > 1 else ""
    operands = _operands(words[1:])
    if subcommand == "rm":
        return tuple(FileEffect("fs-delete", w) for w in operands)
    if subcommand == "mv":
        return _mv_effects(words[1:], operands)
    if subcommand == "clean" and not any(re.match(r"-[a-z]*n|--dry-run", w.text) for w in words[2:]):
        return tuple(FileEffect("fs-delete", w) for w in operands or [Word(".", ".")])
    created = {
        "init": operands,
        "clone": operands[1:] or [_cloned_folder(word) for word in operands],
        "bundle": operands[1:2] if operands[:1] and operands[0].text == "create" else [],
        "worktree": operands[1:] if operands[:1] and operands[0].text in ("add", "move") else [],
        "checkout": operands,
        "restore": operands,
    }.get(subcommand, [])
    outputs = programs.option_values(words[1:], _GIT_OUTPUT.get(subcommand, ()))
    return tuple(FileEffect("fs-write", w) for w in [*created, *outputs])


def _cloned_folder(address: Word) -> Word:
    """Return the folder that ``git clone`` creates if none is named: the last part of the URL."""
    name = re.split(r"[/:]", address.text.rstrip("/").removesuffix("/.git").rstrip("/"))[-1].removesuffix(".git")
    return Word(name if address.literal and name else wildcards.CWD, address.source)


_GIT_OUTPUT = {
    "archive": ("-o", "--output"),
    "clone": ("--separate-git-dir",),
    "init": ("--separate-git-dir",),
    "diff": ("--output",),
    "log": ("--output",),
    "show": ("--output",),
    "format-patch": ("-o", "--output-directory"),
    "checkout-index": ("--prefix",),
    "apply": ("--directory",),
    "fast-import": ("--export-marks",),
    "fast-export": ("--export-marks",),
}


_OUTPUT_OPTIONS = {
    "curl": ("-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar"),
    "wget": ("-O", "--output-document", "-o", "--output-file", "-P", "--directory-prefix"),
    "sort": ("-o", "--output"),
    "shuf": ("-o", "--output"),
    "iconv": ("-o", "--output"),
    "tree": ("-o",),
    "diff": ("--output",),
    "patch": ("-o", "--output", "-d", "--directory", "-r", "--reject-file"),
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++", "go"), ("-o",)),
    "unzip": ("-d",),
    "tar": ("-C", "--directory"),
}


def _output_files(name: str, words: Sequence[Word]) -> list[Word]:
    found = list(programs.option_values(words, _OUTPUT_OPTIONS.get(name, ())))
    if name == "wget" and not found:
        found.append(Word(wildcards.CWD, "."))
    return found


_INTEGER = lazy_re(r"[-+]?[0-9]{1,9}")
_STATUS = frozenset(("$?", '"$?"', "${?}"))
_PLAIN_NAME = lazy_re(r"[A-Za-z0-9_./+@:][A-Za-z0-9_./+@:-]*|\[")
_CONVERSION = lazy_re(r"%(?:%|[-+ 0#]*[0-9]*(?:\.[0-9]+)?([A-Za-z]))")
_FILE_TESTS = frozenset("-e -f -d -r -w -x -s -L -h -p -S -b -c -n -z -u -g -k -O -G".split())
_TEXT_TESTS = frozenset("= == != -nt -ot -ef".split())
_NUMBER_TESTS = frozenset("-eq -ne -lt -le -gt -ge".split())
_SET_OPTIONS = lazy_re(r"-[eu]+|-[eu]*o")


SPECIAL_BUILTINS = frozenset(": break continue exec exit return set shift".split())
"""Builtins after which a variable that is set before them stays set in some shell."""


_REJECTED = frozenset(". alias bg eval export fg getopts hash local read readonly times trap".split())
BUILTINS = programs.NO_OP_BUILTINS.union(
    _REJECTED, "cd command echo exec jobs kill printf pwd set test type ulimit umask unset wait [".split()
)
"""Names that every shell runs as builtins."""


_UNKNOWN_BUILTINS = _REJECTED.union(
    "autoload bind bindkey builtin bye caller chdir comparguments compcall compctl compdescribe compfiles compgen compgroups "
    "complete compopt compquote comptags comptry compvalues coproc declare dirs disable disown echotc echoti emulate enable "
    "fc float functions getln help history integer let limit log logout mapfile noglob popd print private pushd "
    "pushln r readarray rehash sched setopt shopt source suspend ttyctl typeset unalias unfunction unhash "
    "unlimit unset unsetopt vared whence where zcompile zformat zle zmodload zparseopts zregexparse zstyle "
    "nocorrect".split()
)
"""Builtins of some shell that change the shell, run code, or evaluate their arguments, so that lines with them are rejected."""


def construct(words: Sequence[Word]) -> str:
    """Return the name of an unsupported construct in a command, or an empty string.

    Args:
        words: The command, whose name is known.
    """
    name = words[0].text
    if name in _UNKNOWN_BUILTINS:
        return f"the builtin {name!r}"
    if not _PLAIN_NAME.fullmatch(name):
        return "a command name with characters that a shell may read as something else"
    check = _CHECKS.get(name)
    return (
        ""
        if check is None or check(words[1:])
        else f"{name!r} with arguments that a shell may evaluate or that are not known"
    )


def _is_integer(word: Word) -> bool:
    return _INTEGER.fullmatch(word.text) is not None or word.source in _STATUS


def _at_most_one_integer(words: Sequence[Word]) -> bool:
    return not words or (len(words) == 1 and _is_integer(words[0]))


def _all_literal(words: Sequence[Word]) -> bool:
    return all(word.literal for word in words)


def _folder(words: Sequence[Word]) -> bool:
    return not words or (
        len(words) == 1 and not words[0].splits and (words[0].text == "-" or words[0].text[:1] not in "-+")
    )


def _plain_command(words: Sequence[Word]) -> bool:
    """Check ``command`` and ``exec``: only a name, or ``-v`` and names."""
    if not words or not words[0].text.startswith("-"):
        return True
    return words[0].text in ("-v", "-V") and _all_literal(words)


def _exec(words: Sequence[Word]) -> bool:
    return bool(words) and words[0].literal and not words[0].text.startswith("-")


def _time(words: Sequence[Word]) -> bool:
    rest = words[1:] if words and words[0].text == "-p" else words
    return not rest or (_PLAIN_NAME.fullmatch(rest[0].text) is not None and rest[0].source not in _RESERVED)


def _set(words: Sequence[Word]) -> bool:
    texts = [word.text for word in words]
    if texts and texts[-1] == "pipefail":
        return len(texts) == 2 and texts[0].endswith("o") and _SET_OPTIONS.fullmatch(texts[0]) is not None
    return len(texts) == 1 and _SET_OPTIONS.fullmatch(texts[0]) is not None and not texts[0].endswith("o")


def _printf(words: Sequence[Word]) -> bool:
    """Check that a format contains only strings; numbers only if every argument is a number, since zsh evaluates them."""
    if words and words[0].text == "--":
        words = words[1:]
    if not words or not words[0].literal or words[0].text.startswith("-"):
        return False
    text = words[0].text
    letters = [match[1] for match in _CONVERSION.finditer(text) if match[1] is not None]
    if "%" in _CONVERSION.sub("", text) or not set(letters) <= set("sbqdiuxXofFgGeE"):
        return False
    if set(letters) <= {"s", "b", "q"}:
        return True
    if any(word.splits for word in words[1:]):
        return all(map(_is_integer, words[1:]))
    return all(letters[i % len(letters)] in "sbq" or _is_integer(word) for i, word in enumerate(words[1:]))


def _test(words: Sequence[Word]) -> bool:
    """Check ``[ ... ]`` and ``test``: one comparison with a known operator that evaluates nothing."""
    if any(word.splits for word in words):
        return False
    if words and words[0].text == "!":
        words = words[1:]
    match len(words):
        case 0 | 1:
            return True
        case 2:
            return words[0].text in _FILE_TESTS or (words[0].text == "-t" and _is_integer(words[1]))
        case 3:
            operator = words[1].text
            return operator in _TEXT_TESTS or (
                operator in _NUMBER_TESTS and _is_integer(words[0]) and _is_integer(words[2])
            )
        case _:
            return False


def _bracket(words: Sequence[Word]) -> bool:
    return bool(words) and words[-1].text == "]" and _test(words[:-1])


_RESERVED = frozenset(
    "! { } [[ ]] case coproc declare do done elif else end esac export fi float for foreach function if in integer let local "
    "nocorrect noglob readonly repeat select then time typeset until while".split()
)


_CHECKS: Mapping[str, Callable[[Sequence[Word]], bool]] = {
    "break": _at_most_one_integer,
    "continue": _at_most_one_integer,
    "exit": _at_most_one_integer,
    "return": _at_most_one_integer,
    "shift": _at_most_one_integer,
    "wait": _at_most_one_integer,
    "cd": _folder,
    "command": _plain_command,
    "exec": _exec,
    "time": _time,
    "set": _set,
    "printf": _printf,
    "test": _test,
    "[": _bracket,
    "jobs": _all_literal,
    "pwd": _all_literal,
    "type": _all_literal,
    "which": _all_literal,
    "ulimit": lambda split_words: not split_words,
    "umask": lambda split_words: not split_words,
}
