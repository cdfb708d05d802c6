"""Write docs/hooks.md from the hook classes: `python scripts/hooks_page.py`. A test holds the page to the code."""

import inspect
import sys
from pathlib import Path

from mainspring.events import HOOKS, Hook

PAGE = Path(__file__).resolve().parent.parent / "docs" / "hooks.md"
HEAD = """# Hooks

Every step of a run can be watched, changed or refused. `agent.on(ToolGate, handler)` or `agent.on("tool:gate", handler)`; a handler is
sync or async, changes the fields of its context or returns a mapping of fields to set; the last writer wins.

- What an observer raises is logged and the run goes on. A **gate** that raises blocks: it fails closed.
- Handlers are asked in the order of registration; `order=` puts one before (negative) or behind others.
- Nobody listening costs one dictionary look-up.

In a turn they fire in this order: `context:transform`, `system:transform`, `turn:before`, `stream:text`/`stream:thinking`, `stream:end`,
`usage`, `turn:after`; for calls `tool:intent`, then for each `tool:gate`, `tool:unknown` or `validation:*`, `tool:before`, `tool:permit`,
`tool:start`, `tool:error`, `tool:transform`, `tool:after`, and for all of them `tool-results:after`. A run begins with `session:start`
and ends with `session:end` and `agent:done`, on every way out.

A call that `tool:gate` or `tool:permit` refuses, an unknown tool, and arguments that do not fit end there: `tool:transform` and
`tool:after` do not fire for them. The event `ToolExecutionEnd` and `tool-results:after` come for every call.

This page is made from the code.
"""


def fields(kind: type[Hook]) -> list[str]:
    """The attributes of a context, those of its bases first."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        names += [n for n in getattr(base, "__slots__", ()) if not n.startswith("_") and n not in names]
        names += [n for n, v in vars(base).items() if isinstance(v, property) and n not in {"settled", *names}]
    return names


def methods(kind: type[Hook]) -> list[str]:
    """What a handler may call."""
    found: list[str] = []
    for base in kind.__mro__:
        for name, value in vars(base).items():
            if inspect.isfunction(value) and not name.startswith("_") and name != "fail_closed" and name not in found:
                found.append(name)
    return found


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, kind in HOOKS.items():
        parts.append(
            f"\n## `{name}`\n\n`{kind.__name__}`{' · gate' if kind.gate else ''}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n"
        )
        parts.append(f"\nFields: {', '.join(f'`{f}`' for f in fields(kind))}.")
        if calls := methods(kind):
            parts.append(f" Methods: {', '.join(f'`{c}()`' for c in calls)}.")
        parts.append("\n")
    return "".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
