"""The lowest allowed versions of dependencies (known problem B-03)."""

import importlib.metadata
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.requires import requires


def requirements(repository: Path) -> list[Requirement]:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    return [Requirement(line) for line in lines if not line.startswith("mainspring[")]


def test_every_dependency_has_a_lowest_version(repository: Path) -> None:
    for requirement in requirements(repository):
        assert {s.operator for s in requirement.specifier} & {">=", "=="}, f"{requirement} has no lowest version"
        try:
            installed = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an extra
        assert requirement.specifier.contains(installed, prereleases=True), f"{requirement}, installed {installed}"


@pytest.mark.soak
@requires(shutil.which("uv") is not None, "uv, and a package index")
def test_lowest_versions_work(repository: Path, tmp_path: Path) -> None:
    """Older versions failed: exceptions of msgspec, marks of charset-normalizer, exporters of OpenTelemetry."""
    paths = [
        "tools/arguments/test_parse.py",
        "tools/support/test_text_files.py",
        "models/test_langchain.py",
        "telemetry",
        "app/servers/acp",
    ]

    done = subprocess.run(
        ["scripts/test_lowest_versions", str(tmp_path / "venv"), *(f"tests/unit/{name}" for name in paths)],
        cwd=repository,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
