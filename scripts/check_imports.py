"""Rules about imports that no linter has.

An import inside a function is for heavy or optional packages, imported on use. Our own modules are imported at the top of a
file, where a reader looks for them; only what dispatches by a name, and a lazy `__init__.py`, may load them later.
`import_module("mainspring...")` and `import_from_extra("mainspring...")` count as imports.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "mainspring"


# Besides the command: the screen, which is there before the agent and the painter; a provider by its name, a transport by
# what is installed; modules of others that are loaded by a list of their names.
# The servers, whose packages are others' and heavy; agents that the user names.
DISPATCHERS = {
    "app/dashboard/control.py",
    "app/printing/print_mode.py",
    "app/servers/acp/start.py",
    "app/servers/http/start.py",
    "app/servers/mcp/start.py",
    "app/run_service/service.py",
    "app/run_service/agents.py",
    "app/tui/chat_client.py",
    "app/tui/start.py",
    "extras.py",
    "lazy.py",
    "mcp/sdk.py",
    "models/auth/azure.py",
    "models/langchain/detect.py",
    "models/providers/langchain.py",
    "models/registry.py",
    "models/transport/default.py",
    "telemetry/pipeline.py",
}


def may_import_late(path: Path) -> bool:
    """Whether a file dispatches: the command's modules, `python -m mainspring`, every `__init__.py`, and DISPATCHERS."""
    name = path.relative_to(SOURCE).as_posix()
    return (
        name.startswith(("app/cli/", "app/commands/"))
        or name in DISPATCHERS
        or path.name in {"__init__.py", "__main__.py"}
    )


def imported_names(node: ast.AST) -> Iterator[str]:
    """The modules that a node imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module)):
            yield module
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "import_from_extra"),
            args=[first, *_],
        ):
            match first:
                case ast.Constant(value=str(module)):
                    yield module
                case ast.JoinedStr(values=[ast.Constant(value=str(module)), *_]):
                    yield module
                case _:
                    yield "mainspring (a computed name)"


def late_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and module of each import inside a function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                for name in imported_names(node):
                    yield getattr(node, "lineno", 0), name


def find_violations(path: Path, tree: ast.AST) -> Iterator[str]:
    if may_import_late(path):
        return
    for line, name in sorted(set(late_imports(tree))):
        top = name.partition(".")[0].partition(" ")[0]
        if top == "mainspring":
            yield f"{path.relative_to(ROOT)}:{line}: {name} is imported inside a function; import it at the top"


def main() -> int:
    found = [
        line
        for path in sorted(SOURCE.rglob("*.py"))
        for line in find_violations(path, ast.parse(path.read_text("utf-8")))
    ]
    print("\n".join(found) if found else "late imports: packages of others, and dispatch")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
