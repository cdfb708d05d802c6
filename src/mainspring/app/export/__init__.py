"""Sessions as files for people: one HTML page, or Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.app.export.markdown import markdown
from mainspring.app.export.tree import tree_lines
from mainspring.lazy import later

if TYPE_CHECKING:
    from mainspring.app.export.html import html_page
else:
    html_page = later("mainspring.app.export.html", "html_page")

__all__ = ["html_page", "markdown", "tree_lines"]
