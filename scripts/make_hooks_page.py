"""Write docs/hooks.md from the classes of hooks and events: `python scripts/make_hooks_page.py`. A test compares the page with the code."""

import inspect
import sys
from pathlib import Path

from mainspring.events import Event
from mainspring.loop.hooks import ALIASES, HOOK_NAMES, HOOKS, Hook, Target

PAGE = Path(__file__).resolve().parent.parent / "docs" / "hooks.md"
HEAD = """# Hooks

A hook lets you observe, change, or block one step of a run. Register a handler with `agent.on(ToolGate, handler)` or
`agent.on("tool:gate", handler)`. A handler is sync or async. It changes the fields of its context or returns a mapping of fields to set; the last
writer wins. `Agent(hooks={...})` registers handlers for the lifetime of the agent, `run(hooks={...})` for one run; each entry is a handler or a list of
them. `on` and `agent.hooks.hook` return a function that removes the handler. [Extension points](extension-points.md) compares hooks with plugins,
callbacks, and extensions.

- Some names are those of an [event](events.md), or of a hook in some cases only, for example of an MCP server's tools. A handler of an event gets the event, which
  cannot be changed; `agent.on(TextDelta, handler)` works like `agent.on("stream:text", handler)`. `on(..., subagents=True)` handles the hooks and events
  of subagents in place of the agent's own: a hook has `child_id`, `child`, and `depth`, and an event arrives as `SubagentEvent(path, event)`.
- An exception of a handler is logged, and the run continues. If a handler of a **gate** raises, the gate blocks: it fails closed.
- Handlers run in the order of registration; `order=` runs one before (negative) or after others. Handlers of a run follow those of
  the agent. The built-in gates run after an application's own: allowed tools, budgets, repeated calls, tool search. The first gate that
  blocks or pauses ends the check.
- Change only the fields that are listed as changeable. A tool hook has `turn_id`, `call_id`, `name`, `display_name` (the name that
  the model knows, if the tool has an alias), and `input`. Counts of calls are read-only and those of the run before the call; for calls that run in
  parallel, before all of them. They include a result that a gate provides, but not a call that it blocks.
- `await ctx.side_call(purpose, request)` of a hook calls a model outside the conversation; `agent.side_call` does the same. The call counts in the
  usage and limits of the run, and ends with it.
- An abort ends a gate immediately, and any other handler after the grace period of tools. A hook marked **must finish** reaches every handler even if the run is
  being cancelled, so that stored data is complete.
- Hooks of MCP servers and skills that fire during warm-up (`mcp:bootstrap:*`, `mcp:connect`, `skills:resolve`, `skills:catalog`) fire once,
  in `warmup()` or the first run. A handler registered after that misses them.
- A hook or an event without handlers costs one dictionary lookup.

In a turn they fire in this order: `context:transform`, `system:transform`, `turn:before`, `stream:text`/`stream:thinking`, `stream:end`,
`usage`, `turn:after`; for calls `tool:intent`, then for each `tool:gate`, `tool:unknown` or `validation:*`, `tool:before`, `tool:permit`,
`tool:start`, `tool:error`, `tool:transform`, `tool:after`, and for all of them `tool-results:after`. For a tool of an MCP server, `mcp:tool:gate` and
`mcp:tool:before` follow `tool:before`, and `mcp:tool:transform` and `mcp:tool:after` precede `tool:transform`. A run begins with `session:start`
and ends with `session:end` and `agent:done`, however it ends. Before it come `session:open` (once), `input`, and `agent:before`; the
conversation ends with `session:shutdown`. [Architecture](architecture.md#one-turn) shows the functions that fire them.

A call that `tool:gate` or `tool:permit` blocks, an unknown tool, and invalid arguments end there: `tool:transform` and
`tool:after` do not fire for them. The event `ToolExecutionEnd` and `tool-results:after` follow every call.

This page is generated from the code.
"""


def fields(kind: type[Hook]) -> list[str]:
    """Return the attributes of a context, those of its bases first, without those of every hook."""
    names: list[str] = []
    for base in [each for each in reversed(kind.__mro__) if each is not Hook]:
        slots = getattr(base, "__slots__", ())
        names += [n for n in slots if not n.startswith("_") and n not in names and n not in {"side_call", "subagent"}]
        names += [n for n, v in vars(base).items() if isinstance(v, property) and n not in {"is_decided", *names}]
    return names


def methods(kind: type[Hook] | type[Event]) -> list[str]:
    """What a handler may call."""
    found: list[str] = []
    for base in kind.__mro__:
        for name, value in vars(base).items():
            if (
                inspect.isfunction(value)
                and not name.startswith("_")
                and name != "block_on_error"
                and name not in found
            ):
                found.append(name)
    return found


def hook_section(kind: type[Hook]) -> str:
    """Return the marks, the meaning, the time, and the fields of a hook."""
    marks = "".join([f" · {word.replace('_', ' ')}" for word in ("gate", "must_finish") if getattr(kind, word)])
    mutable = f" Changeable: {', '.join(f'`{f}`' for f in kind.mutable)}." if kind.mutable else ""
    calls = f" Methods: {', '.join(f'`{c}()`' for c in found)}." if (found := methods(kind)) else ""
    meaning = inspect.cleandoc(kind.__doc__ or "").replace("``", "`")
    names = ", ".join(f"`{f}`" for f in fields(kind))
    return f"`{kind.__name__}`{marks}\n\n{meaning}\n\nFires: {lower(kind.when)}\n\nFields: {names}.{mutable}{calls}\n"


def alias_section(target: Target) -> str:
    """Return what a further name of a hook or an event selects, and the time."""
    kind = target.kind
    if issubclass(kind, Event):
        what = f"The event [`{kind.__name__}`](events.md#{kind.__name__.lower()})"
        whose = " of a subagent, in a `SubagentEvent`" if target.subagents else ""
    else:
        what = f"The hook [`{kind.event}`](#{kind.event.replace(':', '')}), `{kind.__name__}`"
        whose = " of a subagent" if target.subagents else ""
    return f"{what}{whose}.\n\nFires: {lower(target.when)}\n"


def lower(text: str) -> str:
    """Return the text with a small first letter."""
    return text[:1].lower() + text[1:]


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for name in HOOK_NAMES:
        section = alias_section(ALIASES[name]) if name in ALIASES else hook_section(HOOKS[name])
        parts.append(f"\n## `{name}`\n\n{section}")
    return "".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
