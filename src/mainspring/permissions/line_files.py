"""Resolve the files that the words of one line name, and follow the links that the line creates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from itertools import takewhile
from typing import Protocol, runtime_checkable

from mainspring.env import DirEntry
from mainspring.env.protocol import check_in_thread
from mainspring.permissions.git_repository import ReadsFolders
from mainspring.permissions.path_patterns import matches, split_path
from mainspring.permissions.paths import (
    PathParts,
    ProjectPaths,
    ResolvedPath,
    ResolvesPaths,
    lexical_parts,
    resolve_word,
    word_parts,
)
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.file_reads import FileReads, find_readonly_reads, find_recursive_read, find_xargs_reads
from mainspring.shell_analysis.links import (
    avoids_links,
    copies_links,
    creates_links,
    find_unpack_folders,
    uses_git,
)
from mainspring.shell_analysis.references import paths_in_command, plain_words_in_command
from mainspring.shell_analysis.syntax import AnalyzedCommand, Redirect

MAX_PATHS = 500
"""Maximum number of paths for one word; a word that matches more is not expanded."""


@runtime_checkable
class ListsDirectories(Protocol):
    """An environment that can list a folder."""

    async def list_dir(self, path: str) -> list[DirEntry]:
        """The names in a folder."""
        ...


async def expand_wildcards(
    env: object, parts: Sequence[str], listings: dict[str, list[DirEntry]] | None = None
) -> list[str] | None:
    """Return the existing paths that a word with wildcards matches.

    Args:
        env: Environment in which the command will run.
        parts: Components from the root, wildcards as unknown pieces.
        listings: The folders that were listed for the same line, to which others are added.

    Returns:
        Absolute paths; ``None`` if they are too many, or the environment cannot list folders.
    """
    if not isinstance(env, ListsDirectories):
        return None
    listings = {} if listings is None else listings
    found = [""]
    for part in parts:
        if wildcards.is_literal(part):
            found = [f"{path}/{part}" for path in found]
            continue
        following: list[str] = []
        for path in found:
            following += [f"{path}/{name}" for name in await _names(env, path or "/", part, listings)]
            if len(following) > MAX_PATHS:
                return None
        found = following
    return found


async def _names(env: ListsDirectories, folder: str, part: str, listings: dict[str, list[DirEntry]]) -> list[str]:
    if folder not in listings:
        try:
            listings[folder] = await env.list_dir(folder)
        except OSError:
            listings[folder] = []
    pattern = part.replace(wildcards.ANY_CHAR, wildcards.ANY_TEXT).replace(wildcards.VISIBLE, wildcards.ANY_TEXT)
    hidden = not part.startswith(wildcards.VISIBLE)
    return [
        e.name
        for e in listings[folder]
        if (hidden or not e.name.startswith(".")) and wildcards.fullmatch(pattern, e.name)
    ]


MAX_RESOLVED_PATHS = 300
"""Maximum number of paths of one line that are checked. A line with more paths needs approval."""

_MAX_COPIED = 20_000
"""Maximum number of names below a copied folder that are checked for links; a larger folder counts as one with links."""

MAX_EXPANDED_PATHS = 1_000
"""Maximum number of paths that the wildcards of one line match. The matches of further wildcards are unknown."""


class LineFiles:
    """The files that the words of one line name.

    Args:
        env: Environment in which the line will run.
        place: The project and the home folder.
        folder: The folder in which the line starts; ``None`` if unknown.

    Attributes:
        folders: The folders in which the next command may run; ``None`` for an unknown one.
        created_links: Links that the line creates, and the paths that they hide.
        changed_folders: Folders below which the line may create links and other files that it does not name.
        changes_repository: Whether the line changes what git recorded.
        uses_created_link: Whether a word is a path through such a link.
        uses_changed_files: Whether a command opens a file that the line may create or replace.
        too_broad_words: Words whose wildcards match too many paths to check.
        unsure_paths: Hidden files that wildcards match only with an option of the shell.
        too_many: Whether the line names too many paths.
    """

    def __init__(self, env: ResolvesPaths, place: ProjectPaths, folder: str | None) -> None:
        self.folders: list[str | None] = [folder]
        self.created_links: set[tuple[str, ...]] = set()
        self.changed_folders: set[PathParts] = set()
        self.changes_repository = False
        self.uses_created_link = False
        self.uses_changed_files = False
        self.too_broad_words: set[str] = set()
        self.unsure_paths: set[str] = set()
        self.too_many = False
        self._env = env
        self._place = place
        self._targets: dict[tuple[str, str | None], ResolvedPath] = {}
        self._expansions: dict[tuple[str, tuple[str | None, ...]], list[ResolvedPath]] = {}
        self._listings: dict[str, list[DirEntry]] = {}
        self._expanded: dict[str, ResolvedPath] = {}

    async def resolve_together(self, texts: Iterable[str], *, expand: bool = True) -> None:
        """Resolve words, and the wildcards in them, in one thread: a thread for each takes much longer than the work."""
        missing = [t for t in dict.fromkeys(texts) if any((t, folder) not in self._targets for folder in self.folders)]

        async def resolve() -> None:
            for text in missing[:MAX_RESOLVED_PATHS]:
                await self.resolve(text)
                if expand:
                    await self.expand_wildcards(text)

        if missing and len(self._targets) < MAX_RESOLVED_PATHS:
            await check_in_thread(self._env, resolve)

    async def resolve(self, text: str) -> list[ResolvedPath]:
        """Return the paths of a word, one for each folder; fewer if the line names too many paths."""
        found: list[ResolvedPath] = []
        for folder in self.folders:
            key = (text, folder)
            if key not in self._targets:
                if len(self._targets) >= MAX_RESOLVED_PATHS:
                    self.too_many = True
                    return found
                self._targets[key] = await resolve_word(self._env, text, self._place, folder)
            if self.created_links and not self.uses_created_link:
                forms = (self._targets[key].lexical, *self._parts_above(text, folder))
                self.uses_created_link = any(map(self._leads_through_link, forms))
            found.append(self._targets[key])
        return found

    def add_links(self, parts: PathParts, names: Iterable[str]) -> None:
        """Note that a command creates a link at a path, or links with these names below it."""
        for link in (parts, *((*parts, name) for name in names)):
            self.created_links.add(tuple(takewhile(wildcards.is_literal, link)))

    async def note_opened(self, texts: Iterable[str]) -> None:
        """Note files that a command opens, and whether the line may create or replace them before."""
        for parts in [target.lexical for text in texts for target in await self.resolve(text)]:
            is_changed = any(
                len(parts) > len(changed) and matches(changed, parts[: len(changed)], allow_unknown=True)
                for changed in self.changed_folders
            )
            if is_changed and not any(folder and split_path(folder)[: len(parts)] == parts for folder in self.folders):
                self.uses_changed_files = True

    def note_search(self, *, follows_links: bool) -> None:
        """Note the search of a whole folder, which may follow the links that the line creates."""
        self.uses_created_link |= follows_links and bool(self.created_links)

    async def contains_link(self, folder: str) -> bool:
        """Return True if a folder contains a link at any depth, or may contain one."""
        if not isinstance(self._env, ReadsFolders):
            return True
        try:
            walk = await self._env.walk(folder, include_ignored=True, limit=_MAX_COPIED)
        except OSError:
            return False  # a file, or a name that does not exist
        return walk.truncated or any(entry.kind == "symlink" for entry in walk.entries)

    def has_links_below(self, parts: PathParts) -> bool:
        """Return True if the line creates links below a folder."""
        return any(link[: len(parts)] == parts for link in (*self.created_links, *self.changed_folders))

    def _parts_above(self, text: str, folder: str | None) -> list[PathParts]:
        """Return the part of a word before each ``..``: if that is a link, the rest starts where the link leads."""
        parts = (word_parts(text, self._place, folder) or ()) if ".." in text else ()
        return [lexical_parts("/" + "/".join(parts[:end]), "/") for end, part in enumerate(parts) if part == ".."]

    def _leads_through_link(self, parts: PathParts) -> bool:
        """Return True if a path may be a link that the line creates, or a path below one."""
        if all(map(wildcards.is_literal, parts)):
            return any(parts[:end] in self.created_links for end in range(len(parts) + 1))
        return any(matches(link, parts[: len(link)], allow_unknown=True) for link in self.created_links)

    async def expand_wildcards(self, text: str) -> list[ResolvedPath]:
        """Return the paths that the wildcards of a word currently match."""
        if not wildcards.is_glob(text) or wildcards.ANY_TEXT in text:
            return []
        key = (text, tuple(self.folders))
        if key not in self._expansions:
            found: list[ResolvedPath] = []
            for target in await self.resolve(text):
                paths = None if target.unknown else await expand_wildcards(self._env, target.real, self._listings)
                if paths is None or len(self._expanded) + len(paths) > MAX_EXPANDED_PATHS:
                    self.too_broad_words.add(text)
                    continue
                for path in paths:
                    if path not in self._expanded:
                        self._expanded[path] = await resolve_word(self._env, path, self._place, None)
                    found.append(self._expanded[path])
                if wildcards.ANY_CHAR in text:
                    shown = [*map(wildcards.hide_dotfiles, target.real)]
                    visible = await expand_wildcards(self._env, shown, self._listings)
                    self.unsure_paths.update({*paths}.difference(visible or ()))
            self._expansions[key] = found
        return self._expansions[key]


def find_file_reads(command: AnalyzedCommand, unrestricted_ids: Set[int]) -> list[FileReads] | None:
    """Return the files that a command and its subcommands open.

    Return None if any of them is not known to be read-only.
    """
    if id(command) in unrestricted_ids:
        return []
    listed = find_xargs_reads(command)
    if listed is not None:
        return listed
    if not command.inner or command.required_rules != "inner" or command.unknown:
        own = find_readonly_reads(command)
        return None if own is None else [own]
    found: list[FileReads] = []
    for inner in command.inner:
        its = find_file_reads(inner, unrestricted_ids)
        if its is None:
            return None
        found += its
    return found


def find_possible_reads(
    command: AnalyzedCommand, unrestricted_ids: Set[int]
) -> tuple[list[FileReads], dict[str, None]]:
    """Return the files that a command is known to open, and the words that may be files if it may open others."""
    known = find_file_reads(command, unrestricted_ids)
    if known is not None:
        return known, {}
    found = [found for inner in command.walk() if (found := find_recursive_read(inner))]
    return found, dict.fromkeys(text for inner in command.walk() for text in plain_words_in_command(inner))


async def find_read_folders(files: LineFiles, one: FileReads) -> list[str | None]:
    """Return the folders in which a command may open files."""
    if one.folder is None:
        return files.folders
    targets = await files.resolve(one.folder.text)
    return list(dict.fromkeys([target.path or None for target in targets])) or [None]


async def follow_links(
    files: LineFiles,
    part: AnalyzedCommand | Redirect,
    unrestricted_ids: Set[int],
    find_bounds: Callable[[AnalyzedCommand], Iterable[tuple[str, str]]],
    *,
    is_checked: bool,
) -> None:
    """Note the links that a part of a line creates, and whether it uses a link that the line has created before.

    Paths through these links cannot be resolved before the line runs.

    Args:
        files: The files of the line.
        part: The part.
        unrestricted_ids: Identities of commands that need no rule.
        find_bounds: Function that returns the words of a command that rules allow only below a folder, each after that folder.
        is_checked: Whether the files that it shows were checked.
    """
    if isinstance(part, Redirect):
        await files.note_opened([part.target.text])
        return
    for inner in part.walk():
        if files.created_links or files.changed_folders or files.changes_repository:
            await _note_uses(files, inner, unrestricted_ids, is_checked=is_checked)
            await files.note_opened(text for _, text in find_bounds(inner))
        sources = [touch.word.text for touch in inner.file_accesses if touch.scope != "fs-write"]
        written = [touch.word.text for touch in inner.file_accesses if touch.scope == "fs-write"]
        is_copy = copies_links(inner) and await _has_link(files, sources)
        if is_copy or creates_links(inner):
            for target in [target for text in written for target in await files.resolve(text)]:
                files.add_links(target.lexical, [source.rpartition("/")[2] for source in sources])
        changed = written if is_copy else find_unpack_folders(inner)
        is_git = uses_git(inner)
        if (changed or is_git) and find_file_reads(inner, frozenset()) is None:
            for target in [target for text in changed for target in await files.resolve(text)]:
                files.changed_folders.add(tuple(takewhile(wildcards.is_literal, target.lexical)))
            files.changes_repository |= is_git


async def _has_link(files: LineFiles, texts: Iterable[str]) -> bool:
    """Return True if a word is a link, a path through one, or a folder with links, or may match one."""
    for target in [t for text in texts for t in [*await files.resolve(text), *await files.expand_wildcards(text)]]:
        is_link = target.unknown or target.real != target.lexical or files.has_links_below(target.lexical)
        if is_link or await files.contains_link(target.path):
            return True
    return False


async def _note_uses(
    files: LineFiles, command: AnalyzedCommand, unrestricted_ids: Set[int], *, is_checked: bool
) -> None:
    """Note whether a command may use files that the line creates or replaces."""
    readings, plain = find_possible_reads(command, unrestricted_ids)
    touched = [touch.word.text for touch in command.file_accesses]
    for text in (*touched, *paths_in_command(command), *plain):
        await files.resolve(text)
    await files.note_opened(() if avoids_links(command) else touched)
    own = files.folders
    for one in readings:
        files.folders = await find_read_folders(files, one)
        files.note_search(follows_links=one.deep and one.follows)
        is_stale = bool(files.changed_folders) or (one.git is not None and files.changes_repository)
        files.uses_changed_files |= one.deep and is_checked and is_stale
        for word in one.paths:
            await files.resolve(word.text)
        await files.note_opened(word.text for word in (() if one.git else one.paths))
        files.folders = own
