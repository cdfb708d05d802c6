"""The theme: what the terminal can show, and its colors."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Colors = Literal["none", "16", "256", "truecolor"]
ThemeName = Literal["auto", "dark", "light", "plain"]

_NARROW_COLUMNS = 40
_LIGHT_BACKGROUNDS = {"7", "15"}

_DARK = {
    "user": "bold",
    "prompt": "bold ansicyan",
    "faint": "ansibrightblack",
    "accent": "ansicyan",
    "good": "ansigreen",
    "warn": "ansiyellow",
    "bad": "ansired",
    "tool": "bold",
    "heading": "bold ansicyan",
    "code": "ansicyan",
    "link": "ansiblue underline",
    "added": "ansigreen",
    "removed": "ansired",
    "hunk": "ansicyan",
    "mark": "ansimagenta",
    "chosen": "bold ansicyan",
    "status": "ansibrightblack",
}
_MENU_STYLES = {
    "completion-menu": "bg:default fg:default",
    "completion-menu.completion": "bg:default fg:default",
    "completion-menu.completion.current": "bold reverse bg:default fg:default",
    "completion-menu.meta.completion": "bg:default fg:ansibrightblack",
    "completion-menu.meta.completion.current": "bold bg:default fg:default",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "reverse bg:default",
}
_LIGHT = _DARK | {
    "prompt": "bold ansiblue",
    "accent": "ansiblue",
    "warn": "ansimagenta",
    "heading": "bold ansiblue",
    "code": "ansiblue",
    "hunk": "ansiblue",
    "chosen": "bold ansiblue",
}
_PLAIN = dict.fromkeys(_DARK, "") | dict.fromkeys(("user", "prompt", "tool", "heading"), "bold") | {"chosen": "reverse"}


_CODE_THEMES = {"dark": "ansi_dark", "light": "ansi_light"}


class Theme(Struct, frozen=True, kw_only=True):
    """What the terminal can show, and how.

    Attributes:
        colors: The number of colors.
        theme: ``dark``, ``light``, or ``plain``.
        utf8: Whether characters beyond ASCII can be shown; otherwise similar ones replace them.
        dumb: Whether the terminal only prints lines, without cursor movement.
    """

    colors: Colors = "256"
    theme: Literal["dark", "light", "plain"] = "dark"
    utf8: bool = True
    dumb: bool = False

    @property
    def styles(self) -> Mapping[str, str]:
        """The prompt-toolkit style of each kind of text."""
        if self.colors == "none" or self.theme == "plain":
            return _PLAIN | _MENU_STYLES
        return (_LIGHT if self.theme == "light" else _DARK) | _MENU_STYLES

    @property
    def code_theme(self) -> str | None:
        """The theme for code, or None."""
        return None if self.colors == "none" else _CODE_THEMES.get(self.theme)

    def sign(self, pretty: str, ascii_form: str) -> str:
        """Return an ornament, or its ASCII form if the terminal cannot show it."""
        return pretty if self.utf8 else ascii_form


def detect_theme(environ: Mapping[str, str], encoding: str, theme: ThemeName = "auto") -> Theme:
    """Detect the theme from the environment.

    Args:
        environ: Environment variables: ``TERM``, ``COLORTERM``, ``NO_COLOR``, ``CLICOLOR``, ``COLORFGBG``.
        encoding: The encoding of the terminal.
        theme: The theme that the user chose; ``auto`` checks whether the background is light.
    """
    term = environ.get("TERM", "")
    colors = _colors(environ, term)
    if theme == "auto":
        light = environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_BACKGROUNDS
        chosen = "light" if light else "dark"
    else:
        chosen = theme
    return Theme(colors=colors, theme=chosen, utf8=_is_utf8(encoding), dumb=term in {"", "dumb", "unknown"})


def is_narrow(columns: int) -> bool:
    """Return True if the screen is so narrow that optional details are hidden."""
    return columns < _NARROW_COLUMNS


def _colors(environ: Mapping[str, str], term: str) -> Colors:
    forced = environ.get("CLICOLOR_FORCE", "0") not in {"", "0"}
    if environ.get("NO_COLOR") or (environ.get("CLICOLOR") == "0" and not forced):
        return "none"
    if term in {"", "dumb", "unknown"} or term.endswith("-m") or term.startswith(("vt1", "vt2")):
        return "16" if forced else "none"
    if environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"}:
        return "truecolor"
    return "256" if "256" in term or "kitty" in term or "direct" in term else "16"


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False


def detect_encoding(environ: Mapping[str, str]) -> str:
    """Return the encoding of the locale; UTF-8 if it names none."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environ.get(name)
        if value:
            break
    else:
        return "utf-8"
    if value in {"C", "POSIX"}:
        return "ascii"
    encoding = value.partition(".")[2].partition("@")[0]
    try:
        return codecs.lookup(encoding).name if encoding else "utf-8"
    except LookupError:
        return "ascii"
