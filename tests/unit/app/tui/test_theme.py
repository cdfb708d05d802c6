import pytest

from mainspring.app.tui.theme import detect_encoding, detect_theme, is_narrow


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
