"""The site: every page is in the navigation, and the reference has every public name."""

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from scripts import make_pages, make_reference

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"


def list_pages(nav: list[Any]) -> list[str]:
    found: list[str] = []
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found += list_pages(value) if isinstance(value, list) else [value]
    return found


@pytest.mark.covers("PKG-16")
def test_every_page_is_in_the_navigation_once() -> None:
    config = tomllib.loads((REPOSITORY / "zensical.toml").read_text(encoding="utf-8"))
    listed = [page for page in list_pages(config["project"]["nav"]) if not page.startswith("reference/")]
    existing = [str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md") if "reference" not in p.parts]
    assert sorted(listed) == sorted(existing)


@pytest.mark.covers("PKG-16")
def test_start_page_links_to_every_page() -> None:
    pages = (DOCS / "index.md", DOCS / "python-api.md")  # the second one is the start page of the generated ones
    linked = {link for page in pages for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))}
    existing = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md") if "reference" not in p.parts}
    assert existing - linked == {"index.md"}


@pytest.mark.covers("PKG-16")
def test_site_copies_have_plain_code_fences(tmp_path: Path) -> None:
    make_pages.main(DOCS, tmp_path / "docs")
    for page in sorted(DOCS.rglob("*.md")):
        if "reference" in page.parts:
            continue
        copy = (tmp_path / "docs" / page.relative_to(DOCS)).read_text(encoding="utf-8")
        fences = re.findall(r"^ *```.*$", copy, re.MULTILINE)
        assert len(fences) == len(re.findall(r"^ *```.*$", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert [fence for fence in fences if re.search(r"```\S*\s", fence)] == [], page.name
    assert "```python\n" in (tmp_path / "docs" / "models.md").read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "images" / "viewer.png").exists()


@pytest.mark.covers("PKG-16")
def test_reference_has_every_public_name_and_its_docstring(tmp_path: Path) -> None:
    make_reference.main(tmp_path)
    assert (tmp_path / "mainspring.md").exists()
    undocumented: list[str] = []
    for page in tmp_path.glob("mainspring*.md"):
        directives = re.findall(r"^::: (\S+)\.(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert [name for _, name in directives] == make_reference.find_public_names(page.stem)
        for module, name in directives:
            value = getattr(import_module(module), name)
            if isinstance(value, type) and not value.__doc__:
                undocumented.append(f"{module}.{name}")
    assert undocumented == []


def test_reference_lists_every_public_package() -> None:
    root = REPOSITORY / "src" / "mainspring"
    plugs = [
        "models",
        "tools",
        "env",
        "messages",
        "events",
        "loop",
        "sessions",
        "memory",
        "subagents",
        "skills",
        "mcp",
        "telemetry",
    ]
    plugs += ["extensions", "presets", "durable", "testing"]
    existing = {f"mainspring.{name}" for name in plugs if (root / name / "__init__.py").exists()}
    assert existing <= set(make_reference.PACKAGES)
