"""Durations of the Python API are in seconds."""

import ast
from pathlib import Path

import mainspring

SOURCE = Path(str(mainspring.__file__)).parent
FIXED = {
    ("models/response.py", "retry_after_ms"),  # the argument of error_response
    ("models/providers/configured.py", "base_delay_ms"),  # settings.json
    ("models/providers/configured.py", "max_delay_ms"),
    ("app/workspace/settings/schema.py", "base_delay_ms"),
    ("app/workspace/settings/schema.py", "max_delay_ms"),
}
"""The names that docs/deviations.md lists."""

UNITS = ("_ms", "_millis", "_milliseconds")


def find_millisecond_names(text: str) -> set[str]:
    """Return the public parameters, fields, properties, and functions whose names end in a unit of milliseconds."""
    names: set[str] = set()
    if not any(unit in text for unit in UNITS):  # parsing all modules takes seconds
        return names
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if name[0] != "_" and name.endswith(UNITS)}


def test_only_the_fixed_names_are_in_milliseconds() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in find_millisecond_names(path.read_text(encoding="utf-8"))
    }
    assert found == FIXED


def test_names_in_milliseconds_are_found() -> None:
    assert find_millisecond_names("class A:\n    delay_ms: int\n    def wait_ms(self, grace_ms): ...") == {
        "delay_ms",
        "wait_ms",
        "grace_ms",
    }
