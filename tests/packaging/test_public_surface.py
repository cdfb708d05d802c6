"""The public names of `import mainspring`, and the packages that it imports."""

import importlib
import json
import subprocess
import sys

import pytest

from scripts import make_reference
from tests.rows import each_row

mainspring = importlib.import_module("mainspring")


@each_row("name", mainspring.__all__)
def test_exported_names_resolve(name: str) -> None:
    assert getattr(mainspring, name) is not None


@pytest.mark.parametrize("package", make_reference.PACKAGES)
def test_dir_shows_the_exports_and_nothing_else(package: str) -> None:
    names = make_reference.find_public_names(package)
    assert len(names) == len(set(names))
    assert dir(importlib.import_module(package)) == names


def test_page_lists_the_public_names() -> None:
    page = make_reference.SURFACE.read_text(encoding="utf-8")
    assert page == make_reference.build_surface(), (
        "a public name or its docstring changed: run python scripts/make_reference.py"
    )


@pytest.mark.parametrize("page", make_reference.PAGES)
def test_pages_have_the_signatures_of_the_public_names(page: str) -> None:
    text = (make_reference.SURFACE.with_suffix("") / f"{page}.md").read_text(encoding="utf-8")
    assert text == make_reference.build_signatures(page), (
        "a public name, its signature, or its docstring changed: run python scripts/make_reference.py"
    )


def test_every_module_is_on_one_page() -> None:
    on_pages = [package for _, packages in make_reference.PAGES.values() for package in packages]
    assert sorted(on_pages) == sorted(make_reference.PACKAGES)
    assert {page.stem for page in make_reference.SURFACE.with_suffix("").iterdir()} == set(make_reference.PAGES)


@pytest.mark.parametrize("package", make_reference.PACKAGES)
def test_every_public_name_has_a_description(package: str) -> None:
    names = make_reference.find_public_names(package)
    assert [name for name in names if not make_reference.describe(package, name)] == []


def test_signature_of_a_constructor_has_types_and_options() -> None:
    text = make_reference.build_signatures("agents")
    assert "\nAgent(model: ModelProvider | str | None=None, *, deps_type: TypeForm[AgentDepsT]=None, " in text
    assert "\n    session: Session | None\n" in text
    assert "- `async run(prompt: Prompt" in text


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = mainspring.no_such_name


PROBE = """
import sys
before = set(sys.modules)
{statement}
import json
tops = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(json.dumps(sorted(tops - sys.stdlib_module_names - {{"mainspring"}})))
"""


def third_party_imports(statement: str) -> list[str]:
    """Return the third-party packages that a fresh interpreter imports for a statement."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.covers("PKG-08")
def test_import_mainspring_imports_no_third_party_package() -> None:
    assert third_party_imports("import mainspring") == []


VERSION = """
from mainspring.app.cli.main import main
sys.argv = ["mainspring", "--version"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


@pytest.mark.covers("PKG-08")
def test_version_imports_no_third_party_package() -> None:
    assert third_party_imports(VERSION) == []


def test_command_prints_its_version() -> None:
    done = subprocess.run([sys.executable, "-c", f"import sys\n{VERSION}"], capture_output=True, text=True, check=True)

    assert "0.1.0" in done.stdout
