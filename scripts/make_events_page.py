"""Write docs/events.md from the event structs: `python -m scripts.make_events_page`. A test compares the page with the code."""

import inspect
import re
import sys
from pathlib import Path
from typing import Any, get_args

import docstring_parser
from msgspec import NODEFAULT, Struct, structs

from mainspring.events import EditOutcome, Envelope, ErrorInfo, FileDiff, Hunk, Option, RunEvent, ToolDisplay
from mainspring.events.base import AgentStats, RunStatus, SubagentStats
from mainspring.events.types import MessageSource

PAGE = Path(__file__).resolve().parent.parent / "docs" / "events.md"
VALUES = {"RunStatus": RunStatus, "MessageSource": MessageSource}
PARTS = (ErrorInfo, AgentStats, SubagentStats, ToolDisplay, FileDiff, Hunk, EditOutcome, Option, Envelope)
HEAD = """# Events

An event is a fact about a run: immutable, and JSON outside of the process. The library, `--output stream-json`, the RPC protocol, the HTTP service,
the feed of a durable run, the chat, and logs use the same events, under the same names. AG-UI, ACP, and OpenTelemetry have formats of
their own, which are computed from these events. Events cannot change a run; [hooks](hooks.md) can.

```python async
from mainspring import Agent, TextDelta, ToolExecutionEnd, tool
from mainspring.events import UsageUpdate
from mainspring.events import decode, encode
from mainspring.testing import MemoryEnv, ScriptedCall, ScriptedModel

@tool
async def forecast(city: str) -> str:
    \"\"\"Forecast for a city.\"\"\"
    return f"{city}: rain"

agent = Agent(ScriptedModel(ScriptedCall("forecast", {"city": "Oslo"}), "Take an umbrella."), tools=[forecast], execution=MemoryEnv({}))
agent.on(UsageUpdate, lambda event: print(event.total.total_tokens, "tokens so far"))
async with agent.stream("What should I pack for Oslo?") as run:
    async for event in run:
        match event:
            case TextDelta(text=text):
                print(text, end="")
            case ToolExecutionEnd(call=call, status=status):
                print(call.name, status)                       # forecast ok
                assert decode(encode(event)).call == call      # JSON and back
            case _:
                pass
```

`agent.subscribe(listener)` calls a function for every event, `agent.on(UsageUpdate, handler)` for the events of one class. A handler may be async;
the run waits for it. `agent.on(ToolExecutionEnd, handler, subagents=True)` gets those of subagents.

In JSON an event is an object with its `type` and its fields; a field that has its default is left out.
`mainspring.events.codec` has `encode(event)`, `decode(data)`, and `schema(union)`, which creates the published schemas:
[stream-json.schema.json](stream-json.schema.json), [rpc.schema.json](rpc.schema.json), and [openapi.json](openapi.json). An added event or field
does not change the version of a format; another name, type, or meaning does.

A run begins with `AgentStart` and ends with `AgentEnd`. Each turn has `TurnStart`, `MessageStart`, the deltas of the response,
`MessageEnd`, `ToolExecutionStart` to `ToolExecutionEnd` for each call, and `TurnEnd`.

This page is generated from the code.

| `type` | class | meaning |
|---|---|---|
"""


def events() -> list[type[Struct]]:
    """Return the classes of all events, in the order of the union."""
    return list(get_args(RunEvent))


def code(text: str) -> str:
    """Return the text with code in single backticks."""
    return text.replace("``", "`")


def section(kind: type[Any]) -> str:
    """Return the description of a struct: its heading, its meaning, and its fields."""
    doc = docstring_parser.parse(inspect.cleandoc(kind.__doc__ or ""))
    meanings = {each.arg_name: each.description or "" for each in doc.params}
    meaning = "\n\n".join(filter(None, (doc.short_description, doc.long_description)))
    tag = kind.__struct_config__.tag
    parts = [f"\n### {kind.__name__}\n", f"\n`{tag}`\n" if tag else "", f"\n{code(meaning)}\n\n"]
    in_process = getattr(kind, "in_process", ())
    types = annotations(kind)
    for field in structs.fields(kind):
        if field.name in in_process:
            continue
        is_required = field.default is NODEFAULT and field.default_factory is NODEFAULT
        line = f"- `{field.name}`: `{types[field.name]}`{', required' if is_required else ''}"
        description = " ".join(meanings.get(field.name, "").split())
        parts.append(f"{line}. {code(description)}".rstrip(". ") + ".\n")
    return "".join(parts)


def annotations(kind: type[Any]) -> dict[str, str]:
    """Return the annotations of a struct and its bases as they are in the source."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found |= {name: str(text) for name, text in vars(base).get("__annotations__", {}).items()}
    return found


def page() -> str:
    """Return the whole page."""
    rows = [
        f"| `{k.__struct_config__.tag}` | [`{k.__name__}`](#{k.__name__.lower()}) | {summary(k)} |\n" for k in events()
    ]
    return "".join(
        [
            HEAD,
            *rows,
            "\n## Each event\n",
            *[section(kind) for kind in events()],
            "\n## Parts of events\n",
            *[section(kind) for kind in PARTS],
            "\n### Values\n\n",
            *[
                f"- `{name}`: {', '.join(f'`{value}`' for value in get_args(union))}.\n"
                for name, union in VALUES.items()
            ],
        ]
    )


def summary(kind: type[Any]) -> str:
    """Return the first sentence of the docstring, for a table."""
    text = docstring_parser.parse(inspect.cleandoc(kind.__doc__ or "")).short_description or ""
    return code(re.split(r"(?<=\.)\s", text)[0]).replace("|", "\\|")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
