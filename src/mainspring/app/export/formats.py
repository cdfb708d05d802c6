"""The forms of an export, by the ending of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainspring.app.export import html_page, markdown
from mainspring.app.workspace.saved_sessions import Transcript

FORMS: Mapping[str, Callable[[Transcript], str]] = {"md": markdown, "html": html_page}
"""How ``/export`` writes a conversation; ``jsonl`` is known beside these."""
