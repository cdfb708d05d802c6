"""Undo changes of guarded files by a command if the backend cannot prevent them."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from mainspring.env.beneath import Folder
from mainspring.env.paths import is_inside
from mainspring.env.sandbox.git_folder import HOOKS_FOLDER, make_readable
from mainspring.env.sandbox.guarded import GuardedTree, is_harmless
from mainspring.env.sandbox.journal import Journal, JournalRecord, Mark
from mainspring.env.types import ProcessResult, StreamName
from mainspring.text import escape_invisible

_CLOCK_STEP_NS = 20_000_000
"""Maximum lag of the clock for file timestamps."""
_MAX_SAVED = 16 << 20
"""Maximum size of a copied file. No code and no settings file is larger."""
_LATER_NS = 60_000_000_000
"""Changes this long after Mainspring was killed are assumed to be the user's."""


class RestoringGuard:
    """Compares the guarded files before and after commands. New ones are moved away, changed ones are restored.

    Args:
        roots: Folders that commands may change.
        exempt: Guarded files and folders in them that the user made writable.
        restores: Whether changes are restored. A backend that prevents changes may still not prevent new files.
        private: Function that returns a folder for copies, which commands cannot change.
        repository: The one of the roots that is a git folder.
        journal: Records running commands.
    """

    def __init__(
        self,
        roots: tuple[str, ...],
        exempt: tuple[str, ...],
        *,
        restores: bool,
        private: Callable[[], str],
        repository: str = "",
        journal: Journal | None = None,
    ) -> None:
        self._journal = journal or Journal("")
        self._roots = roots
        self._trees = tuple(GuardedTree(root, is_repository=root == repository) for root in roots)
        self._exempt = exempt
        self._restores = restores
        self._private = private
        self._before: dict[str, Mark] | None = None
        self._copies: dict[str, tuple[Mark, str]] = {}
        self._lock = threading.Lock()
        self._running_commands = 0
        self._since = 0
        self._moved_to = ""

    def find(self) -> tuple[str, ...]:
        """Return the guarded files and folders that exist. Blocking."""
        with self._lock:
            return self._find()

    def begin(self, *, settled: bool = True) -> tuple[str, ...]:
        """Record the guarded files before a command starts, and return them. Blocking.

        Args:
            settled: Whether no process of an earlier command is running, which could have changed them since.
        """
        with self._lock:
            top = self._find()
            if (
                settled and not self._running_commands
            ) or self._before is None:  # a running process may have created something
                self._since = time.time_ns() - _CLOCK_STEP_NS
                self._before = self._marks(list(top))
                self._save()
                for record in self._journal.read_others(self._roots):
                    self._adopt(record)
                self._write_record()
            self._running_commands += 1
            return top

    def recover(self) -> tuple[str, ...]:
        """Undo changes by commands of killed processes, and return the files that were moved or restored. Blocking."""
        undone: list[str] = []
        with self._lock:
            for record in self._journal.read_others(self._roots):
                if record.is_alive:
                    continue
                restores, self._restores = self._restores, record.restores
                self._before, self._since = record.before, record.since
                self._copies = {p: (mark, copy) for p, (mark, copy, own) in record.copies.items() if _mark(copy) == own}
                undone += self._undo(record.beat + _LATER_NS)
                self._restores, self._before, self._copies = restores, None, {}
                with suppress(OSError):
                    os.unlink(record.path)
        return tuple(dict.fromkeys(undone))

    def _write_record(self) -> None:
        copies = {p: (mark, copy, _mark(copy)) for p, (mark, copy) in self._copies.items()}
        self._journal.write(
            JournalRecord(
                roots=self._roots, since=self._since, restores=self._restores, before=self._before or {}, copies=copies
            )
        )

    def _adopt(self, record: JournalRecord) -> None:
        """Take over the state of files that another environment recorded before its command, which may have changed them."""
        before = self._before or {}
        inside = [p for p in before if any(is_inside(p, root) for root in record.roots)]
        for path in inside:
            old = record.before.get(path)
            if old is None:
                if before[path][0] != "folder":
                    del before[path]
            elif old != before[path] and path in record.copies:
                _, copy, own = record.copies[path]
                if _mark(copy) == own:
                    self._copy(copy, path, before[path])

    def _find(self) -> tuple[str, ...]:
        found = [tree.find() for tree in self._trees]
        top = [p for each in found for p in each.all]
        top += [target for path in top if os.path.islink(path) for target in self._targets(path)]
        return tuple(dict.fromkeys(top))

    def end(self) -> tuple[str, ...]:
        """Undo changes after a command, and return the files that were moved or restored. Blocking."""
        with self._lock:
            self._running_commands = max(0, self._running_commands - 1)
            undone = self._undo()
            if not self._running_commands:
                self._journal.remove()
            return undone

    def _undo(self, until: int | None = None) -> tuple[str, ...]:
        """Undo changes, except those after the time ``until``, in nanoseconds."""
        before = self._before
        if before is None:
            return ()
        found = [tree.find(self._since) for tree in self._trees]
        now = self._marks([p for each in found for p in each.all], self._since)
        settings = {p for each in found for p in each.of_git}
        undone: list[str] = []
        for path, mark in now.items():
            old = before.get(path)
            if _is_later(path, until):
                continue
            if old is None and mark[0] != "folder" and not (_is_setting(path, settings) and is_harmless(path)):
                undone += self._move_away(path)
            elif old is not None and old != mark and self._is_restored(old, mark):
                undone += self._move_away(path)
                self._put_back(path)
        for path in sorted(before.keys() - now.keys()):
            was_deleted = self._is_restored(before[path], ("gone",)) and not _is_later(os.path.dirname(path), until)
            if was_deleted and self._put_back(path):
                undone.append(path)
        foreign = [p for each in found for p in each.foreign]
        new = [p for p, mark in now.items() if mark[0] == "folder" and p not in before]
        self._remove_new_folders(new, undone, foreign)
        return tuple(undone)

    @property
    def moved_to(self) -> str:
        """The folder of the files that were moved away; it is not removed."""
        return self._moved_to

    def _is_restored(self, old: Mark, new: Mark) -> bool:
        """Return True if a path is restored: a mount does not protect a link, so that another file can replace it."""
        return self._restores or "link" in (old[0], new[0])

    def _marks(self, top: list[str], changed_since: int | None = None) -> dict[str, Mark]:
        found: dict[str, Mark] = {}
        waiting = list(top)
        while waiting:
            path = waiting.pop()
            if any(is_inside(path, each) for each in self._exempt):
                continue
            mark = _mark(path)
            if mark is None:
                continue
            found[path] = mark
            if mark[0] == "folder":
                with suppress(OSError):
                    make_readable(path, changed_since)
                    waiting += [os.path.join(path, name) for name in os.listdir(path)]
            elif mark[0] == "link":
                waiting += [target for target in self._targets(path) if target not in found]
        return found

    def _targets(self, link: str) -> list[str]:
        """Return the file or folder in the project that a guarded link leads to."""
        target = os.path.realpath(link)
        inside = any(target != root and is_inside(target, root) for root in self._roots)
        return [target] if inside and not is_inside(link, target) else []

    def _save(self) -> None:
        for path, mark in (self._before or {}).items():
            needed = mark[0] == "link" or (self._restores and mark[0] == "file")
            if (
                not needed
                or self._copies.get(path, (None,))[0] == mark
                or (mark[0] == "file" and _size(mark) > _MAX_SAVED)
            ):
                continue
            self._copy(path, path, mark)

    def _copy(self, source: str, path: str, mark: Mark) -> None:
        """Store a copy to restore at a path, for the file that currently has the mark."""
        folder = os.path.join(self._private(), "guarded")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        copy = os.path.join(folder, str(len(self._copies)))
        with suppress(OSError):
            copy = _free_name(copy)
            shutil.copy2(source, copy, follow_symlinks=False)
            self._copies[path] = (mark, copy)

    def _move_away(self, path: str) -> list[str]:
        if not self._moved_to:
            self._moved_to = tempfile.mkdtemp(prefix="mainspring-moved-")
        target = _free_name(os.path.join(self._moved_to, path.strip("/")))
        name = os.path.basename(path)
        with suppress(OSError), Folder(os.path.dirname(path)) as folder:  # a running command can replace it by a link
            with suppress(OSError):  # the command may have removed the write permission of the folder
                mode = os.stat(".", dir_fd=folder.descriptor).st_mode
                os.chmod(".", mode & 0o7777 | 0o700, dir_fd=folder.descriptor)
            try:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                _move(folder, name, target)
            except OSError:  # on a full disk, rename the file: it is preserved, but has no effect
                other = os.path.basename(_free_name(f"{path}.mainspring-moved"))
                os.rename(folder.at(name), folder.at(other), src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
        return [path]

    def _put_back(self, path: str) -> bool:
        copy = self._copies.get(path)
        if copy is None:
            return False
        with suppress(OSError), Folder(os.path.dirname(path), parents=True) as folder:
            _copy_back(copy[1], folder, os.path.basename(path))
            if self._before is not None and (mark := _mark(path)) is not None:
                self._before[path] = mark
                self._copies[path] = (mark, copy[1])
            return True
        return False

    def _remove_new_folders(self, folders: list[str], undone: list[str], foreign: list[str]) -> None:
        """Remove new folders that are empty because everything in them was moved away, or because git does not create them."""
        for path in sorted(folders, reverse=True):
            if any(is_inside(each, path) for each in undone) or any(is_inside(path, each) for each in foreign):
                with suppress(OSError):
                    os.rmdir(path)


def _move(folder: Folder, name: str, target: str) -> None:
    """Move a file out of an open folder, to another disk if needed. Pipes and sockets, which have no content, are removed instead."""
    try:
        os.rename(folder.at(name), target, src_dir_fd=folder.descriptor)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    else:
        return
    mode = folder.stat(name).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(folder.at(name), dir_fd=folder.descriptor), target)
    elif stat.S_ISREG(mode):
        with open(folder.open(name, os.O_RDONLY), "rb") as source, open(target, "xb") as copy:
            shutil.copyfileobj(source, copy)
    os.unlink(folder.at(name), dir_fd=folder.descriptor)


def _copy_back(copy: str, folder: Folder, name: str) -> None:
    """Copy a file or link into an open folder, where the name is free."""
    found = os.lstat(copy)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(copy), folder.at(name), dir_fd=folder.descriptor)
        return
    with (
        open(copy, "rb") as source,
        open(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target,
    ):
        shutil.copyfileobj(source, target)
        target.flush()
        os.fchmod(target.fileno(), found.st_mode & 0o7777)
        os.utime(target.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))


def _is_setting(path: str, settings: set[str]) -> bool:
    """Return True for settings of repositories, and for files directly in their hooks folders."""
    folder = os.path.dirname(path)
    return path in settings or (os.path.basename(folder) == HOOKS_FOLDER and folder in settings)


def _is_later(path: str, until: int | None) -> bool:
    try:
        return until is not None and os.lstat(path).st_ctime_ns > until
    except OSError:
        return False


def _free_name(path: str) -> str:
    """Return an unused name, so that earlier files are preserved."""
    name, number = path, 0
    while os.path.lexists(name):
        number += 1
        name = f"{path}.{number}"
    return name


def format_note(undone: Sequence[str], cwd: str, moved_to: str) -> str:
    """Format a note about files that were moved away or restored.

    Args:
        undone: The files.
        cwd: The project's folder.
        moved_to: The folder of the files that were moved away.
    """
    names = ", ".join(os.path.relpath(path, cwd) for path in undone[:5]) + (", ..." if len(undone) > 5 else "")
    where = f" New content is in {moved_to}." if moved_to else ""
    return (
        f"\n[The sandbox undid changes of {escape_invisible(names)}: these files define programs that run later outside the sandbox.{where} "
        "The setting sandbox.writable can name a file or folder that commands may change.]\n"
    )


def with_note(
    result: ProcessResult,
    undone: Sequence[str],
    cwd: str,
    moved_to: str,
    on_output: Callable[[StreamName, bytes], object] | None,
) -> ProcessResult:
    """Add a note about files that were moved away or restored to the error output of a result.

    Args:
        result: The result.
        undone: The files.
        cwd: The project's folder.
        moved_to: The folder of the files that were moved away.
        on_output: Receives the note, too.
    """
    if not undone:
        return result
    text = format_note(undone, cwd, moved_to)
    note = text.encode("utf-8", "replace")
    if on_output is not None:
        on_output("stderr", note)
    old = result.stderr
    return replace(result, stderr=replace(old, tail=old.tail + note, total=old.total + len(note)))


def _mark(path: str) -> Mark | None:
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return ("link", os.readlink(path))
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return ("folder",)
    return ("file", found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_mode)


def _size(mark: Mark) -> int:
    size = mark[1]
    return size if isinstance(size, int) else 0
