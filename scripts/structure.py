"""Measure the shape of the source: modules, sizes, fragments, duplicate names, cycles of type-checking imports.

`python scripts/structure.py [--list]` prints the figures; `check_sizes.py` holds them. Uses the syntax trees only.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "mainspring"
ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Module:
    """What a file defines and imports."""

    name: str
    lines: int
    is_package: bool
    public: set[str] = field(default_factory=set)
    imports: set[tuple[str, str]] = field(default_factory=set)  # module, name: at run time, also inside functions
    typing: set[tuple[str, str]] = field(default_factory=set)  # under TYPE_CHECKING
    passes_on: dict[str, str] = field(default_factory=dict)  # name -> module that it is imported from


def parse_sources() -> dict[Path, tuple[str, ast.Module]]:
    """Text and syntax tree of every file of the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / PACKAGE).rglob("*.py"))}
    return {path: (text, ast.parse(text)) for path, text in texts.items()}


def read_modules() -> dict[str, Module]:
    """Collect every module of the package."""
    found = (read_module(path, text, tree) for path, (text, tree) in parse_sources().items())
    return {module.name: module for module in found if module is not None}


def read_module(path: Path, text: str, tree: ast.Module) -> Module | None:
    """Collect what a module defines and imports; None for bundled skills, which are data."""
    inner = path.relative_to(ROOT / "src" / PACKAGE)
    if inner.parts[:2] in {("skills", "samples"), ("skills", "bundled")} or "-" in path.stem:
        return None
    parts = [PACKAGE, *inner.with_suffix("").parts]
    is_package = parts[-1] == "__init__"
    module = Module(".".join(parts[:-1] if is_package else parts), text.count("\n"), is_package)
    collect(tree, module)
    return module


def collect(tree: ast.Module, module: Module) -> None:
    """Collect the public definitions and the imports of a module."""
    for node in tree.body:
        module.public.update(name for name in defined_names(node) if not name.startswith("_"))
    for node, is_typing in walk_imports(tree):
        target = module.typing if is_typing else module.imports
        if isinstance(node, ast.ImportFrom):
            if node.module and node.module.split(".")[0] == PACKAGE:
                target.update((node.module, alias.name) for alias in node.names)
                module.passes_on.update({alias.asname or alias.name: node.module for alias in node.names})
        else:
            target.update((alias.name, "") for alias in node.names if alias.name.split(".")[0] == PACKAGE)


def defined_names(node: ast.stmt) -> Iterator[str]:
    """Names that a top-level statement defines."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case _:
            pass


def walk_imports(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Every import statement, with whether it is for type checking only. Expressions are not visited."""
    stack: list[tuple[ast.stmt, bool]] = [(node, False) for node in tree.body]
    while stack:
        node, is_typing = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, is_typing
            continue
        under = is_typing or (
            isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        )
        for number, block in enumerate(inner_blocks(node)):
            stack += [(inner, under if number == 0 else is_typing) for inner in block]


def inner_blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of statements inside a statement, its body first. Simple statements have none."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.With() | ast.AsyncWith():
            yield node.body
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
            yield node.body
            yield node.orelse
        case ast.Try() | ast.TryStar():
            yield node.body
            yield from (handler.body for handler in node.handlers)
            yield node.orelse
            yield node.finalbody
        case ast.Match():
            yield from (case.body for case in node.cases)
        case _:
            pass


def resolve(modules: dict[str, Module], module: str, name: str) -> str:
    """Return the module that an import really reaches: a submodule, or the module behind a package that passes a name on."""
    seen: set[str] = set()
    while module not in seen:
        seen.add(module)
        if f"{module}.{name}" in modules:
            return f"{module}.{name}"
        found = modules.get(module)
        if found is None or not found.is_package or name in found.public or name not in found.passes_on:
            break
        module = found.passes_on[name]
    return module


def build_graph(modules: dict[str, Module], *, typing: bool) -> dict[str, set[str]]:
    """Importer -> imported modules. Packages that only pass names on are left out as importers."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for module in modules.values():
        if module.is_package and not module.public - {"__all__"}:
            continue
        for target, name in module.imports | (module.typing if typing else set()):
            home = resolve(modules, target, name)
            if home in modules and home != module.name:
                graph[module.name].add(home)
    return graph


def find_knots(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or around corners; the largest first."""
    reversed_graph: dict[str, set[str]] = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            reversed_graph[target].add(name)
    left = set(graph)
    while ends := {n for n in left if not graph[n] & left or not reversed_graph[n] & left}:
        left -= ends  # a module that imports nothing, or that nothing imports, is in no cycle
    knots: list[list[str]] = []
    while left:
        name = min(left)
        knot = reach(graph, name) & reach(reversed_graph, name)
        left -= knot | {name}
        if len(knot) > 1:
            knots.append(sorted(knot))
    return sorted(knots, key=len, reverse=True)


def reach(graph: dict[str, set[str]], start: str) -> set[str]:
    """All modules that can be reached from one, itself included if there is a way back."""
    found: set[str] = set()
    todo = [start]
    while todo:
        for target in graph[todo.pop()] - found:
            found.add(target)
            todo.append(target)
    return found


def find_fragments(modules: dict[str, Module]) -> dict[str, str]:
    """Modules that one module imports, and that one is a sibling: module -> its only importer."""
    importers: dict[str, set[str]] = defaultdict(set)
    for importer, targets in build_graph(modules, typing=True).items():
        for target in targets:
            importers[target].add(importer)
    return {
        name: only
        for name, found in sorted(importers.items())
        if len(found) == 1
        and not modules[name].is_package
        and (only := next(iter(found))).rpartition(".")[0] == name.rpartition(".")[0]
    }


def find_duplicates(modules: dict[str, Module]) -> dict[str, list[str]]:
    """Public top-level names that more than one module defines."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for name in module.public:
            homes[name].append(module.name)
    return {name: sorted(found) for name, found in sorted(homes.items()) if len(found) > 1}


def count_shape(modules: dict[str, Module]) -> dict[str, int]:
    """Count what may only fall: fragments, duplicate names, and modules in cycles of type-checking imports."""
    knots = find_knots(build_graph(modules, typing=True))
    return {
        "modules with one sibling importer": len(find_fragments(modules)),
        "public names in more than one module": len(find_duplicates(modules)),
        "modules in cycles of type-checking imports": sum(len(knot) for knot in knots),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="list fragments, duplicate names, and cycles")
    options = parser.parse_args()
    modules = read_modules()
    sizes = sorted(module.lines for module in modules.values())
    fragments, duplicates = find_fragments(modules), find_duplicates(modules)
    knots = find_knots(build_graph(modules, typing=True))
    runtime = find_knots(build_graph(modules, typing=False))
    print(
        f"modules {len(modules)}, median {sizes[len(sizes) // 2]} lines, under 80 lines {sum(s < 80 for s in sizes)}, largest {sizes[-1]}"
    )
    print(f"modules with one sibling importer {len(fragments)}")
    print(f"public names in more than one module {len(duplicates)}")
    print(
        f"cycles with type-checking imports: {len(knots)}, of {[len(k) for k in knots]} modules; at run time {len(runtime)}"
    )
    if options.list:
        for name, only in fragments.items():
            print(f"fragment {name} <- {only} ({modules[name].lines} lines)")
        for name, homes in duplicates.items():
            print(f"duplicate {name}: {', '.join(homes)}")
        for knot in knots:
            print("cycle", ", ".join(knot))
    return 0


if __name__ == "__main__":
    sys.exit(main())
