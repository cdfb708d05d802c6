"""Extensions in folders and in installed packages.

They are Python code: loading one runs it.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any

from mainspring.extensions.api import ExtensionError, ExtensionSource, FoundExtensions, to_extension_error

ENTRY_POINTS = "mainspring.extensions"
"""The entry point group in which packages register their extensions."""

FUNCTION = "extension"
"""The function that a module must define."""

_UNTRUSTED = "The project is not trusted, so it was not read. Run `mainspring trust` to trust it."


def find_extensions(
    *,
    user: Iterable[str | Path] = (),
    project: str | Path | None = None,
    trusted: bool = False,
    packages: bool = False,
    leave_out: Iterable[str] = (),
) -> FoundExtensions:
    """Load the extensions of folders and packages. Blocks, and runs their code.

    In a folder each ``NAME.py`` and each package ``NAME/__init__.py`` is an extension; names that begin with ``_`` or ``.`` are
    ignored. The module's function ``extension`` is the extension. If a name occurs twice the first applies, and the user's
    extensions come before the project's: a project cannot replace an extension of the user.

    Args:
        user: The user's own folders and files.
        project: The project's folder of extensions.
        trusted: Whether the user trusts the project; if not, its files are reported as problems and not read.
        packages: Whether to load extensions of installed packages.
        leave_out: Names of extensions to skip.
    """
    unwanted = set(leave_out)
    found: list[ExtensionSource] = []
    problems: list[ExtensionError] = []
    for place in user:
        _read(_files(Path(place)), "user", unwanted, found, problems)
    if project is not None:
        own = {f.resolve() for place in user for f in _files(Path(place))}
        files = [f for f in _files(Path(project)) if f.resolve() not in own]
        if trusted:
            _read(files, "project", unwanted, found, problems)
        else:
            problems += [ExtensionError(_name(f), _UNTRUSTED, str(f)) for f in files if _name(f) not in unwanted]
    if packages:
        _ask_packages(unwanted, found, problems)
    return FoundExtensions(tuple(found), tuple(problems))


def _read(
    files: Iterable[Path],
    origin: str,
    unwanted: set[str],
    sources: list[ExtensionSource],
    problems: list[ExtensionError],
) -> None:
    for file in files:
        name = _name(file)
        if name in unwanted:
            continue
        try:
            function = _load(file, name)
        except (Exception, SystemExit) as error:  # an extension may raise anything, and the others are still loaded
            problems.append(to_extension_error(name, error, str(file)))
        else:
            sources.append(ExtensionSource(name, function, str(file), origin))


def _ask_packages(unwanted: set[str], sources: list[ExtensionSource], problems: list[ExtensionError]) -> None:
    if not _has_entry_points():
        return
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda p: p.name):
        if point.name in unwanted:
            continue
        package = point.dist.name if point.dist else point.value
        try:
            function: Any = point.load()
            if not callable(function):
                raise TypeError(f"{point.value} is not a function")
        except (Exception, SystemExit) as error:  # an extension may raise anything, and the agent works without it
            problems.append(to_extension_error(point.name, error, package))
        else:
            sources.append(ExtensionSource(point.name, function, package, "package"))


def _has_entry_points() -> bool:
    """Return True if any package registers an extension, checked from the files alone.

    `importlib.metadata` takes 50ms with a hundred packages, this check takes 3ms, and most installations have no extensions.
    """
    for folder in sys.path:
        for file in Path(folder or ".").glob("*-info/entry_points.txt"):
            try:
                if ENTRY_POINTS.encode() in file.read_bytes():
                    return True
            except OSError:
                continue
    return False


def _files(place: Path) -> Iterator[Path]:
    """Return the files of extensions in a folder, by name.

    For a file or a package, the path itself.
    """
    if os.path.isfile(place):
        yield place
        return
    if os.path.isfile(place / "__init__.py"):
        yield place / "__init__.py"
        return
    try:
        entries = sorted(place.iterdir())
    except OSError:  # the folder is missing or unreadable: it has no extensions
        return
    for entry in entries:
        if entry.name.startswith(("_", ".")):
            continue
        if entry.suffix == ".py" and os.path.isfile(entry):
            yield entry
        elif os.path.isfile(entry / "__init__.py"):
            yield entry / "__init__.py"


def _name(file: Path) -> str:
    return file.parent.name if file.name == "__init__.py" else file.stem


def _load(file: Path, name: str) -> Any:
    """Load the function of a module, always from its current source.

    Raises:
        Exception: Any exception of its code.
    """
    module_name = f"mainspring_extension_{secrets.token_hex(4)}_{name.replace('.', '_').replace('-', '_')}"
    package = file.name == "__init__.py"
    spec: ModuleSpec | None = spec_from_file_location(
        module_name,
        file,
        loader=_UncachedLoader(module_name, str(file)),
        submodule_search_locations=[str(file.parent)] if package else None,
    )
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # relative imports, dataclasses, and pickles search there
    try:
        spec.loader.exec_module(module)
        function = getattr(module, FUNCTION, None)
        if not callable(function):
            raise TypeError(f"it has no function {FUNCTION!r}: write `def {FUNCTION}(api): ...`")
    except BaseException:
        for loaded in [m for m in sys.modules if m == module_name or m.startswith(f"{module_name}.")]:
            del sys.modules[loaded]
        raise
    return function


class _UncachedLoader(SourceFileLoader):
    """Compiles the current source, without cached bytecode.

    Cached bytecode is validated by seconds and size, which is too coarse for edits, and nothing is written next to the user's files.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)
