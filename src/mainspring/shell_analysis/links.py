"""Find the commands that may create links, and the folders in which they may do so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.effects import creates_archive
from mainspring.shell_analysis.programs import has_option, option_values
from mainspring.shell_analysis.readonly_programs import READONLY_GIT
from mainspring.shell_analysis.references import paths_in_command
from mainspring.shell_analysis.syntax import AnalyzedCommand, Word, program_name, without_global_options

_INTO: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("tar", "bsdtar", "gtar"), ("-C", "--directory")),
    "unzip": ("-d",),
}
"""Programs that unpack files, and the options that name the folder."""

_CHANGES_FILES = frozenset("7z 7za 7zr 7zz cpio git hg jj patch pax svn unar unrar".split())
"""Programs that may create files that only an archive, a patch, or a repository names."""

_KEEPS_FILES = frozenset(
    "git add|git archive|git bundle|git clean|git commit|git config|git fetch|git gc|git init|git ls-remote|git notes|git push|git rm|"
    "svn add|svn commit|svn diff|svn info|svn log|svn ls|svn status|hg add|hg commit|hg diff|hg log|hg push|hg status|"
    "7z a|7z l|7z t|7za a|7za l|7za t|7zr a|7zr l|7zr t|7zz a|7zz l|7zz t".split("|")
).union(f"git {name}" for name in READONLY_GIT if " " not in name)
"""Subcommands that create no file that only a repository or an archive names."""

_AVOIDS_LINKS = frozenset(("git checkout", "git restore", "git mv", "git rm", "git clean"))
_COPIERS = frozenset(("mv", "rsync", "git mv", "ditto"))
_FILE_COPIERS = _COPIERS.union(("cp", "install", "ln", "scp"))
_COPIES_LINKS = ("-a", "-d", "-P", "-R", "-r", "--archive", "--no-dereference", "--recursive", "--preserve")


_MAKERS = _CHANGES_FILES.union(_COPIERS, _INTO, ("ln", "link", "cp"))


def creates_links(command: AnalyzedCommand) -> bool:
    """Return True if a command creates links at the paths that it writes."""
    return _name(command.words) in ("ln", "link")


def copies_files(command: AnalyzedCommand) -> bool:
    """Return True if a command copies or moves files, with their names, into a folder."""
    names = (_name(command.words), _subcommand(command.words))
    return not _FILE_COPIERS.isdisjoint(names)


def copies_links(command: AnalyzedCommand) -> bool:
    """Return True if a command that copies or moves a link, or a folder with links, creates links, too."""
    name = _name(command.words)
    return (
        name in _COPIERS
        or _subcommand(command.words) in _COPIERS
        or name == "cp"
        and has_option(command.words, _COPIES_LINKS)
    )


def uses_git(command: AnalyzedCommand) -> bool:
    """Return True if a command is git."""
    return _name(command.words) == "git"


def avoids_links(command: AnalyzedCommand) -> bool:
    """Return True if a command opens none of its files through a link: git does not in its working folder."""
    return _subcommand(command.words) in _AVOIDS_LINKS


def find_unpack_folders(command: AnalyzedCommand) -> list[str]:
    """Return the folders below which a command may create links that its words do not name; empty if it creates none."""
    words = command.words
    name, subcommand = _name(words), _subcommand(words)
    is_run = command.scan and not _MAKERS.isdisjoint(
        program_name(part) for word in words[1:] for part in word.text.split()
    )
    into: list[str] = []
    if name in _INTO and (name == "unzip" or not creates_archive(words)):
        into = [word.text for word in option_values(words, _INTO[name])]
    elif subcommand in ("git clone", "git worktree"):
        into = [access.word.text for access in command.file_accesses]
    elif not is_run and (name not in _CHANGES_FILES or subcommand in _KEEPS_FILES or _is_new_branch(words)):
        return []
    return into or [wildcards.CWD, *paths_in_command(command)]


def _is_new_branch(words: Sequence[Word]) -> bool:
    """Return True if git only creates a branch at the current commit."""
    return len(words) == 4 and [word.text for word in words[1:3]] in (["checkout", "-b"], ["switch", "-c"])


def _name(words: Sequence[Word]) -> str:
    return program_name(words[0].text) if words else ""


def _subcommand(words: Sequence[Word]) -> str:
    if _name(words) == "git":
        words = without_global_options(words)
    return f"{_name(words)} {words[1].text}" if len(words) > 1 else ""
