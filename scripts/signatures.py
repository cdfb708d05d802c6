"""The entry of a public name in the reference: its signature with types, its description, its fields and methods."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields|Example|Examples):$")
_MAX_VALUE = 300


@cache
def parse_module(module: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(Path(str(import_module(module).__file__)).read_text(encoding="utf-8"))


@cache
def statements(module: str) -> list[ast.stmt]:
    """Return the statements of a module, those under an `if` included."""
    found: list[ast.stmt] = []
    for node in parse_module(module).body:
        found += [*node.body, *node.orelse] if isinstance(node, ast.If) else [node]
    return found


@cache
def find_node(definition: str) -> tuple[list[ast.stmt], str]:
    """Return the statements that define a name (several if it is overloaded), and the text below an assignment."""
    module, _, name = definition.rpartition(".")
    found: list[ast.stmt] = []
    text = ""
    body = statements(module)
    for i, node in enumerate(body):
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            found.append(node)
        elif _assigned_name(node) == name:
            found.append(node)
            following = body[i + 1] if i + 1 < len(body) else None
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = str(following.value.value)
    return found, text


def _assigned_name(node: ast.stmt) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return targets[0].id if targets and isinstance(targets[0], ast.Name) else ""


def description(definition: str, value: Any) -> str:
    """Return the docstring of a class or function, or the text below a constant or a type; empty if it has none."""
    nodes, text = find_node(definition)
    for node in nodes:
        if isinstance(node, ast.ClassDef | Function) and (found := ast.get_docstring(node)):
            return found
    if text:
        return "\n".join(line.strip() for line in text.strip().splitlines())
    return inspect.getdoc(value) or "" if inspect.isfunction(value) else ""


def first_sentence(text: str) -> str:
    """Return the first sentence of a text."""
    return re.split(r"(?<=[.]) |\n\n", text.strip())[0].replace("\n", " ")


def sections(text: str) -> dict[str, str]:
    """Return the parts of a docstring: the description under an empty name, and the text of each section."""
    parts: dict[str, list[str]] = {"": []}
    name = ""
    for line in text.splitlines():
        if (found := _SECTION.match(line)) is not None:
            name = found[1]
            parts[name] = []
        elif name and line and not line.startswith(" "):
            name = ""
            parts[""].append(line)
        else:
            parts[name].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in parts.items()}


def items(section: str) -> dict[str, str]:
    """Return the entries of a section such as ``Args``, by name."""
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        entry = re.match(r"^    (\*{0,2}\w+)(?: \([^)]*\))?: (.*)$", line)
        if entry is not None:
            name = entry[1]
            found[name] = entry[2]
        elif name:
            found[name] += f" {line.strip()}"
    return found


def build_entry(name: str, definition: str, value: Any) -> list[str]:
    """Return the lines of an entry."""
    nodes, _ = find_node(definition)
    parts = sections(description(definition, value))
    code = [*signature(name, nodes, value)]
    lines = [f"### {name}", "", "```py", *code, "```", "", _plain(parts[""]), ""]
    fields = class_fields(value) if isinstance(value, type) else {}
    arguments, attributes = items(parts.get("Args", "")), items(parts.get("Attributes", ""))
    lines += [f"- `{each}`: {_plain(text)}" for each, text in arguments.items()]
    if "Args" in parts:
        lines.append("")
    for each, text in attributes.items():
        kind = f": {fields[each]}" if each in fields else ""
        lines.append(f"- `{each}{kind}`: {_plain(text)}")
    if attributes:
        lines.append("")
    lines += [f"Returns {_plain(_join(parts['Returns']))}", ""] if "Returns" in parts else []
    raised = items(parts.get("Raises", ""))
    lines += [f"- Raises `{each}`: {_plain(text)}" for each, text in raised.items()]
    lines += [""] if raised else []
    if isinstance(value, type):
        methods = [*class_methods(value)]
        lines += [*methods, ""] if methods else []
    return lines


def _join(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines())


def _plain(text: str) -> str:
    return (
        text.replace("``", "`").replace("```python", "```py").strip()
        if "```" not in text
        else text.replace("```python", "```py").strip()
    )


def signature(name: str, nodes: list[ast.stmt], value: Any) -> Iterator[str]:
    """Yield the lines that declare a name."""
    overloads = [n for n in nodes if isinstance(n, Function) and _has_decorator(n, "overload")]
    for node in overloads or nodes[:1]:
        match node:
            case ast.ClassDef():
                bases = ", ".join([ast.unparse(base) for base in node.bases])
                yield f"class {name}({bases})" if bases else f"class {name}"
                yield from constructor(name, value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield _function(node)
            case ast.Assign() if inspect.isfunction(value):
                yield f"{name}{inspect.signature(value)}"
            case ast.Assign(value=assigned):
                yield f"{name} = {_cut(ast.unparse(assigned))}"
            case ast.AnnAssign(annotation=annotation):
                yield f"{name}: {ast.unparse(annotation)}"
            case _:
                pass


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."


def _has_decorator(node: Function, name: str) -> bool:
    return any(ast.unparse(d).rpartition(".")[2] == name for d in node.decorator_list)


def _function(node: Function, *, is_method: bool = False) -> str:
    arguments = node.args
    if is_method and not _has_decorator(node, "staticmethod"):
        rest = arguments.posonlyargs or arguments.args
        arguments = ast.arguments(
            posonlyargs=arguments.posonlyargs[1:],
            args=arguments.args if arguments.posonlyargs else rest[1:],
            vararg=arguments.vararg,
            kwonlyargs=arguments.kwonlyargs,
            kw_defaults=arguments.kw_defaults,
            kwarg=arguments.kwarg,
            defaults=arguments.defaults,
        )
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{prefix}{node.name}({ast.unparse(arguments)}){returns}"


def class_nodes(value: type) -> Iterator[tuple[type, ast.ClassDef]]:
    """Yield the classes of this library that a class consists of, itself first."""
    for base in value.__mro__:
        if base.__module__.startswith("mainspring"):
            nodes, _ = find_node(f"{base.__module__}.{base.__name__}")
            for node in nodes[:1]:
                if isinstance(node, ast.ClassDef):
                    yield base, node


def class_fields(value: type) -> dict[str, str]:
    """Return the annotation of each public field, with its default."""
    found: dict[str, str] = {}
    for _, node in class_nodes(value):
        for statement in node.body:
            name = _assigned_name(statement)
            if isinstance(statement, ast.AnnAssign) and name and not name.startswith("_"):
                default = f" = {ast.unparse(statement.value)}" if statement.value is not None else ""
                found.setdefault(name, _cut(ast.unparse(statement.annotation) + default))
    return found


def constructor(name: str, value: Any) -> Iterator[str]:
    """Yield how an object of a class is created, if that is public."""
    if not isinstance(value, type):
        return
    struct_fields: tuple[str, ...] = getattr(value, "__struct_fields__", ())
    is_options = value.__class__.__name__ == "_TypedDictMeta"
    if struct_fields or is_options:
        fields = class_fields(value)
        for each in struct_fields or tuple(fields):
            if not each.startswith("_"):
                yield f"    {each}: {fields.get(each, 'Any')}"
        return
    if getattr(value, "_is_protocol", False):
        return
    for _, node in class_nodes(value):
        for statement in node.body:
            if isinstance(statement, Function) and statement.name == "__init__":
                yield _function(statement, is_method=True).replace("__init__", name).removesuffix(" -> None")
                yield from option_fields(value, statement)
                return


def option_fields(value: type, node: Function) -> Iterator[str]:
    """Yield the keywords of ``**options: Unpack[...]``."""
    kind = ast.unparse(node.args.kwarg.annotation) if node.args.kwarg and node.args.kwarg.annotation else ""
    found = re.match(r"Unpack\[(\w+)", kind)
    if found is None:
        return
    home = _find_import(value.__module__, found[1])
    options = getattr(import_module(home), found[1], None)
    if isinstance(options, type):
        yield f"# {found[1]}:"
        for name, annotation in class_fields_of_options(options).items():
            yield f"    {name}: {annotation}"


def class_fields_of_options(options: type) -> dict[str, str]:
    """Return the annotation of each key of a TypedDict, those of its bases included."""
    found: dict[str, str] = {}
    for base in [*getattr(options, "__orig_bases__", ()), options]:
        if isinstance(base, type) and base.__module__.startswith("mainspring"):
            if base is not options:
                found |= class_fields_of_options(base)
            for node in find_node(f"{base.__module__}.{base.__name__}")[0][:1]:
                if isinstance(node, ast.ClassDef):
                    found |= {
                        _assigned_name(s): ast.unparse(s.annotation) for s in node.body if isinstance(s, ast.AnnAssign)
                    }
    return found


def _find_import(module: str, name: str) -> str:
    for node in ast.walk(parse_module(module)):
        if isinstance(node, ast.ImportFrom) and node.module and any((a.asname or a.name) == name for a in node.names):
            return _find_import(node.module, name) if node.module.startswith("mainspring") else node.module
    return module


def class_methods(value: type) -> Iterator[str]:
    """Yield a line for each public method and property, those of base classes of the library included."""
    seen: set[str] = set()
    for _, node in class_nodes(value):
        for statement in node.body:
            if not isinstance(statement, Function) or statement.name.startswith("_"):
                continue
            is_overload = _has_decorator(statement, "overload")
            if (statement.name in seen and not is_overload) or _has_decorator(statement, "setter"):
                continue
            seen.add(statement.name)
            text = first_sentence(_plain(sections(ast.get_docstring(statement) or "")[""]))
            if _has_decorator(statement, "property"):
                kind = ast.unparse(statement.returns) if statement.returns is not None else "Any"
                yield f"- `{statement.name}: {kind}` (property)" + (f": {text}" if text else "")
            else:
                prefix = "classmethod " if _has_decorator(statement, "classmethod") else ""
                yield f"- `{prefix}{_function(statement, is_method=True)}`" + (f": {text}" if text else "")
