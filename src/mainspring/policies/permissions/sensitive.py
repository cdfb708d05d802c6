"""Paths that hold secrets, and paths whose change would change what runs later."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from mainspring.policies.permissions import globs
from mainspring.policies.permissions.pathpattern import ANY_DEPTH, compile_path, fold, is_absolute, matches

SECRET_FOLDERS = (
    ".ssh", ".gnupg", ".gpg", ".aws", ".azure", ".kube", ".password-store", ".config/gcloud", ".config/gh", ".config/op",
    ".config/rclone", ".local/share/keyrings", "Library/Keychains", ".mozilla", ".config/google-chrome",
)  # fmt: skip
"""Folders of keys, wherever they lie."""

SECRET_NAMES = (
    ".env*", "*credentials*", "*secret*", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx",
    "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.keychain*", "*.gpg", "*.asc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc",
    ".pypirc", ".htpasswd", ".dockercfg", ".docker/config.json", ".bash_history", ".zsh_history", ".python_history",
    ".psql_history", "service-account*.json", "*.tfstate", "*.ovpn",
)  # fmt: skip
"""Files of keys and key stores, by name; below the project's folder, and anywhere outside it."""

SECRET_PLACES = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/ssl/private/**",
    "/proc/*/environ",
    "/proc/*/mem",
    "/dev/mem",
)
"""Places of the system that hold secrets."""

GUARDED_NAMES = (
    ".git/**", ".agent/**", ".husky/**", ".envrc", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
    ".zshrc", ".zprofile", ".zshenv", ".zlogin", ".gitconfig", ".config/git/**", ".config/fish/**", ".config/autostart/**",
)  # fmt: skip
"""What decides what runs later, or what is allowed: settings, hooks, start-up files. Changing them always asks."""


class SensitivePaths(Struct, frozen=True):
    """Patterns that always ask, whatever rules say, unless one names the very path.

    Attributes:
        anywhere: Components that are looked for in the whole path.
        below: Components that are looked for below the project's folder, or in the whole path outside it.
        guarded: The same, for changes only.
    """

    anywhere: tuple[tuple[str, ...], ...]
    below: tuple[tuple[str, ...], ...]
    guarded: tuple[tuple[str, ...], ...]

    @classmethod
    def standard(cls, *, secret: Iterable[str] = (), guarded: Iterable[str] = ()) -> SensitivePaths:
        """The built-in patterns and some more, each anchored at the root, or matched at any depth."""
        named = [*SECRET_NAMES, *secret]
        placed = [text for text in named if is_absolute(text)]
        return cls(
            anywhere=tuple(_patterns([*(f"{f}/**" for f in SECRET_FOLDERS), *SECRET_PLACES, *placed])),
            below=tuple(_patterns(text for text in named if not is_absolute(text))),
            guarded=tuple(_patterns([*GUARDED_NAMES, *guarded])),
        )

    def why(self, full: tuple[str, ...], relative: tuple[str, ...], *, changes: bool, maybe: bool = False) -> str:
        """Why a path is sensitive; empty if it is not.

        Args:
            full: Its components from the root, folded.
            relative: Its components from the project's folder if it lies there; else those from the root. Folded.
            changes: Whether it is to be changed.
            maybe: Whether it holds unknown pieces, so that it may be one of several paths.
        """
        if any(matches(p, full, below=True) for p in self.anywhere):
            return "it may hold keys or passwords"
        if any(matches(p, relative, below=True) for p in self.below):
            return "it may hold keys or passwords"
        if maybe and (
            any(_could_be(p, full) for p in self.anywhere) or any(_could_be(p, relative) for p in self.below)
        ):
            return "what it stands for may hold keys or passwords"
        if changes and any(matches(p, parts, below=True) for p in self.guarded for parts in {relative, full}):
            return "what stands there decides what runs later or what is allowed"
        return ""


def _could_be(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether unknown pieces make a sensitive path likely. A piece alone could be anything, which would ask for every
    variable, so that only a component whose beginning is known counts.
    """
    core = [p for p in pattern if p != ANY_DEPTH]
    for start in range(len(parts) - len(core) + 1):
        pairs = list(zip(core, parts[start:], strict=False))
        if all(_likely(p, part) for p, part in pairs):
            return True
    return False


def _likely(pattern: str, part: str) -> bool:
    if globs.is_literal(part):
        return globs.matches(pattern, part)
    if part[0] in globs.UNKNOWN or pattern.startswith(globs.MANY):
        return False
    return globs.could_match(pattern, part)


def _patterns(texts: Iterable[str]) -> Iterable[tuple[str, ...]]:
    for text in texts:
        pattern = compile_path(text)
        parts = pattern.loose if pattern.anchor == "root" else (ANY_DEPTH, *pattern.loose)
        yield tuple(map(fold, parts))
