"""Write the pages of the reference: for every public package its names, each filled in from its docstring when the site is built.

`python scripts/make_reference.py FOLDER` writes one page a package and an index into the folder.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path

PACKAGES = {
    "mainspring": "What most programs need.",
    "mainspring.models": "Models: the port, providers, credentials, retries, recordings.",
    "mainspring.tools": "Tools: what one is, its context and its results.",
    "mainspring.tools.builtin": "The built-in tools.",
    "mainspring.env": "Where tools work: this machine, memory, containers, sandboxes.",
    "mainspring.messages": "Messages, content blocks, usage.",
    "mainspring.events": "Events of a run, and the hooks.",
    "mainspring.loop": "The loop, the core agent, plugs and steps.",
    "mainspring.permissions": "Permissions: rules, grants, decisions.",
    "mainspring.policies.compaction": "Keeping a conversation within its window.",
    "mainspring.policies.budgets": "Limits by money, tokens, turns and time.",
    "mainspring.policies.structured": "Answers that fit a schema.",
    "mainspring.sessions": "Conversations on disk.",
    "mainspring.memory": "What is known from earlier conversations.",
    "mainspring.subagents": "Agents that an agent starts.",
    "mainspring.skills": "Skills: instructions that are loaded when they are needed.",
    "mainspring.mcp": "Tools of other programs, by the Model Context Protocol.",
    "mainspring.telemetry": "Traces and metrics.",
    "mainspring.extensions": "Functions that extend an agent.",
    "mainspring.presets": "Options of agents to share.",
    "mainspring.durable": "Runs that outlive their process.",
    "mainspring.app.chat": "The chat engine that front ends are built on.",
    "mainspring.testing": "Doubles, recordings and fixtures for tests.",
    "mainspring.errors": "The exceptions.",
}
"""Every package with a public face, and what it is."""


def names_of(package: str) -> list[str]:
    """The public names of a package: what it exports, or what a module defines without a leading underscore."""
    module = import_module(package)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    return sorted(n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name[0] != "_")


def is_there(package: str) -> bool:
    """Whether there is such a package yet."""
    root = Path(str(import_module("mainspring").__file__)).parent
    place = root.joinpath(*package.split(".")[1:])
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def page_of(package: str) -> str:
    """The text of a page."""
    parts = [f"# {package}", "", PACKAGES[package], ""]
    for name in names_of(package):
        parts += [f"::: {home_of(package, name)}", ""]
    return "\n".join(parts)


def home_of(package: str, name: str) -> str:
    """Where a name is defined: what reads the sources does not follow a package that imports on use."""
    value = getattr(import_module(package), name)
    module = getattr(value, "__module__", None) or ""
    defined = (
        module.startswith("mainspring.") and getattr(value, "__name__", "") == name and hasattr(value, "__qualname__")
    )
    return f"{module}.{name}" if defined else f"{_source(package, name)}.{name}"


def _source(package: str, name: str) -> str:
    """The module that a package takes a constant or an alias of a type from."""
    tree = ast.parse(Path(str(import_module(package).__file__)).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and any((a.asname or a.name) == name for a in node.names):
            return _source(node.module, name) if node.module.startswith("mainspring") else node.module
    return package


def main(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    there = [p for p in PACKAGES if is_there(p)]
    for package in there:
        (folder / f"{package}.md").write_text(page_of(package), encoding="utf-8")
    lines = [f"- [`{p}`]({p}.md): {PACKAGES[p]}" for p in there]
    (folder / "index.md").write_text("# Reference\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
