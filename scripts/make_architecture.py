"""Draw the diagrams of docs/architecture.md from the code: `python -m scripts.make_architecture [--check]`.

The layers come from the import contracts in pyproject.toml, one turn from a recorded run, the way of an event from the listeners and
imports in the source. Each diagram is an SVG image and a text block between two markers of the page. The tables of packages have their
importers from the code, and the table of protocols their implementations. A test compares all of them with the code.
"""

import ast
import asyncio
import inspect
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from mainspring import HookBus, LoopConfig, LoopContext, ToolRegistry, agent_loop, tool
from mainspring.env.memory import MemoryEnv
from mainspring.loop.hooks import HOOK_NAMES, Hook, resolve
from mainspring.models import ModelRequest
from mainspring.testing import Reply, ScriptedCall, ScriptedModel
from scripts.structure import build_graph, read_modules

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
IMAGES = ROOT / "docs" / "images"
SOURCE = ROOT / "src" / "mainspring"
WIDTH = 760

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 } .small { font-size: 11px; fill: #59636e } .code { font: 12px ui-monospace, monospace }
.page { fill: #ffffff; stroke: #d1d9e0 } .box { fill: #f6f8fa; stroke: #8c959f } .group { fill: none; stroke: #8c959f; stroke-dasharray: 4 3 }
.hook { fill: #fff8c5; stroke: #d4a72c } .event { fill: #ddf4ff; stroke: #54aeff } .call { fill: #dafbe1; stroke: #4ac26b }
.line { stroke: #59636e; fill: none } .arrow { fill: #59636e }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .small { fill: #9198a1 }
  .page { fill: #0d1117; stroke: #3d444d } .box { fill: #151b23; stroke: #656c76 } .group { stroke: #656c76 }
  .hook { fill: #3b2d05; stroke: #9e6a03 } .event { fill: #0c2d52; stroke: #1f6feb } .call { fill: #12361d; stroke: #238636 }
  .line { stroke: #9198a1 } .arrow { fill: #9198a1 }
}
"""


class Drawing:
    """Collects shapes and returns them as an SVG document."""

    def __init__(self) -> None:
        self.shapes: list[str] = []
        self.height = 0.0

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        self.shapes.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>')
        self.height = max(self.height, y + height)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> None:
        self.shapes.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')
        self.height = max(self.height, y + 4)

    def label(self, x: float, y: float, width: float, height: float, text: str, kind: str = "box") -> None:
        self.box(x, y, width, height, kind)
        self.text(x + width / 2, y + height / 2 + 4, text, "code")

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.shapes.append(f'<line class="line" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')
        if x1 == x2:
            step = 6 if y2 > y1 else -6
            points = f"{x2:g},{y2:g} {x2 - 4:g},{y2 - step:g} {x2 + 4:g},{y2 - step:g}"
        else:
            step = 6 if x2 > x1 else -6
            points = f"{x2:g},{y2:g} {x2 - step:g},{y2 - 4:g} {x2 - step:g},{y2 + 4:g}"
        self.shapes.append(f'<polygon class="arrow" points="{points}"/>')

    def svg(self, title: str) -> str:
        height = self.height + 16
        page = f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">'
        return "\n".join([head, f"<style>{STYLE}</style>", page, *self.shapes, "</svg>"]) + "\n"


def rows_of_boxes(drawing: Drawing, names: Sequence[str], x: float, y: float, width: float) -> float:
    """Draw names as boxes in rows of a given width and return the y below them."""
    left = x
    for name in names:
        size = 7.4 * len(name) + 18
        if left + size > x + width and left > x:
            left, y = x, y + 34
        drawing.label(left, y, size, 26, name)
        left += size + 8
    return y + 34


# --- Layers ------------------------------------------------------------------------------------------------------------


def read_contract(contract: str) -> list[str]:
    """Return the lines of an import contract of layers, top to bottom."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [found] = [entry for entry in settings["contracts"] if entry["id"] == contract]
    return found["layers"]


def read_layers(contract: str) -> list[list[str]]:
    """Return the layers of an import contract, top to bottom, each with its siblings."""
    return [[name.strip() for name in line.replace(":", "|").split("|")] for line in read_contract(contract)]


def draw_layers() -> tuple[str, list[str]]:
    """Return the diagram of the layers and its text."""
    drawing, library, app = Drawing(), read_layers("layers"), read_layers("app-layers")
    related = [line.split(":")[0].strip() for line in read_contract("layers") if ":" in line]
    rule = f"Imports go down only. Packages in a row do not import each other, except in the row of {' and '.join(related)}."
    drawing.text(24, 28, rule, "small", "start")
    y = 40.0
    for names in library:
        below = y + 8
        if "app" in names:
            for siblings in app:
                below = rows_of_boxes(drawing, [f"app.{name}" for name in siblings], 36, below, WIDTH - 220)
            rows_of_boxes(drawing, [name for name in names if name != "app"], WIDTH - 130, y + 8, 100)
        else:
            below = rows_of_boxes(drawing, names, 36, below, WIDTH - 72)
        drawing.box(24, y, WIDTH - 48, below - y, "group")
        y = below + 8
    lines = ["mainspring/"]
    for names in library:
        lines.append(f"  {' | '.join(names)}")
        if "app" in names:
            lines += [
                f"    app: {' | '.join(siblings)}" if siblings is app[0] else f"         {' | '.join(siblings)}"
                for siblings in app
            ]
    return drawing.svg("The layers of Mainspring"), lines


@cache
def find_importers() -> dict[str, dict[str, int]]:
    """Return for each package the packages that import it, also for typing, each with the number of its modules that do."""
    importers: dict[str, dict[str, int]] = {}
    for module, targets in build_graph(read_modules(), typing=True).items():
        for package in {package_of(target) for target in targets} - {package_of(module), ""}:
            found = importers.setdefault(package, {})
            found[package_of(module)] = found.get(package_of(module), 0) + 1
    return importers


def package_of(module: str) -> str:
    """Return the package of a module, as the contracts name it: `loop`, `app.chat`; empty for the root."""
    parts = module.split(".")[1:]
    return ".".join(parts[: 2 if parts[:1] == ["app"] else 1])


def package_table(page: str, packages: Sequence[str]) -> list[str]:
    """Return a table of packages: the purposes from the page, and the importers from the code, the largest first.

    Raises:
        ValueError: If the page does not describe a package.
    """
    rows = ["| package | purpose | imported by |", "|---|---|---|"]
    purposes = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", page, re.MULTILINE))
    for package in packages:
        if package not in purposes:
            raise ValueError(f"{PAGE.name} does not describe the package {package}: add a row with its purpose")
        counts = find_importers().get(package, {})
        names = [
            f"`{name}`"
            for name in sorted(counts, key=lambda name: (-counts[name], name))
            if name not in {"", "__main__"}
        ]
        more = f", and {len(names) - 5} more" if len(names) > 5 else ""
        rows.append(f"| `{package}` | {purposes[package]} | {', '.join(names[:5]) or '-'}{more} |")
    return rows


# --- Protocols ---------------------------------------------------------------------------------------------------------

PROTOCOLS = (
    "SpanSource",
    "NestedSteps",
    "SubagentHost",
    "ActivatesSkills",
    "PreservesMessages",
    "RunGuard",
    "UserInterface",
    "UserInteraction",
    "MessageDraft",
    "PartialRunResult",
)
"""Protocols whose implementation is in another package, which does not have to import them."""


def find_members(node: ast.ClassDef) -> set[str]:
    """Return the public methods and attributes that a class defines."""
    names = {n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    for inner in ast.walk(node):
        match inner:
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                names.add(name)
            case _:
                pass
    return {name for name in names if not name.startswith("_")}


def is_protocol(node: ast.ClassDef) -> bool:
    """Return True if a class is a protocol."""
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


@dataclass(frozen=True)
class Class:
    """A class of the package."""

    module: str
    name: str
    is_protocol: bool
    members: set[str]


@cache
def read_classes() -> tuple[list[Class], dict[str, set[str]]]:
    """Return every class, and the packages that use each name."""
    classes: list[Class] = []
    users: dict[str, set[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes.append(Class(module, node.name, is_protocol(node), find_members(node)))
            elif isinstance(node, ast.Name):
                users.setdefault(node.id, set()).add(package_of(module))
    return classes, users


def protocol_table(names: Sequence[str]) -> list[str]:
    """Return the table of protocols that connect packages, with their implementations and users.

    Raises:
        ValueError: If a protocol does not exist, or no other package implements it.
    """
    classes, users = read_classes()
    rows = ["| protocol | defined in | implemented by | used by |", "|---|---|---|---|"]
    for name in names:
        found = [each for each in classes if each.name == name and each.is_protocol]
        if len(found) != 1:
            raise ValueError(f"{len(found)} protocols are named {name}")
        [protocol] = found
        implementations = [
            f"`{package_of(each.module)}` (`{each.name}`)"
            for each in classes
            if not each.is_protocol
            and package_of(each.module) != package_of(protocol.module)
            and protocol.members <= each.members
        ]
        if not implementations:
            raise ValueError(f"no other package implements {name}")
        path = f"{'/'.join(protocol.module.split('.')[1:])}.py"
        packages = ", ".join(f"`{package}`" for package in sorted(users.get(name, ())))
        rows.append(f"| `{name}` | `{path}` | {', '.join(implementations)} | {packages} |")
    return rows


# --- One turn ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """A hook or event of a recorded run, or a call of the model or a tool, with the functions of the loop that led to it."""

    kind: str  # hook, event, or call
    name: str
    path: tuple[str, ...]


BUS_FUNCTIONS = ("RunState.emit", "RunState.notify", "RunState.await_handlers")


def find_path() -> tuple[str, ...]:
    """Return the functions of the loop on the stack, outermost first, as `module.function`."""
    path: list[str] = []
    frame = inspect.currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        name = frame.f_code.co_qualname.split(".<locals>")[0]
        is_bus = module.startswith("mainspring.loop.hooks") or name in BUS_FUNCTIONS
        if module.startswith("mainspring.loop.") and not is_bus:
            entry = f"{module.removeprefix('mainspring.loop.')}.{name}"
            if entry not in path[-1:]:
                path.append(entry)
        frame = frame.f_back
    return tuple(reversed(path))


def record_run() -> list[Moment]:
    """Record a run of two turns, the first with a tool call: its first turn, and what follows the last."""
    moments: list[Moment] = []
    bus = HookBus()
    for name in HOOK_NAMES:
        if issubclass(resolve(name).kind, Hook):  # events are recorded by their class
            bus.on(name, lambda hook, name=name: moments.append(Moment("hook", name, find_path())))
    bus.subscribe(lambda event: moments.append(Moment("event", type(event).__name__, find_path())))

    def respond(request: ModelRequest) -> Reply:
        moments.append(Moment("call", "model.stream()", find_path()))
        done = any(message.tool_results for message in request.messages)
        return Reply("Done.") if done else Reply("I will look.", calls=[ScriptedCall("look", {"key": "a"})])

    @tool
    async def look(key: str) -> str:
        """Look."""
        moments.append(Moment("call", "tool.execute()", find_path() or moments[-1].path))
        return key

    config = LoopConfig(model=ScriptedModel(respond, respond), env=MemoryEnv({}), bus=bus)
    asyncio.run(agent_loop("Go.", LoopContext(system="Be brief.", tools=ToolRegistry([look])), config))
    names = [moment.name for moment in moments]
    first, last = names.index("TurnEnd"), names.index("session:end")
    return [*moments[: first + 1], *moments[last:]]


def function_of(moment: Moment) -> str:
    """Return the innermost function of a moment."""
    return moment.path[-1]


def group_moments(moments: Iterable[Moment]) -> Iterator[tuple[tuple[str, ...], str, list[str]]]:
    """Join neighbors of the same function and kind."""
    path: tuple[str, ...] = ()
    kind, names = "", list[str]()
    for moment in moments:
        if (moment.path, moment.kind) != (path, kind):
            if names:
                yield path, kind, names
            path, kind, names = moment.path, moment.kind, []
        if moment.name not in names:
            names.append(moment.name)
    if names:
        yield path, kind, names


def draw_turn() -> tuple[str, list[str]]:
    """Return the diagram of one turn and its text, an outline of functions with their hooks, events, and calls."""
    moments = record_run()
    lines: list[str] = []
    shown: tuple[str, ...] = ()
    for path, kind, names in group_moments(moments):
        common = next(
            (i for i, (a, b) in enumerate(zip(path, shown, strict=False)) if a != b), min(len(path), len(shown))
        )
        lines += ["  " * depth + f"{path[depth]}()" for depth in range(common, len(path))]
        shown = path
        text = ", ".join(names)
        lines.append(
            "  " * len(path) + {"hook": f"hook   {text}", "event": f"event  {text}", "call": f"calls  {text}"}[kind]
        )
    modules = list(dict.fromkeys(function_of(moment).split(".")[0] for moment in moments))
    return draw_lanes(moments, modules), lines


def draw_lanes(moments: Sequence[Moment], modules: Sequence[str]) -> str:
    """Draw the moments from top to bottom, one column per module."""
    drawing = Drawing()
    columns = [*modules]
    step = (WIDTH - 48) / len(columns)
    x_of = {name: 24 + step * i for i, name in enumerate(columns)}
    for name in columns:
        drawing.label(x_of[name] + 8, 20, step - 16, 28, f"loop/{name}.py")
    y = 62.0
    previous = ""
    for path, kind, names in group_moments(moments):
        function = path[-1]
        module, name = function.split(".")[0], function.split(".")[-1]
        x = x_of[module] + 8
        if function != previous:
            if previous and previous.split(".")[0] != module:
                start = x_of[previous.split(".")[0]] + step / 2
                drawing.arrow(start, y + 6, x_of[module] + (8 if start < x else step - 8), y + 6)
            drawing.text(x, y + 10, f"{name}()", "title", "start")
            y += 16
            previous = function
        for line in wrap(names, int((step - 24) / 7.3)):
            drawing.box(x, y, step - 16, 20, kind)
            drawing.text(x + 8, y + 14, line, "code", "start")
            y += 22
        y += 6
    for i, (kind, text) in enumerate((("hook", "hook"), ("event", "event"), ("call", "model or tool call"))):
        drawing.box(24 + 150 * i, y + 6, 14, 14, kind)
        drawing.text(44 + 150 * i, y + 17, text, "small", "start")
    return drawing.svg("One turn of a run")


def wrap(names: Sequence[str], width: int) -> list[str]:
    """Join names into lines of at most `width` characters."""
    lines = [""]
    for name in names:
        joined = f"{lines[-1]}, {name}" if lines[-1] else name
        if len(joined) > width and lines[-1]:
            lines.append(name)
        else:
            lines[-1] = joined
    return lines


# --- The way of an event -----------------------------------------------------------------------------------------------


@cache
def parse_source() -> dict[str, ast.Module]:
    """Return the syntax tree of every module that may listen to events or read them, by its path below src/mainspring."""
    trees: dict[str, ast.Module] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"\.(?:observe|subscribe|on)\(|from mainspring\.(?:app\.chat\.events|durable\.feed) import", text):
            trees[path.relative_to(SOURCE).as_posix()] = ast.parse(text)
    return trees


def find_listeners(trees: dict[str, ast.Module]) -> list[str]:
    """Return the modules that register a listener of all events, or of the start or the end of runs."""
    listeners: dict[str, None] = {}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(attr="observe" | "subscribe"), args=[_]) if "loop/hooks/" not in name:
                    listeners[name] = None
                case ast.Call(func=ast.Attribute(attr="on"), args=[ast.Name(id="AgentStart" | "AgentEnd"), *_]):
                    listeners[name] = None
                case _:
                    pass
    return list(listeners)


def find_readers(trees: dict[str, ast.Module], module: str) -> list[str]:
    """Return the packages outside of its own that import a module of events."""
    own = "/".join(module.split(".")[1:-1])
    readers: set[str] = set()
    for name, tree in trees.items():
        imported = any(isinstance(node, ast.ImportFrom) and node.module == module for node in ast.walk(tree))
        if imported and not name.startswith(f"{own}/"):
            parts = name.split("/")
            readers.add("/".join(parts[:3] if parts[:2] == ["app", "servers"] else parts[:2]))
    return sorted(readers)


NOTES = {
    "app/chat/message_queue": "queued messages that joined",
    "app/chat/runs": "denied calls of a run",
    "callbacks/": "the callbacks of an application",
    "loop/agent": "agent.subscribe(fn)",
    "loop/result": "agent.stream(): the queue to iterate",
    "policies/audit_log": "the audit log",
    "sessions/": "the event log of a session",
    "telemetry/": "spans, metrics, and events of OpenTelemetry",
}
"""The purpose of a listener, by the beginning of its path."""


def draw_events() -> tuple[str, list[str]]:
    """Return the diagram of the way of an event and its text."""
    trees = parse_source()
    chat, feed = find_readers(trees, "mainspring.app.chat.events"), find_readers(trees, "mainspring.durable.feed")
    drawing = Drawing()
    stages = ["model host", "models/wire", "StreamEvent", "loop", "HookBus.publish"]
    step = (WIDTH - 48) / len(stages)
    for i, text in enumerate(stages):
        drawing.label(24 + step * i, 24, step - 18, 30, text, "event" if text == "StreamEvent" else "box")
        if i:
            drawing.arrow(24 + step * i - 18, 39, 24 + step * i, 39)
    for x, text in (
        (24, "listeners of every event"),
        (290, "purpose, or events of their own"),
        (470, "packages that read these"),
    ):
        drawing.text(x, 84, text, "small", "start")
    y, lines, shown = 94.0, [f"{' -> '.join(stages)} -> listeners:"], set[str]()
    for name in find_listeners(trees):
        drawing.label(24, y, 230, 26, name)
        drawing.arrow(254, y + 13, 290, y + 13)
        label, readers = "", []
        if name.startswith("app/chat/event_views"):
            label, readers = "chat events", chat
        elif name.startswith("durable/"):
            label, readers = "feed", feed
        if label:
            drawing.label(290, y, 100, 26, label, "event")
            if label in shown:
                y += 34
            else:
                drawing.arrow(390, y + 13, 470, y + 13)
                y = rows_of_boxes(drawing, readers, 470, y, WIDTH - 490)
            shown.add(label)
            lines.append(f"  {name} -> {label} -> {', '.join(readers)}")
        else:
            note = next((note for start, note in NOTES.items() if name.startswith(start)), "")
            drawing.text(296, y + 17, note, "", "start")
            lines.append(f"  {name} -> {note}".rstrip(" ->"))
            y += 34
    return drawing.svg("The way of an event"), lines


# --- The page ----------------------------------------------------------------------------------------------------------


def build() -> tuple[dict[Path, str], str]:
    """Return the images by path, and the page with its generated parts."""
    images: dict[Path, str] = {}
    page = PAGE.read_text(encoding="utf-8")
    parts: dict[str, list[str]] = {"protocols": protocol_table(PROTOCOLS)}
    for name, contract, prefix in (("library", "layers", ""), ("app", "app-layers", "app.")):
        packages = [f"{prefix}{package}" for names in read_layers(contract) for package in names]
        parts[name] = package_table(page, packages)
    for name, draw in {"layers": draw_layers, "turn": draw_turn, "way": draw_events}.items():
        svg, lines = draw()
        images[IMAGES / f"architecture-{name}.svg"] = svg
        parts[name] = ["```text", *lines, "```"]
    return images, fill(page, parts)


def fill(page: str, parts: dict[str, list[str]]) -> str:
    """Replace the text between the markers of each part.

    Raises:
        ValueError: If a marker is missing.
    """
    for name, lines in parts.items():
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = page.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{PAGE.name} has no markers for {name}")
        page = "\n".join([before + start, *lines, "", end + after])
    return page


def main() -> int:
    images, page = build()
    outputs = {**images, PAGE: page}
    if "--check" in sys.argv:
        old = [path for path, text in outputs.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        print("\n".join(f"{path.relative_to(ROOT)} differs from the code" for path in old))
        return 1 if old else 0
    for path, text in outputs.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
