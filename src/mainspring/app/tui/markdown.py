"""Renders Markdown blocks as rows. Imports rich, so this module is imported with the first block."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar, Literal

from rich.color import Color, ColorType
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, HorizontalRule, ImageItem, ListItem, Markdown, MarkdownElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from mainspring.app.tui.safe_text import sanitize, strip_emoji_modifiers
from mainspring.app.tui.streaming_markdown import MarkdownBlock
from mainspring.app.tui.styled_text import Row
from mainspring.app.tui.theme import Theme as Look

_STANDARD = (
    *("ansiblack", "ansired", "ansigreen", "ansiyellow", "ansiblue", "ansimagenta", "ansicyan", "ansigray"),
    *("ansibrightblack", "ansibrightred", "ansibrightgreen", "ansibrightyellow"),
    *("ansibrightblue", "ansibrightmagenta", "ansibrightcyan", "ansiwhite"),
)
_COLOR_SYSTEMS: dict[str, Literal["standard", "256", "truecolor"]] = {
    "16": "standard",
    "256": "256",
    "truecolor": "truecolor",
}
_WORDS = re.compile(r"ansi(?=\w)")
_ORNAMENT = re.compile("[\u2022\u258c\u2500\u2501\u257a\u2578 ]+")
_ORNAMENTS = str.maketrans({"\u2022": "-", "\u258c": "|", **dict.fromkeys("\u2500\u2501\u257a\u2578", "-")})
_MAX_COLUMNS = 120
"""Maximum width of prose, since longer lines are hard to read."""


class _LeftHeading(Heading):
    """A left-aligned heading in the style of the theme."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _ShortRule(HorizontalRule):
    """A short rule, which a narrower window does not wrap."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("-" * min(options.max_width, 20), style="markdown.hr")


class _NamedImage(ImageItem):
    """An image as its text; no image is loaded."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        words = self.text.plain or "image"
        yield Text(f"[{words}] ({self.destination})", end="")


class _PointedItem(ListItem):
    """An item of a list: numbers have a point, and an item without text is shown too."""

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the rows of an item with a bullet."""
        return self._render(console, options, " \u2022 ", "markdown.item.bullet")

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        """Return the rows of an item with a number."""
        sign = f" {number}.".rjust(len(str(last_number - 1)) + 2) + " "
        return self._render(console, options, sign, "markdown.item.number")

    def _render(self, console: Console, options: ConsoleOptions, sign: str, style_name: str) -> RenderResult:
        lines = console.render_lines(
            self.elements, options.update(width=options.max_width - len(sign)), style=self.style
        )
        style = console.get_style(style_name, default="none")
        for i, line in enumerate(lines or [[]]):
            yield Segment(" " * len(sign) if i else sign, style)
            yield from line
            yield Segment("\n")


class _AnswerMarkdown(Markdown):
    """Markdown that shows HTML as text."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "hr": _ShortRule,
        "list_item_open": _PointedItem,
        "image": _NamedImage,
    }

    def __init__(self, markup: str, code_theme: str) -> None:
        super().__init__(markup, code_theme=code_theme, hyperlinks=False)
        for token in self.parsed:
            if token.type == "html_block":
                token.type, token.tag, token.info = "code_block", "code", ""
            for child in token.children or ():
                if child.type == "html_inline":
                    child.type = "text"


class MarkdownRenderer:
    """Renders blocks as rows.

    Args:
        theme: The theme.
        columns: Width of the screen.
    """

    def __init__(self, theme: Look, columns: int) -> None:
        self._theme = theme
        self._columns = max(columns, 4)
        styles = {f"markdown.{name}": _to_rich_style(style) for name, style in _markdown_styles(theme).items()}
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system=_COLOR_SYSTEMS.get(theme.colors),
            no_color=theme.colors == "none",
            width=self._columns,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
            theme=Theme(styles),
            safe_box=True,
            _environ={},
        )

    def rows(self, block: MarkdownBlock, last: int | None = None) -> list[Row]:
        """Render a block; with ``last``, only its last rows."""
        text = strip_emoji_modifiers(sanitize(block.text))
        if block.code is not None:
            lines = text.split("\n")
            return self._code("\n".join(lines if last is None else lines[-last:]), block.code)
        rows = self._render(
            _AnswerMarkdown(text, self._theme.code_theme or "default"), min(self._columns, _MAX_COLUMNS)
        )
        return rows if last is None else rows[-last:]

    def _code(self, code: str, language: str) -> list[Row]:
        theme = self._theme.code_theme
        if theme is None or not language:
            return [[("class:code" if theme else "", f"  {line.expandtabs(4)}")] for line in code.split("\n")]
        shown = Syntax(code, language, theme=theme, background_color="default", tab_size=4).highlight(code)
        shown.rstrip()
        lines = shown.split("\n", allow_blank=True)
        return [[("", "  "), *_fragments(line.render(self._console, ""))] for line in lines]

    def _render(self, content: Markdown, columns: int) -> list[Row]:
        options = self._console.options.update(width=columns)
        lines = self._console.render_lines(content, options, pad=False)
        rows = [_trim_row(_fragments(line)) for line in lines]
        while rows and not rows[0]:
            del rows[0]
        while rows and not rows[-1]:
            rows.pop()
        return rows


def _fragments(segments: Iterable[Segment]) -> Row:
    return [(_to_prompt_toolkit_style(s.style), _ascii_ornaments(s.text)) for s in segments if s.text and not s.control]


def _ascii_ornaments(text: str) -> str:
    """Replace ornaments of rich with ASCII characters, whose width is the same everywhere."""
    if text.isascii():
        return text
    return text.translate(_ORNAMENTS) if _ORNAMENT.fullmatch(text) else text


def _trim_row(row: Row) -> Row:
    """Remove trailing blanks of a row, so that copied text has none."""
    while row and not row[-1][1].strip():
        row.pop()
    if row:
        style, text = row[-1]
        row[-1] = (style, text.rstrip())
    return row


@lru_cache(512)
def _to_prompt_toolkit_style(style: Style | None) -> str:
    """Translate a style of rich to prompt-toolkit."""
    if style is None:
        return ""
    words = [name for name in ("bold", "italic", "underline", "strike", "reverse", "dim") if getattr(style, name)]
    for ground, color in (("fg", style.color), ("bg", style.bgcolor)):
        named = _color(color) if color else ""
        if named:
            words.append(f"{ground}:{named}")
    return " ".join(words)


def _color(color: Color) -> str:
    if color.type == ColorType.DEFAULT:
        return ""
    if color.type == ColorType.STANDARD and color.number is not None:
        return _STANDARD[color.number]
    return color.get_truecolor().hex


def _to_rich_style(style: str) -> str:
    """Translate a style of the theme to rich."""
    words = style.replace("ansibright", "ansibright_").replace("ansigray", "white")
    return _WORDS.sub("", words) or "none"


def _markdown_styles(theme: Look) -> dict[str, str]:
    styles = theme.styles
    headings = {f"h{level}": styles["heading"] for level in range(1, 8)}
    return {
        **headings,
        "code": styles["code"] or "bold",
        "item.bullet": styles["accent"],
        "item.number": styles["accent"],
        "block_quote": styles["faint"] or "italic",
        "hr": styles["faint"],
        "link": "underline",
        "link_url": styles["faint"],
        "table.border": styles["faint"],
        "table.header": "bold",
    }
