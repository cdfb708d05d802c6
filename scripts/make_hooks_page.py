"""Write docs/hooks.md from the hook classes: `python scripts/make_hooks_page.py`. A test holds the page to the code."""

import inspect
import sys
from pathlib import Path

from mainspring.loop.hooks import HOOKS, Hook

PAGE = Path(__file__).resolve().parent.parent / "docs" / "hooks.md"
HEAD = """# Hooks

Every step of a run can be watched, changed or refused. `agent.on(ToolGate, handler)` or `agent.on("tool:gate", handler)`; a handler is
sync or async, changes the fields of its context or returns a mapping of fields to set; the last writer wins. `Agent(hooks={...})` registers for the
agent's lifetime, `run(hooks={...})` for one run; each entry is a handler or a list of them. What `on` and `agent.hooks.hook` return takes the handler away.

- What an observer raises is logged and the run goes on. A **gate** that raises blocks: it fails closed.
- Handlers are asked in the order of registration; `order=` puts one before (negative) or behind others. Those of a run come behind those of
  the agent. The built-in gates stand behind an application's own: allowed tools, budgets, repeated calls, disclosure. The first gate that
  blocks or pauses ends the round.
- Fields not named as changeable are to be looked at only. A tool hook has `turn_id`, `call_id`, `name`, `display_name` (the name that
  the model knows, where it has an alias) and `input`; counts of calls are read-only and, where calls run together, those from before all of them.
- `await ctx.side_call(purpose, request)` asks a model beside the conversation; it counts in the run's usage and limits, and ends with the run.
- An abort ends a gate at once, and any other handler after the grace that tools get. A **kept** hook reaches every handler even where the run is
  being cancelled, so that what is stored is whole.
- Hooks of MCP servers and skills that fire while an agent gets ready (`mcp:bootstrap:*`, `mcp:connect`, `skills:resolve`, `skills:catalog`) fire once,
  in `warmup()` or the first run. A handler registered after that misses them.
- Nobody listening costs one dictionary look-up.

In a turn they fire in this order: `context:transform`, `system:transform`, `turn:before`, `stream:text`/`stream:thinking`, `stream:end`,
`usage`, `turn:after`; for calls `tool:intent`, then for each `tool:gate`, `tool:unknown` or `validation:*`, `tool:before`, `tool:permit`,
`tool:start`, `tool:error`, `tool:transform`, `tool:after`, and for all of them `tool-results:after`. A run begins with `session:start`
and ends with `session:end` and `agent:done`, on every way out. Before it come `session:open` (once), `input` and `agent:before`; the
conversation ends with `session:shutdown`.

A call that `tool:gate` or `tool:permit` refuses, an unknown tool, and arguments that do not fit end there: `tool:transform` and
`tool:after` do not fire for them. The event `ToolExecutionEnd` and `tool-results:after` come for every call.

This page is made from the code.
"""


def fields(kind: type[Hook]) -> list[str]:
    """The attributes of a context, those of its bases first."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        slots = getattr(base, "__slots__", ())
        names += [n for n in slots if not n.startswith("_") and n not in names and n != "side_call"]
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
        marks = "".join([f" · {word}" for word in ("gate", "kept") if getattr(kind, word)])
        parts.append(f"\n## `{name}`\n\n`{kind.__name__}`{marks}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n")
        parts.append(f"\nFires: {kind.when[:1].lower()}{kind.when[1:]}\n")
        mutable = f" May be changed: {', '.join(f'`{f}`' for f in kind.mutable)}." if kind.mutable else ""
        parts.append(f"\nFields: {', '.join(f'`{f}`' for f in fields(kind))}.{mutable}")
        if calls := methods(kind):
            parts.append(f" Methods: {', '.join(f'`{c}()`' for c in calls)}.")
        parts.append("\n")
    return "".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
