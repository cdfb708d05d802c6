"""Export formats, by file extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainspring.app.export import render_html, render_markdown
from mainspring.app.workspace.saved_sessions import Transcript

EXPORTERS: Mapping[str, Callable[[Transcript], str]] = {"md": render_markdown, "html": render_html}
"""Exporters of ``/export``; ``jsonl`` is supported in addition."""
