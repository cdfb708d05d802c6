"""The modules and files of the package, for packagers. PyInstaller finds them automatically through the entry point ``hook-dirs``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2]


def hook_dirs() -> list[str]:
    """Where PyInstaller finds our hook."""
    return [str(Path(__file__).parent)]


def list_modules() -> list[str]:
    """Every module, by its name."""
    names = (
        file.relative_to(_PACKAGE.parent).with_suffix("").parts
        for file in sorted(_PACKAGE.rglob("*.py"))
        if _is_module(file)
    )
    return [".".join(parts[:-1] if parts[-1] == "__init__" else parts) for parts in names]


def data_files() -> list[tuple[str, str]]:
    """Everything else: where it is, and its folder below the root of the program."""
    return [(str(file), str(file.parent.relative_to(_PACKAGE.parent))) for file in _data_files()]


def _data_files() -> Iterator[Path]:
    for file in sorted(_PACKAGE.rglob("*")):
        if file.is_file() and file.suffix != ".pyc" and not _is_module(file):
            yield file


def _is_module(file: Path) -> bool:
    """Whether it can be imported: the code of sample skills cannot."""
    folders = [p for p in file.parents if p.is_relative_to(_PACKAGE)]
    return file.suffix == ".py" and file.stem.isidentifier() and all((p / "__init__.py").is_file() for p in folders)
