"""Reading the web."""

from mainspring.tools.builtin.web.fetch import fetch

__all__ = ["fetch"]
