"""Write the pages of the API reference: the names of every public package. The site generator adds their docstrings.

`python scripts/make_reference.py FOLDER` writes one page per package and an index into the folder. Without a folder, it writes
docs/python-api.md, the list of all public names; a test compares that page with the code.
"""

import ast
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

PACKAGES = {
    "mainspring": "The names that most programs need.",
    "mainspring.models": "Models: create and call them, credentials, retries, recordings.",
    "mainspring.models.auth": "Credentials beyond API keys: expiring tokens, logins, external secrets.",
    "mainspring.models.providers.codex": "The login and the model of a ChatGPT account.",
    "mainspring.tools": "Tools: definitions, contexts, results.",
    "mainspring.tools.builtin": "The built-in tools.",
    "mainspring.env": "Environments of tools: this machine, memory, containers, sandboxes.",
    "mainspring.messages": "Messages, content blocks, usage.",
    "mainspring.events": "Events of model streams and runs.",
    "mainspring.loop": "The loop, the core agent, run options, plugins, and steps.",
    "mainspring.loop.hooks": "The contexts of every hook, and the bus that calls handlers.",
    "mainspring.callbacks": "Callbacks: plain functions that are notified of an agent's actions.",
    "mainspring.permissions": "Permissions: rules, grants, decisions.",
    "mainspring.policies": "Policies: audit log, guardrails, plan mode, rate limits, tool search, large results.",
    "mainspring.policies.compaction": "Compaction of long conversations.",
    "mainspring.policies.budgets": "Limits of cost, tokens, turns, and time.",
    "mainspring.policies.structured": "Structured output.",
    "mainspring.sessions": "Sessions: conversations on disk.",
    "mainspring.sessions.rewind": "Rewind a conversation and the files that tools changed.",
    "mainspring.memory": "Memory across conversations.",
    "mainspring.subagents": "Subagents: agents that an agent starts.",
    "mainspring.skills": "Skills: instructions that are loaded when they are needed.",
    "mainspring.mcp": "Clients of the Model Context Protocol.",
    "mainspring.telemetry": "Traces and metrics.",
    "mainspring.extensions": "Extensions and command hooks.",
    "mainspring.presets": "Options of agents to share.",
    "mainspring.durable": "Runs that survive their process.",
    "mainspring.app": "Parts of the command that programs use, too.",
    "mainspring.app.chat": "The chat engine under every front end.",
    "mainspring.app.servers.ag_ui": "Events for web clients: UI messages of the Vercel AI SDK.",
    "mainspring.testing": "Scripted models, recordings, and fixtures for tests.",
    "mainspring.testing.contracts": "Tests that every implementation of a protocol must pass.",
    "mainspring.errors": "Every exception that Mainspring raises.",
}
"""Every package with a public API, and its purpose."""


SURFACE = Path(__file__).resolve().parent.parent / "docs" / "python-api.md"


def find_public_names(package: str) -> list[str]:
    """Return the names that a package exports, or that a module defines without a leading underscore."""
    module = import_module(package)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    return sorted(n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name[0] != "_")


def has_package(package: str) -> bool:
    """Return True if the package or module exists."""
    root = Path(str(import_module("mainspring").__file__)).parent
    place = root.joinpath(*package.split(".")[1:])
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def build_page(package: str) -> str:
    """Return the text of a page."""
    parts = [f"# {package}", "", PACKAGES[package], ""]
    for name in find_public_names(package):
        parts += [f"::: {find_definition(package, name)}", ""]
    return "\n".join(parts)


def find_definition(package: str, name: str) -> str:
    """Return the full name where a name is defined, since the generator does not follow lazy imports."""
    value = getattr(import_module(package), name)
    module = getattr(value, "__module__", None) or ""
    defined = (
        module.startswith("mainspring.") and getattr(value, "__name__", "") == name and hasattr(value, "__qualname__")
    )
    return f"{module}.{name}" if defined else f"{_find_source(package, name)}.{name}"


def _find_source(package: str, name: str) -> str:
    """Return the module from which a package imports a constant or a type alias."""
    tree = ast.parse(Path(str(import_module(package).__file__)).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and any((a.asname or a.name) == name for a in node.names):
            return _find_source(node.module, name) if node.module.startswith("mainspring") else node.module
    return package


def describe(package: str, name: str) -> str:
    """Return the first sentence of a name's docstring; for a constant or a type, its value."""
    value = getattr(import_module(package), name)
    if isinstance(value, type) or callable(value):
        text = inspect.getdoc(value) or ""
        if text and text != inspect.getdoc(type(value)):
            return re.split(r"(?<=[.]) |\n", text)[0]
    return f"Constant or type of `{find_definition(package, name).rpartition('.')[0]}`."


def build_surface() -> str:
    """Return the page that lists all public names, each with its purpose."""
    lines = [
        "# Public Python API",
        "",
        "The names on this page are stable: a minor version before 1.0, and a major version afterwards, may change them and describes how to",
        "adapt. `dir()` of each module shows the same names. Everything else is internal. `python scripts/make_reference.py` writes this page.",
        "",
    ]
    for package in filter(has_package, PACKAGES):
        lines += [f"## {package}", "", PACKAGES[package], "", "| Name | |", "|---|---|"]
        for name in find_public_names(package):
            text = describe(package, name).replace("|", "\\|")
            lines.append(f"| `{name}` | {text} |")
        lines.append("")
    return "\n".join(lines)


def main(folder: Path) -> None:
    """Write the pages of all packages, and an index."""
    folder.mkdir(parents=True, exist_ok=True)
    there = [p for p in PACKAGES if has_package(p)]
    for package in there:
        (folder / f"{package}.md").write_text(build_page(package), encoding="utf-8")
    lines = [f"- [`{p}`]({p}.md): {PACKAGES[p]}" for p in there]
    (folder / "index.md").write_text("# Python API\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        SURFACE.write_text(build_surface(), encoding="utf-8")
