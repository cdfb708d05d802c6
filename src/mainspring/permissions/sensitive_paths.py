"""Paths that hold secrets, and paths whose change would change what runs later."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from mainspring.env.paths import GUARDED_NAMES
from mainspring.lazy import lazy_re
from mainspring.permissions.path_patterns import ANY_DEPTH, compile_path_pattern, is_absolute, matches
from mainspring.shell_analysis import wildcards
from mainspring.text import fold

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

SECRET_SYSTEM_PATHS = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/ssl/private/**",
    "/proc/*/environ",
    "/proc/*/mem",
    "/dev/mem",
)
"""Places of the system that hold secrets."""

PROTECTED_NAMES = (".git/**", *GUARDED_NAMES, ".config/git/**", ".config/fish/**", ".config/autostart/**")
"""What decides what runs later, or what is allowed: settings, hooks, start-up files. Changing them always asks."""


class PathGroup(Struct, frozen=True):
    """Patterns of paths, most of them a name at any depth; those are looked for all at once.

    Attributes:
        patterns: All of them, as components.
        names: Matches a component that is one of the names.
        longer: The patterns that are more than a name.
    """

    patterns: tuple[tuple[str, ...], ...]
    names: re.Pattern[str]
    longer: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> PathGroup:
        """Patterns as rules write them; relative ones match at any depth."""
        patterns = tuple(_components(text) for text in texts)
        single = {p: core[0] for p in patterns if p[0] == ANY_DEPTH and len(core := _literal_core(p)) == 1}
        names = lazy_re("|".join(wildcards.to_regex(name) for name in single.values()) or r"(?!)", re.DOTALL)
        return cls(patterns, names, tuple(p for p in patterns if p not in single))

    def holds(self, parts: tuple[str, ...]) -> bool:
        """Whether a path is one of these, or lies below one."""
        if any(self.names.fullmatch(part) for part in parts):
            return True
        return any(matches(p, parts, below=True) for p in self.longer)

    def may_contain(self, parts: tuple[str, ...]) -> bool:
        """Whether unknown pieces make it likely that a path is one of these."""
        return any(_could_be(p, parts) for p in self.patterns)


class SensitivePaths(Struct, frozen=True):
    """Patterns that always ask, whatever rules say, unless one names the very path.

    Attributes:
        anywhere: Looked for in the whole path.
        below: Looked for below the project's folder, or in the whole path outside it.
        guarded: The same, for changes only.
        placed: Looked for in the whole path, for changes only.
    """

    anywhere: PathGroup
    below: PathGroup
    guarded: PathGroup
    placed: PathGroup

    @classmethod
    def standard(cls, *, secret: Iterable[str] = (), guarded: Iterable[str] = ()) -> SensitivePaths:
        """The built-in patterns and some more, each anchored at the root, or matched at any depth."""
        return _standard(tuple(secret), tuple(guarded))

    def why(self, full: tuple[str, ...], relative: tuple[str, ...], *, changes: bool, maybe: bool = False) -> str:
        """Why a path is sensitive; empty if it is not.

        Args:
            full: Its components from the root, folded.
            relative: Its components from the project's folder if it lies there; else those from the root. Folded.
            changes: Whether it is to be changed.
            maybe: Whether it holds unknown pieces, so that it may be one of several paths.
        """
        if self.anywhere.holds(full) or self.below.holds(relative):
            return "it may hold keys or passwords"
        if maybe and (self.anywhere.may_contain(full) or self.below.may_contain(relative)):
            return "what it stands for may hold keys or passwords"
        if changes and (self.guarded.holds(relative) or self.placed.holds(full)):
            return "what stands there decides what runs later or what is allowed"
        return ""


@lru_cache(maxsize=4)
def _standard(secret: tuple[str, ...], guarded: tuple[str, ...]) -> SensitivePaths:
    named, changing = [*SECRET_NAMES, *secret], [*PROTECTED_NAMES, *guarded]
    folders = [f"{folder}/**" for folder in SECRET_FOLDERS]
    return SensitivePaths(
        anywhere=PathGroup.of([*folders, *SECRET_SYSTEM_PATHS, *filter(is_absolute, named)]),
        below=PathGroup.of(text for text in named if not is_absolute(text)),
        guarded=PathGroup.of(text for text in changing if not is_absolute(text)),
        placed=PathGroup.of(filter(is_absolute, changing)),
    )


def _could_be(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether unknown pieces make a sensitive path likely. A piece alone could be anything, which would ask for every
    variable, so that only a component whose beginning is known counts.
    """
    core = _literal_core(pattern)
    for start in range(len(parts) - len(core) + 1):
        pairs = list(zip(core, parts[start:], strict=False))
        if all(_likely(p, part) for p, part in pairs):
            return True
    return False


def _likely(pattern: str, part: str) -> bool:
    if wildcards.is_literal(part):
        return wildcards.fullmatch(pattern, part)
    if part[0] in wildcards.WILDCARDS or pattern.startswith(wildcards.ANY_TEXT):
        return False
    return wildcards.may_match(pattern, part)


def _components(text: str) -> tuple[str, ...]:
    pattern = compile_path_pattern(text)
    return tuple(map(fold, pattern.loose if pattern.anchor == "root" else (ANY_DEPTH, *pattern.loose)))


def _literal_core(pattern: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(p for p in pattern if p != ANY_DEPTH)
