"""The exported page in a real browser, from disk."""

import re
from pathlib import Path

import pytest

from mainspring.app.export import render_html
from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.saved_sessions import export_transcript
from tests.e2e.browser import render_page
from tests.unit.app.export.conftest import exported

__all__ = ["exported"]


@pytest.mark.covers("BYD-13")
def test_exported_page_works_from_disk(exported: tuple[Path, Path, str], tmp_path: Path) -> None:
    folder, home, id = exported
    page = tmp_path / "session.html"
    transcript = export_transcript(id, WorkspaceOptions(cwd=str(folder)), {"MAINSPRING_HOME": str(home)})
    page.write_text(render_html(transcript), encoding="utf-8")

    whole = render_page(page.as_uri(), tmp_path / "profile")
    searched = render_page(f"{page.as_uri()}#search=on+fire", tmp_path / "profile")

    assert "CONSOLE" not in whole + searched
    assert 'class="tools" hidden' not in whole
    articles = re.findall(r"<article[^>]*>", whole)
    assert [bool("left" in a) for a in articles] == ["hidden" in a for a in articles]
    assert len(articles) == len(transcript.items)
    assert "0 of" not in searched
    assert 'id="found">1 of' in searched
