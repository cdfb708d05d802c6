"""Export sessions to files: one HTML page, or Markdown."""

from mainspring.app.export.html import render_html
from mainspring.app.export.markdown import render_markdown

__all__ = ["render_html", "render_markdown"]
