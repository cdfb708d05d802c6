"""Display and compare paths, and describe errors of the operating system."""

from __future__ import annotations

import errno
import os
import unicodedata

from mainspring.lazy import lazy_re

_UNPRINTABLE = lazy_re("[\x00-\x1f\x7f\udc80-\udcff]")
_LONE_SURROGATE = lazy_re("[\ud800-\udfff]")
_ESCAPED = lazy_re(r"\\x([0-9a-f]{2})")
_SPACES = lazy_re("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_QUOTE_MAP = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})

GUARDED_NAMES = (
    ".agent", ".agents", ".agentignore", ".mcp.json", "mcp.json", ".claude", ".cursor", ".vscode", ".idea", ".zed", ".fleet", ".devcontainer",
    "*.code-workspace", ".husky", ".envrc", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".gdbinit", ".lldbinit",
    ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zprofile",
    ".zshenv", ".zlogin", ".gitconfig",
)  # fmt: skip
"""Names, in lower case, of files and folders that define the programs that run later, at any depth: settings, hooks, and startup files.

Permissions ask before a change, and a sandbox prevents it. Both have more detailed rules for git files.
"""

_GUARDED_ENDINGS = tuple(name[1:] for name in GUARDED_NAMES if name.startswith("*"))


def is_guarded_name(name: str) -> bool:
    """Return True if a file or folder with that name defines the programs that run later; case is ignored."""
    lowered = name.lower()
    return lowered in GUARDED_NAMES or lowered.endswith(_GUARDED_ENDINGS)


def is_inside(path: str, folder: str) -> bool:
    """Return True if ``path`` is ``folder`` or is below it; both are resolved paths, of an environment or of this machine."""
    return path == folder or path.startswith((folder.rstrip("/") + "/", folder.rstrip(os.sep) + os.sep))


def display_path(path: str, cwd: str = "") -> str:
    r"""Return a path for display: relative to ``cwd`` if it is below, control characters and bytes that are not UTF-8 as ``\xNN``."""
    if cwd and path == cwd:
        return "."
    if cwd and is_inside(path, cwd):
        path = path[len(cwd.rstrip("/")) + 1 :]
    return _LONE_SURROGATE.sub("\ufffd", _UNPRINTABLE.sub(lambda m: f"\\x{ord(m[0]) & 0xFF:02x}", path))


def to_sort_key(path: str) -> str:
    """Return a key that sorts paths by their parts, a folder directly before its content."""
    return path.replace("/", "\0")  # compared faster than a list of parts


def path_variants(path: str) -> tuple[str, ...]:
    """Return other spellings that a user or a model may mean by a path: without ``@``, composed, decomposed, bytes."""
    found = [path]
    if path.startswith("@") and len(path) > 1:
        found.append(path[1:])
    found += [_ESCAPED.sub(lambda m: _byte(int(m[1], 16)), p) for p in found]
    found += [variant for p in found for variant in composed_variants(p)]
    return tuple(dict.fromkeys(found))[1:]


def composed_variants(path: str) -> tuple[str, ...]:
    """Return the path with its accents composed and decomposed: file systems and programs use either form for a name."""
    if path.isascii() or _normalizes_to_ascii(path):
        return ()
    forms = [unicodedata.normalize(form, path) for form in ("NFC", "NFD")]
    return tuple([form for form in forms if form != path])


def _byte(value: int) -> str:
    return chr(0xDC00 + value) if value >= 0x80 else chr(value)


def is_lookalike_name(a: str, b: str) -> bool:
    """Return True if two names look alike: they differ only in kinds of spaces or quotes, or in how accents are composed."""
    return not _normalizes_to_ascii(a) and not _normalizes_to_ascii(b) and _skeleton(a) == _skeleton(b)


def _skeleton(name: str) -> str:
    return _SPACES.sub(" ", unicodedata.normalize("NFC", name)).translate(_QUOTE_MAP)


def _normalizes_to_ascii(name: str) -> bool:
    """Return True if composing would turn another character into an ASCII letter, for example, the Kelvin sign into K."""
    return not name.isascii() and any(c > "\x7f" and unicodedata.normalize("NFC", c).isascii() for c in name)


_REASONS = {
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.EACCES: "permission denied by the operating system",
    errno.EPERM: "the operating system does not permit it",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.ELOOP: "its symbolic links form a loop",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EINVAL: "it is not a valid path",
    errno.E2BIG: "the arguments are too long",
    errno.ENOEXEC: "it is not executable",
}


def explain(error: OSError) -> str:
    """Return the reason of an error as the second half of a sentence: ``cannot read x: it does not exist``."""
    known = _REASONS.get(error.errno or 0)
    if known and error.errno not in (errno.EINVAL, errno.EPERM):
        return known
    return error.strerror or known or str(error) or type(error).__name__


def is_system_refusal(error: OSError) -> bool:
    """Return True if the operating system refused an access, and not an environment or a tool, which write their own reason."""
    text = str(error)  # a recorded exception has a text, but no number
    own = f"[Errno {errno.EPERM}] "
    return text.startswith(("[Errno", "[WinError")) and (
        not text.startswith(own) or text.startswith(own + os.strerror(errno.EPERM))
    )
