"""Command lines of Python programs that this program starts: isolated from files in the current folder."""

from __future__ import annotations

import os
import site
import sys

_RUN = (
    "import sys; sys.path[:0] = [p for p in sys.argv.pop(1).split({separator!r}) if p not in sys.path]; from runpy import run_module; "
    "run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def python_script(script: str, *arguments: str) -> list[str]:
    """Build the command line that runs a script or a package folder, isolated.

    Python gets ``-I``: it ignores the current folder, the ``PYTHON*`` variables, and the user's own packages.

    Args:
        script: The absolute path of the script, or of a folder or archive with a ``__main__.py``.
        arguments: Arguments of the script.
    """
    return [sys.executable, "-I", script, *arguments]


def python_module(module: str, *arguments: str) -> list[str]:
    """Build the command line that runs a module of this installation, isolated.

    ``python -I -m`` alone does not find a package that is installed for this user only. The new process searches the folder of
    this package and the folders of installed packages.

    Args:
        module: Name of the module.
        arguments: Arguments of the module.
    """
    folders = os.pathsep.join(_installed())
    return [sys.executable, "-I", "-c", _RUN.format(separator=os.pathsep), folders, module, *arguments]


def package_folders() -> list[str]:
    """Return the folders of installed packages that this process searches, and those that ``PYTHONPATH`` names in full."""
    named = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(p)]
    known = {os.path.realpath(p) for p in (*site.getsitepackages(), site.getusersitepackages())}
    return [*named, *(p for p in sys.path if os.path.isabs(p) and os.path.realpath(p) in known)]


def _installed() -> list[str]:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return list(dict.fromkeys((package, *package_folders())))
