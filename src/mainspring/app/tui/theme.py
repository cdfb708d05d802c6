"""The theme: what the terminal can show, and its colors."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from mainspring.app.workspace.settings.schema import ThemeName

Colors = Literal["none", "16", "256", "truecolor"]

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


def _palette(faint: str, accent: str, good: str, warn: str, bad: str, mark: str) -> dict[str, str]:
    """Return the styles of a theme that defines its colors."""
    return _DARK | {
        **dict.fromkeys(("faint", "status"), faint),
        **dict.fromkeys(("prompt", "heading"), f"bold {accent}"),
        **dict.fromkeys(("accent", "code", "hunk"), accent),
        "link": f"{accent} underline",
        **dict.fromkeys(("good", "added"), good),
        **dict.fromkeys(("bad", "removed"), bad),
        "warn": warn,
        "mark": mark,
        "chosen": "bold reverse",
    }


_PALETTES: Mapping[tuple[str, bool], Mapping[str, str]] = {
    ("dark", False): _DARK,
    ("light", True): _LIGHT,
    ("high-contrast", False): _palette("#d8d8d8", "#00ffff", "#55ff55", "#ffff00", "#ff9c9c", "#ffa0ff"),
    ("high-contrast", True): _palette("#404040", "#003c8f", "#005200", "#6b3a00", "#8b0000", "#6a006a"),
    ("color-blind", False): _palette("#b0b0b0", "#56b4e9", "#56b4e9", "#fff3a0", "#e68a00", "#e0a0c8"),
    ("color-blind", True): _palette("#595959", "#0060a8", "#0060a8", "#333300", "#b34700", "#7d3563"),
}
"""The styles of each theme with colors, by its name and whether the background is light."""

_CODE_THEMES = {"dark": "ansi_dark", "light": "ansi_light", "color-blind": "ansi_dark"}


class Theme(Struct, frozen=True, kw_only=True):
    """What the terminal can show, and how.

    Attributes:
        colors: The number of colors.
        theme: Name of the theme.
        light: Whether the background is light.
        utf8: Whether characters beyond ASCII can be shown; otherwise similar ones replace them.
        dumb: Whether the terminal only prints lines, without cursor movement.
    """

    colors: Colors = "256"
    theme: Literal["dark", "light", "high-contrast", "color-blind", "plain"] = "dark"
    light: bool = False
    utf8: bool = True
    dumb: bool = False

    @property
    def styles(self) -> Mapping[str, str]:
        """The prompt-toolkit style of each kind of text."""
        if self.colors == "none" or self.theme == "plain":
            return _PLAIN | _MENU_STYLES
        styles = {**_PALETTES[self.theme, self.light], **_MENU_STYLES}
        return styles | {"completion-menu.meta.completion": f"bg:default fg:{styles['faint']}"}

    @property
    def code_theme(self) -> str | None:
        """The theme for code, or None."""
        name = "light" if self.theme == "color-blind" and self.light else self.theme
        return None if self.colors == "none" else _CODE_THEMES.get(name)

    def symbol(self, pretty: str, ascii_form: str) -> str:
        """Return an ornament, or its ASCII form if the terminal cannot show it."""
        return pretty if self.utf8 else ascii_form


def detect_theme(environ: Mapping[str, str], encoding: str, theme: ThemeName = "auto") -> Theme:
    """Detect the theme from the environment.

    Args:
        environ: Environment variables: ``TERM``, ``COLORTERM``, ``NO_COLOR``, ``CLICOLOR``, ``COLORFGBG``.
        encoding: The encoding of the terminal.
        theme: The theme that the user chose; ``auto``, ``high-contrast``, and ``color-blind`` check whether the background is light.
    """
    term = environ.get("TERM", "")
    colors = _colors(environ, term)
    light = environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_BACKGROUNDS
    chosen = ("light" if light else "dark") if theme == "auto" else theme
    if chosen in ("dark", "light"):
        light = chosen == "light"
    return Theme(
        colors=colors, theme=chosen, light=light, utf8=_is_utf8(encoding), dumb=term in {"", "dumb", "unknown"}
    )


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
