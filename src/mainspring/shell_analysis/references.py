"""Find the host of a URL as the network resolves it.

Also find paths and hosts in the arguments of a command or a call without knowing their purpose.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from mainspring.lazy import lazy_re
from mainspring.shell_analysis import wildcards
from mainspring.shell_analysis.syntax import program_name

if TYPE_CHECKING:
    from mainspring.shell_analysis.syntax import AnalyzedCommand


_URL = lazy_re(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s'\"<>|]+")
_PORTS = {"http": 80, "https": 443}


def parse_host(url: str) -> str | None:
    """Return host and port of a URL, in lower case and ASCII; the port is omitted if it is the default of the scheme.

    None if the URL has no host, or an ambiguous one.
    """
    text = url if "://" in url else f"//{url}"
    if "\\" in text or any(c <= " " for c in text):
        return None
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError:
        return None
    host = (split.hostname or "").rstrip(".")
    if not host or "%" in host:
        return None
    try:
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    if ":" in host:
        host = f"[{host}]"
    return host if port is None or _PORTS.get(split.scheme) == port else f"{host}:{port}"


def normalize_host(name: str) -> str:
    """Return a host's name in a rule as URLs spell it: in lower case, non-ASCII letters as punycode."""
    name = name.casefold()
    try:
        return name if name.isascii() else name.encode("idna").decode("ascii")
    except UnicodeError:
        return name


def find_hosts(text: str) -> Iterator[str]:
    """Return the hosts of all URLs in a text."""
    for match in _URL.finditer(text):
        host = parse_host(match[0])
        if host is not None:
            yield host


MAX_PATH = 1000
_MAX_JSON_CHARS = 100_000
_PIECES = lazy_re(r"[=:@,;]")
_COMMANDS = frozenset("command cmd commands script line args argv arguments code shell".split())
"""Names of arguments that contain commands or code."""
_IN_CODE = lazy_re(r"[\w./~\x02-]*[./][\w./-]*")
_NAME_IN_CODE = lazy_re(r"[\w-]+")
_CODE_CHARACTER = lazy_re(r"[\s'\"(){};<>|$]")
_OPTIONS = lazy_re(r"-[A-Za-z0-9]{1,5}")
_OMITS = ("--exclude=", "--exclude-dir=")
"""Options with names of files that a program does not open."""
_PLAIN = lazy_re(r"[^\s./~]+")
_NETWORK = frozenset("curl wget ssh scp sftp nc ncat telnet ftp ping http https xh".split())


def paths_in_command(unit: AnalyzedCommand) -> Iterator[str]:
    """Return the strings in a command that look like paths."""
    yield from paths_in_code(unit)
    for number, word in enumerate(unit.words):
        if (number or "=" in word.text) and not ((unit.scan or unit.code) and " " in word.text):
            yield from _in_word(word.text)


def paths_in_code(unit: AnalyzedCommand) -> Iterator[str]:
    """Return the strings that look like paths in the code among the arguments of a command."""
    for text in _code_in(unit):
        yield from (m[0] for m in _IN_CODE.finditer(text) if looks_like_path(m[0]))


def _code_in(unit: AnalyzedCommand) -> Iterator[str]:
    return (word.text for word in unit.words[1:] if (unit.scan or unit.code) and _CODE_CHARACTER.search(word.text))


def plain_words_in_command(unit: AnalyzedCommand) -> Iterator[str]:
    """Return the words in a command that may be names of files, or match some, or anything else."""
    for text in _code_in(unit):
        yield from (m[0] for m in _NAME_IN_CODE.finditer(text) if len(m[0]) <= MAX_PATH)
    for word in unit.words[1:]:
        if (word.literal or wildcards.is_glob(word.text)) and len(word.text) <= MAX_PATH:
            pieces = _PIECES.split(word.text)
            yield from (p for p in pieces if _PLAIN.fullmatch(p) and not p.startswith("-"))


def _in_word(text: str) -> Iterator[str]:
    if len(text) > MAX_PATH or "\n" in text or text.startswith(_OMITS):
        return
    pieces = {text, *_PIECES.split(text)}
    bundled = _OPTIONS.match(text)  # the value may begin after each letter
    if bundled:
        pieces.update(text[end:] for end in range(2, bundled.end() + 1))
    for piece in sorted(pieces):
        if looks_like_path(piece) and not piece.startswith("-"):
            yield piece


def looks_like_path(text: str) -> bool:
    """Return True if a string resembles a path: it contains a slash or a dot, or begins with a tilde."""
    if not text or len(text) > MAX_PATH:
        return False
    if text.startswith(("/", "./", "../", "~/", wildcards.HOME, wildcards.CWD)):
        return True
    return " " not in text and ("/" in text or "." in text)


def hosts_in_command(unit: AnalyzedCommand) -> Iterator[str]:
    """Return the hosts that a command names."""
    is_network = bool(unit.words) and program_name(unit.words[0].text) in _NETWORK
    for number, word in enumerate(unit.words):
        yield from find_hosts(word.text)
        if is_network and number and word.literal and "://" not in word.text and not word.text.startswith("-"):
            host = parse_host(word.text.rpartition("@")[2])
            if host and "." in host:
                yield host


def paths_in_arguments(value: Any) -> Iterator[str]:
    """Return the strings in the arguments of a call that look like paths, in each form in which a tool may read them."""
    for name, text in _texts(value):
        for form in dict.fromkeys(_iter_forms(text)):
            if looks_like_path(form):
                yield form
        if name.casefold() in _COMMANDS:
            yield from (m[0] for m in _IN_CODE.finditer(text) if looks_like_path(m[0]))


def names_in_arguments(value: Any) -> Iterator[str]:
    """Return plain words in the arguments of a call, which may be names of files or anything else."""
    for name, text in _texts(value):
        words = text.split() if name.casefold() in _COMMANDS else [text.strip()]
        yield from (word for word in words if len(word) <= MAX_PATH and _PLAIN.fullmatch(word))


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Return all strings at any depth, including names of fields, each with the name of its field."""
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        name, one = todo.pop()
        if isinstance(one, str):
            yield name, one
            if one[:1] in ("{", "[") and len(one) <= _MAX_JSON_CHARS:
                with suppress(ValueError, RecursionError):
                    todo.append((name, json.loads(one)))
        elif isinstance(one, dict):
            for key, inner in cast("dict[Any, Any]", one).items():
                todo += [("", key), (str(key), inner)]
        elif isinstance(one, list | tuple):
            todo += [(name, inner) for inner in cast("list[Any]", one)]


def _iter_forms(text: str) -> Iterator[str]:
    """Return a string unchanged and as a lenient tool reads it: as a file URL, trimmed, cut at NUL, and with the other slash."""
    plain = text.partition("\0")[0].strip().strip("'\"").removeprefix("@")
    if plain[:5].casefold() == "file:":
        plain = plain[5:]
        if plain.startswith("//"):
            plain = "/" + plain[2:].partition("/")[2]
    elif "://" in plain:
        return
    for form in (text, plain, unquote(plain), plain.replace("\\", "/")):
        if "\n" not in form:
            yield form if len(form) <= MAX_PATH else posixpath.normpath(form)
