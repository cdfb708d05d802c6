"""A project in memory, and decisions about tool calls in it."""

from collections.abc import Iterable, Mapping
from typing import Any

from mainspring.env.memory import MemoryEnv
from mainspring.permissions import PermissionDecision, Permissions
from mainspring.tools import Tool
from mainspring.tools.builtin import builtin_tools

TOOLS: dict[str, Tool] = {t.name: t for t in builtin_tools()}

FILES = {
    "README.md": "hello",
    "notes.txt": "notes",
    "src/app.py": "print()",
    "src/deep/er.py": "print()",
    "other/src/x.py": "print()",
    "docs/a.md": "a",
    ".env": "KEY=1",
    "config/credentials.json": "{}",
    "build/out.o": "",
}
LINKS = {"escape": "/etc", "passwd": "/etc/passwd", "inner": "src", "hidden": ".env"}


def project(**options: Any) -> MemoryEnv:
    """Return the in-memory environment of the tests."""
    return MemoryEnv(FILES, links=LINKS, **options)


async def decide_call(
    tool: str,
    arguments: Mapping[str, Any],
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
    **options: Any,
) -> PermissionDecision:
    """Return the decision about a call of a built-in tool."""
    original = options.pop("original", None)
    definition = options.pop("definition", TOOLS.get(tool))
    advise = options.pop("advise", False)
    permissions = Permissions(allow=allow, ask=ask, deny=deny, **options)
    return await permissions.decide(
        tool, arguments, env=project(), definition=definition, original=original, advise=advise
    )


async def shell(line: str, *allow: str, **options: Any) -> PermissionDecision:
    """Return the decision about a command line by rules alone; read-only commands have separate tests."""
    options.setdefault("reads_free", False)
    return await decide_call("shell", {"command": line}, allow=allow, **options)


def make_index(*names: str, mode: int = 0o100644) -> bytes:
    """Return a git index with these files."""
    entries = b""
    for name in names:
        entry = bytes(24) + mode.to_bytes(4, "big") + bytes(32) + len(name).to_bytes(2, "big") + name.encode()
        entries += entry + bytes(8 - len(entry) % 8)
    return b"DIRC" + (2).to_bytes(4, "big") + len(names).to_bytes(4, "big") + entries + bytes(20)
