"""What well-known commands do to the files they name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mainspring.shell_analysis import programs as options
from mainspring.shell_analysis import wildcards
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
    """The files that a command is known to touch.

    Args:
        name: The program's plain name.
        words: The command.
    """
    operands = _operands(words)
    if name == "install" and options.has_option(words, ("-d", "--directory")):
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
    if name in ("sed", "gsed", "yq") and options.has_option(words, ("-i", "--in-place", "--inplace")):
        scripts = options.has_option(words, ("-e", "-f", "--expression", "--file", "--from-file"))
        return tuple(FileEffect("fs-write", w) for w in operands[0 if scripts else 1 :])
    scope: FileScope | None = "fs-delete" if name in _DELETE else "fs-write" if name in _WRITE else None
    if scope is not None:
        return tuple(FileEffect(scope, w) for w in [*operands, *_output_files(name, words)])
    reads = operands[1 if name in _PATTERN_FIRST else 0 :] if name in _READ else ()
    written = [*_output_files(name, words), *_output_operands(name, words, operands)]
    return tuple(FileEffect("fs-write", w) for w in written) + tuple(FileEffect("fs-read", w) for w in reads)


def _output_operands(name: str, words: Sequence[Word], operands: list[Word]) -> list[Word]:
    """The operands of some programs that are written."""
    if name in ("uniq", "xxd", "split", "csplit"):
        return operands[1:]
    if name == "zip":
        return operands[:1]
    if name not in ("tar", "bsdtar", "gtar") or len(words) < 2:
        return []
    making = re.match(r"-?[A-Za-z]*[cru]", words[1].text) or options.has_option(
        words, ("--create", "--append", "--update")
    )
    if not making and not options.has_option(words, ("-c", "-r", "-u")):
        return []
    bundled = re.fullmatch(r"[A-Za-z]*f[A-Za-z]*", words[1].text) is not None
    return [*words[2:3], *_file_values(words)] if bundled else _file_values(words)


def _file_values(words: Sequence[Word]) -> list[Word]:
    return list(options.option_values(words, ("-f", "--file")))


def find_command_effects(words: Sequence[Word]) -> tuple[FileEffect, ...]:
    """What ``find`` touches: the folders it looks through, deletes in, and files it writes."""
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
    """The arguments that are no options. The value of an option counts as one, which does no harm here."""
    found: list[Word] = []
    ended = False
    for word in words[1:]:
        if ended or not word.text.startswith("-") or word.text == "-":
            found.append(word)
        elif word.text == "--":
            ended = True
    return [w for w in found if w.text != "-"]


def _target_folder(words: Sequence[Word]) -> list[Word]:
    return list(options.option_values(words, ("-t", "--target-directory")))


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
    made = {
        "init": operands,
        "clone": operands[1:] or [_cloned_folder(word) for word in operands],
        "bundle": operands[1:2] if operands[:1] and operands[0].text == "create" else [],
        "worktree": operands[1:] if operands[:1] and operands[0].text in ("add", "move") else [],
        "checkout": operands,
        "restore": operands,
    }.get(subcommand, [])
    given = options.option_values(words[1:], _GIT_OUTPUT.get(subcommand, ()))
    return tuple(FileEffect("fs-write", w) for w in [*made, *given])


def _cloned_folder(address: Word) -> Word:
    """The folder that ``git clone`` makes if none is named: the last part of the address."""
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
    found = list(options.option_values(words, _OUTPUT_OPTIONS.get(name, ())))
    if name == "wget" and not found:
        found.append(Word(wildcards.CWD, "."))
    return found
