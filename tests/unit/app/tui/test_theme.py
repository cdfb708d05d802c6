from typing import get_args

import pytest

from mainspring.app.tui.theme import detect_encoding, detect_theme, is_narrow
from mainspring.app.workspace.settings.schema import ThemeName


@pytest.mark.parametrize(
    ("environ", "colors"),
    [
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
        ({"TERM": "xterm-256color", "CLICOLOR": "0"}, "none"),
        ({"TERM": "xterm-256color", "CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, "256"),
        ({"TERM": "dumb"}, "none"),
        ({"TERM": "vt100"}, "none"),
        ({"TERM": "linux"}, "16"),
        ({}, "none"),
    ],
)
def test_color_depth_is_detected(environ: dict[str, str], colors: str) -> None:
    assert detect_theme(environ, "utf-8").colors == colors


def test_theme_is_detected_or_chosen() -> None:
    term = {"TERM": "xterm-256color"}
    assert detect_theme(term, "utf-8").theme == "dark"
    assert detect_theme({**term, "COLORFGBG": "0;15"}, "utf-8").theme == "light"
    assert detect_theme({**term, "COLORFGBG": "15;0"}, "utf-8").theme == "dark"
    assert detect_theme(term, "utf-8", "light").styles["accent"] == "ansiblue"
    plain = detect_theme(term, "utf-8", "plain")
    assert not any("ansi" in style for name, style in plain.styles.items() if "-menu" not in name)
    assert plain.code_theme is None
    dark, light = detect_theme(term, "utf-8", "dark"), detect_theme(term, "utf-8", "light")
    assert set(dark.styles) == set(light.styles) == set(plain.styles)


def test_dumb_and_non_utf8_terminals() -> None:
    assert detect_theme({"TERM": "dumb"}, "utf-8").dumb
    assert detect_theme({}, "utf-8").dumb
    assert not detect_theme({"TERM": "xterm"}, "iso-8859-1").utf8
    assert detect_theme({"TERM": "xterm"}, "ascii").symbol("\u2026", "...") == "..."
    assert is_narrow(20)
    assert not is_narrow(80)


@pytest.mark.parametrize(
    ("environ", "encoding"),
    [
        ({}, "utf-8"),
        ({"LANG": "C.UTF-8"}, "utf-8"),
        ({"LANG": "de_DE.ISO-8859-1"}, "iso8859-1"),
        ({"LC_ALL": "C", "LANG": "C.UTF-8"}, "ascii"),
        ({"LANG": "de_DE@euro"}, "utf-8"),
        ({"LANG": "x.nonsense"}, "ascii"),
    ],
)
def test_encoding_is_detected_from_the_locale(environ: dict[str, str], encoding: str) -> None:
    assert detect_encoding(environ) == encoding


_BACKGROUNDS = {False: ("#000000", "#1e1e1e"), True: ("#ffffff", "#f5f5f5")}
_MEANINGS = (("added", "removed"), ("good", "bad"), ("good", "warn"), ("bad", "warn"), ("accent", "bad"))
"""Styles that must differ for every user."""
_BLINDNESS = {  # Machado, Oliveira, and Fernandes (2009), severity 1.0, on linear RGB
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def _linear(color: str) -> tuple[float, ...]:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return tuple(p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)


def _luminance(rgb: tuple[float, ...]) -> float:
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]


def _contrast(first: str, second: str) -> float:
    """Return the contrast ratio of WCAG 2."""
    low, high = sorted((_luminance(_linear(first)), _luminance(_linear(second))))
    return (high + 0.05) / (low + 0.05)


def _lab(rgb: tuple[float, ...]) -> tuple[float, ...]:
    x = (0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.9505
    z = (0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.089
    f, g, h = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, _luminance(rgb), z))
    return 116 * g - 16, 500 * (f - g), 200 * (g - h)


def _difference(first: str, second: str, blindness: str) -> float:
    """Return how different two colors are for a color-blind user (CIE76; 2.3 is just noticeable)."""

    def seen(color: str) -> tuple[float, ...]:
        rgb = _linear(color)
        rows = _BLINDNESS[blindness]
        return _lab(tuple(min(max(sum(m * c for m, c in zip(row, rgb, strict=True)), 0), 1) for row in rows))

    return sum((a - b) ** 2 for a, b in zip(seen(first), seen(second), strict=True)) ** 0.5


def _colors(theme: ThemeName, *, light: bool) -> dict[str, str]:
    environ = {"TERM": "xterm-256color", "COLORFGBG": "0;15" if light else "15;0"}
    styles = detect_theme(environ, "utf-8", theme).styles
    return {name: word for name, style in styles.items() for word in style.split() if word.startswith("#")}


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize(("theme", "minimum"), [("high-contrast", 7.0), ("color-blind", 4.5)])
def test_colors_have_enough_contrast(theme: ThemeName, minimum: float, light: bool) -> None:
    colors = _colors(theme, light=light)
    assert len(colors) >= 14
    low = {
        (name, background): round(_contrast(color, background), 1)
        for name, color in colors.items()
        for background in _BACKGROUNDS[light]
        if _contrast(color, background) < minimum
    }
    assert low == {}


@pytest.mark.parametrize("light", [False, True])
@pytest.mark.parametrize("blindness", _BLINDNESS)
def test_meanings_differ_for_color_blind_users(blindness: str, light: bool) -> None:
    colors = _colors("color-blind", light=light)
    near = {
        (a, b): round(_difference(colors[a], colors[b], blindness))
        for a, b in _MEANINGS
        if _difference(colors[a], colors[b], blindness) < 20
    }
    assert near == {}


def test_every_theme_has_all_styles_and_no_color_wins() -> None:
    names = set(detect_theme({"TERM": "xterm"}, "utf-8", "dark").styles)
    for theme in get_args(ThemeName):
        for light in ("0;15", "15;0"):
            environ = {"TERM": "xterm-256color", "COLORFGBG": light}
            assert set(detect_theme(environ, "utf-8", theme).styles) == names
            plain = detect_theme({**environ, "NO_COLOR": "1"}, "utf-8", theme)
            assert plain.code_theme is None
            assert not any("#" in style or "ansi" in style for n, style in plain.styles.items() if "menu" not in n)
