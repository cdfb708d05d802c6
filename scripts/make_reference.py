"""Write the pages of the API reference: the names of every public package. The site generator adds their docstrings.

`python -m scripts.make_reference FOLDER` writes one page per package and an index into the folder. Without a folder, it writes
docs/python-api.md, the list of all public names, and docs/python-api/, their signatures; a test compares these pages with the code.
"""

import ast
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

from scripts.signatures import build_entry, description, first_sentence

ROOT = Path(__file__).resolve().parent.parent

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
"""Every module with a public API, and its purpose."""


PAGES = {
    "agents": ("Agents", ["mainspring", "mainspring.callbacks", "mainspring.subagents", "mainspring.presets"]),
    "models": ("Models", ["mainspring.models", "mainspring.models.auth", "mainspring.models.providers.codex"]),
    "tools": ("Tools", ["mainspring.tools", "mainspring.tools.builtin", "mainspring.env"]),
    "mcp-skills": ("MCP and skills", ["mainspring.mcp", "mainspring.skills"]),
    "messages-events": ("Messages and events", ["mainspring.messages", "mainspring.events"]),
    "loop": ("Loop and hooks", ["mainspring.loop", "mainspring.loop.hooks"]),
    "policies": (
        "Permissions and policies",
        [
            "mainspring.permissions",
            "mainspring.policies",
            "mainspring.policies.compaction",
            "mainspring.policies.budgets",
            "mainspring.policies.structured",
        ],
    ),
    "sessions": ("Sessions and memory", ["mainspring.sessions", "mainspring.sessions.rewind", "mainspring.memory"]),
    "extensions": ("Extensions", ["mainspring.extensions"]),
    "operation": ("Durable runs and telemetry", ["mainspring.durable", "mainspring.telemetry"]),
    "app": ("Front ends", ["mainspring.app", "mainspring.app.chat", "mainspring.app.servers.ag_ui"]),
    "testing-errors": (
        "Testing and errors",
        ["mainspring.testing", "mainspring.testing.contracts", "mainspring.errors"],
    ),
}
"""The pages with signatures: title and modules."""


SURFACE = Path(__file__).resolve().parent.parent / "docs" / "python-api.md"


@cache
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


@cache
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


@cache
def describe(package: str, name: str) -> str:
    """Return the first sentence of the description of a name."""
    definition = find_definition(package, name)
    return first_sentence(description(definition, getattr(import_module(package), name)))


@cache
def find_home(name: str) -> str:
    """Return the module to import a name from: that of its definition, if it exports the name, else the first one that does."""
    exporting = [package for package in PACKAGES if name in find_public_names(package)]
    definition = find_definition(exporting[0], name)
    near = [p for p in exporting if definition.startswith(f"{p}.") and p != "mainspring"]
    return max(near, key=len) if near else next((p for p in exporting if p != "mainspring"), exporting[0])


def build_surface() -> str:
    """Return the page that lists all public names, each with its module and its purpose."""
    lines = [
        "# Python API",
        "",
        "The names on this page are stable: a minor version before 1.0, and a major version afterwards, may change them and describes how to",
        "adapt. `dir()` of each module shows the same names. Everything else is internal. The examples of this documentation import from these",
        "modules only. `python -m scripts.make_reference` writes this page, and those with the signatures.",
        "",
        "Import a name from `mainspring` if it is there, else from the module of its list.",
        "",
    ]
    for page, (title, packages) in PAGES.items():
        links = ", ".join([f"`{package}`" for package in packages])
        lines.append(f"- [{title}](python-api/{page}.md): {links}")
    lines.append("")
    for package in PACKAGES:
        lines += [f"## {package}", "", PACKAGES[package], "", "| Name | |", "|---|---|"]
        for name in find_public_names(package):
            text = describe(package, name).replace("|", "\\|")
            lines.append(f"| [`{name}`](python-api/{page_of(find_home(name))}.md#{name.lower()}) | {text} |")
        lines.append("")
    return "\n".join(lines)


def page_of(package: str) -> str:
    """Return the page of a module."""
    return next(page for page, (_, packages) in PAGES.items() if package in packages)


def build_signatures(page: str) -> str:
    """Return a page with the signatures of the names of some modules. A name is on one page only."""
    title, packages = PAGES[page]
    lines = [
        f"# Python API: {title}",
        "",
        "[All names](../python-api.md). `python -m scripts.make_reference` writes this page.",
        "",
    ]
    for package in packages:
        names = [name for name in find_public_names(package) if find_home(name) == package]
        others = [name for name in find_public_names(package) if find_home(name) != package]
        lines += [f"## {package}", "", PACKAGES[package], ""]
        for name in names:
            lines += build_entry(name, find_definition(package, name), getattr(import_module(package), name))
        links = [
            f"[`{name}`]({'' if page_of(find_home(name)) == page else page_of(find_home(name)) + '.md'}#{name.lower()})"
            for name in others
        ]
        lines += [f"Also here: {', '.join(links)}.", ""] if links else []
    return "\n".join(lines)


def write_surface() -> None:
    """Write docs/python-api.md, and the pages with signatures."""
    SURFACE.write_text(build_surface(), encoding="utf-8")
    folder = SURFACE.with_suffix("")
    folder.mkdir(exist_ok=True)
    for page in PAGES:
        (folder / f"{page}.md").write_text(build_signatures(page), encoding="utf-8")


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
        write_surface()
