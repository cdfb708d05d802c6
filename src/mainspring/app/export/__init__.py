"""Sessions as files for people: one HTML page, or Markdown."""

from mainspring.app.export.html import html_page
from mainspring.app.export.markdown import markdown

__all__ = ["html_page", "markdown"]
