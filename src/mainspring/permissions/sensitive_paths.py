"""Paths that contain secrets, and paths whose change affects which code runs later."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from mainspring.env.paths import GUARDED_NAMES
from mainspring.globs import translate_name
from mainspring.lazy import lazy_re
from mainspring.permissions.path_patterns import ANY_DEPTH, compile_path_pattern, is_absolute, matches
from mainspring.shell_analysis import wildcards
from mainspring.text import fold

SECRET_FOLDERS = (
    ".ssh", ".gnupg", ".gpg", ".aws", ".azure", ".kube", ".password-store", ".config/gcloud", ".config/gh", ".config/op",
    ".config/rclone", ".local/share/keyrings", "Library/Keychains", ".mozilla", ".config/google-chrome",
)  # fmt: skip
"""Folders of keys, at any depth."""

SECRET_NAMES = (
    ".env*", "*credentials*", "*secret*", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx",
    "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.keychain*", "*.gpg", "*.asc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc",
    ".pypirc", ".htpasswd", ".dockercfg", ".docker/config.json", ".bash_history", ".zsh_history", ".python_history",
    ".psql_history", "service-account*.json", "*.tfstate", "*.ovpn",
)  # fmt: skip
"""Files of keys and key stores, by name.

Below the project's folder, and anywhere outside it.
"""

SECRET_SYSTEM_PATHS = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/ssl/private/**",
    "/proc/*/environ",
    "/proc/*/mem",
    "/dev/mem",
)
"""System paths that contain secrets."""

PROTECTED_NAMES = (".git/**", *GUARDED_NAMES, ".config/git/**", ".config/fish/**", ".config/autostart/**")
"""Settings, hooks, and startup files, which define permissions and the programs that run later.

Changing them always asks.
"""


CHANGES_PERMISSIONS = "it can change permissions or the programs that run later"


class PathGroup(Struct, frozen=True):
    """Patterns of paths. Most are a name at any depth; those are searched in one pass.

    Attributes:
        patterns: All patterns, as components.
        names: Regular expression for a component that is one of the names.
        single_names: The patterns of these names.
        multi_component_patterns: The patterns with more than one name, each with its names without wildcards.
    """

    patterns: tuple[tuple[str, ...], ...]
    names: re.Pattern[str]
    single_names: tuple[str, ...]
    multi_component_patterns: tuple[tuple[tuple[str, ...], frozenset[str]], ...]

    @classmethod
    def compile(cls, texts: Iterable[str]) -> PathGroup:
        """Compile patterns with the syntax of rules; relative ones match at any depth."""
        patterns = tuple(_components(text) for text in texts)
        single = {p: core[0] for p in patterns if p[0] == ANY_DEPTH and len(core := _literal_core(p)) == 1}
        names = lazy_re(
            "|".join(translate_name(name, wildcards.MARKED) for name in single.values()) or r"(?!)", re.DOTALL
        )
        multiple = [p for p in patterns if p not in single]
        return cls(
            patterns,
            names,
            tuple(single.values()),
            tuple((p, frozenset(filter(_is_plain, _literal_core(p)))) for p in multiple),
        )

    def contains(self, parts: tuple[str, ...]) -> bool:
        """Return True if a path matches a pattern, or is below a match."""
        if any(self.names.fullmatch(part) for part in parts):
            return True
        found = frozenset(parts)
        return any(
            plain <= found and matches(pattern, parts, include_descendants=True)  # the first test is fast
            for pattern, plain in self.multi_component_patterns
        )

    def may_contain(self, parts: tuple[str, ...]) -> bool:
        """Return True if unknown pieces make it likely that a path matches a pattern, although `contains` is false."""
        unsure = [part for part in parts if not wildcards.is_literal(part) and part[0] not in wildcards.WILDCARDS]
        if any(
            _likely(name, part)
            for part in unsure
            for name in self.single_names
            if name[0] in (part[0], wildcards.ANY_CHAR)
        ):
            return True
        found = frozenset(parts)
        return any(
            len(plain - found) <= len(unsure) and _could_be(pattern, parts)  # the first test is fast
            for pattern, plain in self.multi_component_patterns
        )


class SensitivePaths(Struct, frozen=True):
    """Patterns that always ask, whatever the rules, unless a rule names the exact path.

    Attributes:
        anywhere: Matched against the whole path.
        below: Matched below the project's folder, or against the whole path outside it.
        guarded: The same, for changes only.
        placed: Matched against the whole path, for changes only.
    """

    anywhere: PathGroup
    below: PathGroup
    guarded: PathGroup
    placed: PathGroup

    @classmethod
    def default(cls, *, secret: Iterable[str] = (), guarded: Iterable[str] = ()) -> SensitivePaths:
        """Return the built-in patterns and more, each anchored at the root, or matched at any depth."""
        return _standard(tuple(secret), tuple(guarded))

    def reason(self, full: tuple[str, ...], relative: tuple[str, ...], *, changes: bool, maybe: bool = False) -> str:
        """Return why a path is sensitive; empty if it is not.

        Args:
            full: Its components from the root, case-folded.
            relative: Its components from the project's folder if it is inside; else those from the root. Case-folded.
            changes: Whether the call changes it.
            maybe: Whether it contains unknown pieces, so that it may be one of several paths.
        """
        if self.anywhere.contains(full) or self.below.contains(relative):
            return "it may contain keys or passwords"
        if maybe and (self.anywhere.may_contain(full) or self.below.may_contain(relative)):
            return "it may expand to a path that contains keys or passwords"
        return CHANGES_PERMISSIONS if changes and self.is_guarded(full, relative) else ""

    def is_guarded(self, full: tuple[str, ...], relative: tuple[str, ...]) -> bool:
        """Return True if changing a path always asks. See `reason`."""
        return self.guarded.contains(relative) or self.placed.contains(full)


@lru_cache(maxsize=4)
def _standard(secret: tuple[str, ...], guarded: tuple[str, ...]) -> SensitivePaths:
    named, changing = [*SECRET_NAMES, *secret], [*PROTECTED_NAMES, *guarded]
    folders = [f"{folder}/**" for folder in SECRET_FOLDERS]
    return SensitivePaths(
        anywhere=PathGroup.compile([*folders, *SECRET_SYSTEM_PATHS, *filter(is_absolute, named)]),
        below=PathGroup.compile(text for text in named if not is_absolute(text)),
        guarded=PathGroup.compile(text for text in changing if not is_absolute(text)),
        placed=PathGroup.compile(filter(is_absolute, changing)),
    )


def _could_be(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Return True if unknown pieces make a sensitive path likely.

    An unknown piece alone could be anything, and every variable would ask, so that only a component with a known beginning matches.
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


def _is_plain(name: str) -> bool:
    """Return True if a name of a pattern matches only itself."""
    return wildcards.ANY_TEXT not in name and wildcards.ANY_CHAR not in name


def _literal_core(pattern: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(p for p in pattern if p != ANY_DEPTH)
