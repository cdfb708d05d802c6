"""Convert HTML to plain Markdown: headings, paragraphs, lists, links, code, and tables; only readable content."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from mainspring.lazy import lazy_re

_SKIPPED_ELEMENTS = frozenset(
    ("script", "style", "noscript", "template", "svg", "head", "iframe", "object", "canvas", "select")
)
_BLOCKS = frozenset(
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form "
    "header hgroup html legend main nav p section summary".split()
)
_HEADINGS = {f"h{n}": "#" * n + " " for n in range(1, 7)}
_MARKS = {"b": "**", "strong": "**", "em": "*", "i": "*"}
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_SPACES = lazy_re(r"[ \t\n\r\f\v]+")
_MAX_NESTING = 8


class HtmlToMarkdownParser:
    """Parser of a page; `markdown` returns its content, `title` its title."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._out: list[str] = []
        self._line = ""
        self._silent: list[str] = []
        self._lists: list[int | None] = []
        self._pre = 0
        self._links: list[tuple[str, int]] = []
        self._cells: list[str] | None = None
        self._rows = 0
        self._in_title = False
        self.title = ""

    def markdown(self) -> str:
        """Return the text so far."""
        self._end_line()
        text = "\n".join(self._out)
        return re.sub(r"\n{3,}", "\n\n", text).strip("\n")

    # --- parser callbacks -------------------------------------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handle the start of an element."""
        if tag == "title":
            self._in_title = not self.title
        if tag == "body":
            self._silent.clear()  # close elements that were left open
        if tag in _SKIPPED_ELEMENTS:
            self._silent.append(tag)
        if self._silent or tag in _VOID and tag not in ("br", "hr", "img"):
            return
        values = {name: value or "" for name, value in attrs}
        if tag in _HEADINGS:
            self._block()
            self._line = _HEADINGS[tag]
        elif tag in _MARKS:
            self._add(_MARKS[tag])
        elif tag == "a":
            self._links.append((values.get("href", ""), len(self._line)))
        elif tag in ("code", "kbd", "samp", "tt") and not self._pre:
            self._add("`")
        elif tag == "img":
            self._add(f"[image: {values['alt'].strip()}]" if values.get("alt", "").strip() else "")
        else:
            self._begin_block(tag, values)

    def handle_endtag(self, tag: str) -> None:
        """Handle the end of an element."""
        if tag == "title":
            self._in_title = False
        if self._silent:
            if tag in self._silent:
                del self._silent[self._silent.index(tag) :]
            return
        if tag in _MARKS:
            self._add(_MARKS[tag])
        elif tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif tag in ("code", "kbd", "samp", "tt") and not self._pre:
            self._add("`")
        else:
            self._end_block(tag)

    def handle_data(self, data: str) -> None:
        """Handle text."""
        if self._in_title:
            self.title = _SPACES.sub(" ", self.title + data).lstrip()[:300]
        if self._silent:
            return
        if self._pre:
            *lines, self._line = (self._line + data).split("\n")
            self._out += lines
            return
        self._add(_SPACES.sub(" ", data))

    # --- lines and blocks -------------------------------------------------------------------------------------------

    def _begin_block(self, tag: str, values: dict[str, str]) -> None:
        if tag == "br":
            self._end_line()
        elif tag == "hr":
            self._block()
            self._out += ["---", ""]
        elif tag == "pre":
            self._block()
            self._out.append("```")
            self._pre += 1
        elif tag in ("ul", "ol"):
            self._end_line()
            if not self._lists:
                self._block()
            self._lists.append(1 if tag == "ol" else None)
        elif tag == "li":
            self._end_line()
            self._line = self._bullet()
        elif tag == "table":
            self._block()
            self._rows = 0
        elif tag == "tr":
            self._cells = []
            self._line = ""
        elif tag in ("td", "th"):
            self._end_cell()
        elif tag in _BLOCKS:
            self._block()

    def _end_block(self, tag: str) -> None:
        if tag == "pre" and self._pre:
            self._pre -= 1
            self._end_line()
            self._out += ["```", ""]
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            self._end_line()
            if not self._lists:
                self._block()
        elif tag in ("td", "th"):
            self._end_cell()
        elif tag == "tr":
            self._end_row()
        elif tag in _HEADINGS or tag in _BLOCKS or tag == "table":
            self._block()

    def _bullet(self) -> str:
        indent = "  " * min(max(len(self._lists) - 1, 0), _MAX_NESTING)
        count = self._lists[-1] if self._lists else None
        if count is None:
            return f"{indent}- "
        self._lists[-1] = count + 1
        return f"{indent}{count}. "

    def _add(self, text: str) -> None:
        if text.startswith(" ") and (not self._line or self._line.endswith(" ")):
            text = text[1:]
        self._line += text

    def _end_link(self, href: str, start: int) -> None:
        text = self._line[min(start, len(self._line)) :].strip()
        target = "" if href.startswith(("#", "javascript:", "data:")) else _resolve_url(self._url, href)
        if text and target and target != text:
            gap = " " if self._line[start : start + 1] == " " else ""
            self._line = f"{self._line[:start]}{gap}[{text}]({target})"

    def _end_cell(self) -> None:
        if self._cells is not None and self._line.strip():
            self._cells.append(self._line.strip().replace("|", "\\|"))
            self._line = ""

    def _end_row(self) -> None:
        self._end_cell()
        cells, self._cells = self._cells, None
        if cells:
            self._out.append(f"| {' | '.join(cells)} |")
            self._rows += 1
            if self._rows == 1:
                self._out.append("|" + " --- |" * len(cells))

    def _end_line(self) -> None:
        if self._cells is not None and not self._pre:
            self._add(" ")
            return
        line = self._line.rstrip() if not self._pre else self._line
        if line.strip() and line.strip() not in ("-", "**", "*", "`"):
            self._out.append(line)
        self._line = ""

    def _block(self) -> None:
        self._end_line()
        if self._cells is None and self._out and self._out[-1]:
            self._out.append("")


def _resolve_url(base: str, href: str) -> str:
    try:
        return urljoin(base, href.strip())
    except ValueError:
        return href


_MARKED = lazy_re(r"<!\[(?:((?:if|endif)\b[^>]*>)|(?!CDATA\[))", re.IGNORECASE)
"""Sections that the standard library's parser rejects: conditional sections are removed, and lookalikes become text."""


def to_markdown(html: str, url: str) -> tuple[str, str]:
    """Return the title and the Markdown of a page. Slow for large pages; run it in a thread."""
    from html.parser import HTMLParser  # The import takes 4 ms: load it on the first page.

    page = HtmlToMarkdownParser(url)
    parser = HTMLParser(convert_charrefs=True)
    parser.handle_starttag = page.handle_starttag
    parser.handle_endtag = page.handle_endtag
    parser.handle_data = page.handle_data
    parser.feed(_MARKED.sub(lambda found: "" if found[1] else "&lt;![", html))
    parser.close()
    return page.title.strip(), page.markdown()
