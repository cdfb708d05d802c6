"""Every tool of every server, real or odd, is converted to one that the hosts of all protocols accept."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from mainspring import Agent, define_tool, tool
from mainspring.env.memory import MemoryEnv
from mainspring.mcp.tools import server_prefixes, tool_names
from mainspring.messages import Message, ToolDefinition
from mainspring.models.codec.tool_schema import simplify_tool_schema, split_description
from mainspring.models.port import ModelInfo, ModelRequest
from mainspring.models.profile import GeminiDialect, ModelProfile
from mainspring.models.providers.gemini import gemini_capabilities
from mainspring.models.wire import anthropic as anthropic_messages, gemini, ollama, openai_chat, openai_responses
from mainspring.testing.scripted_model import ScriptedCall, ScriptedModel
from mainspring.tools import parse_arguments

PROFILE = ModelProfile(ModelInfo("m", "p"), "http://h")
JSON_SCHEMA = gemini_capabilities("gemini-3-pro")
OPENAPI = replace(JSON_SCHEMA, tool_schema="openapi")
Encode = Callable[[ModelRequest, ModelProfile], bytes]
WIRES: dict[str, tuple[Encode, ModelProfile]] = {
    "chat_completions": (openai_chat.encode_request, PROFILE),
    "responses": (openai_responses.encode_request, PROFILE),
    "messages": (anthropic_messages.encode_request, PROFILE),
    "gemini": (gemini.encode_request, replace(PROFILE, gemini=JSON_SCHEMA)),
    "gemini openapi": (gemini.encode_request, replace(PROFILE, gemini=OPENAPI)),
    "ollama": (ollama.encode_request, PROFILE),
}
TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
GEMINI = set(
    "$anchor $defs $id $ref additionalProperties anyOf default description enum format items maxItems maximum minItems "
    "minimum oneOf prefixItems properties propertyOrdering required title type".split()
)
GEMINI_OPENAPI = set(
    "anyOf description enum format items maxItems maximum minItems minimum nullable properties propertyOrdering required title type".split()
)
Sub = tuple[dict[str, Any], str]


def subschemas(schema: dict[str, Any], at: str = "") -> Iterator[Sub]:
    """Yield every schema in a schema, with its path."""
    yield schema, at
    for name in ("properties", "patternProperties", "$defs", "definitions"):
        for key, inner in schema.get(name, {}).items():
            assert isinstance(inner, dict), (at, name, key)
            yield from subschemas(inner, f"{at}/{name}/{key}")
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        assert name not in schema or schema[name], (at, name)
        for i, inner in enumerate(schema.get(name, ())):
            yield from subschemas(inner, f"{at}/{name}/{i}")
    for name in ("items", "additionalProperties", "not", "contains", "propertyNames"):
        if isinstance(schema.get(name), dict):
            yield from subschemas(schema[name], f"{at}/{name}")


@cache
def check_form(schema: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema))


def check_common(schema: dict[str, Any]) -> None:
    """Check the rules that all hosts have in common."""
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    assert not {"oneOf", "anyOf", "allOf", "enum", "not", "const", "$ref", "$schema"} & schema.keys()
    check_form(json.dumps(schema))
    for inner, at in subschemas(schema):
        kinds = inner.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        assert set(kinds) <= TYPES, at
        if "array" in kinds:
            assert isinstance(inner["items"], dict), (at, "array schema missing items")
        if "enum" in inner:
            assert inner["enum"], at
            assert kinds, (at, "choices without a type")
        if "$ref" in inner:
            table, _, name = inner["$ref"].rpartition("/")
            assert table == "#/$defs", (at, inner["$ref"])
            assert name in schema["$defs"], (at, inner["$ref"])
        assert set(inner.get("required", ())) <= inner.get("properties", {}).keys(), at


def check_gemini(schema: dict[str, Any]) -> None:
    for inner, at in subschemas(schema):
        assert inner.keys() <= GEMINI, (at, inner.keys() - GEMINI)
        if "$ref" in inner:
            assert all(name.startswith("$") for name in inner), at


def check_gemini_openapi(schema: dict[str, Any]) -> None:
    assert schema["properties"]
    for inner, at in subschemas(schema):
        assert inner.keys() <= GEMINI_OPENAPI, (at, inner.keys() - GEMINI_OPENAPI)
        assert "anyOf" in inner or inner["type"] in TYPES - {"null"}, at
        if inner.get("type") == "array":
            assert inner["items"].keys() & {"type", "anyOf"}, at
        assert all(isinstance(c, str) for c in inner.get("enum", ())), at


def encode_body(wire: str, spec: ToolDefinition) -> dict[str, Any]:
    encode, profile = WIRES[wire]
    return json.loads(encode(ModelRequest((Message.user("Go"),), tools=(spec,)), profile))


def check_tool(spec: ToolDefinition) -> None:
    """Fail if any host would reject a request with this tool."""
    for wire in WIRES:
        tools = encode_body(wire, spec)["tools"]
        match wire:
            case "chat_completions" | "ollama":
                converted = tools[0]["function"]
                schema = converted["parameters"]
                if wire == "chat_completions":
                    assert len(converted["description"]) <= 1024
            case "responses":
                converted = tools[0]
                schema = converted["parameters"]
            case "messages":
                converted = tools[0]
                schema = converted["input_schema"]
                assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key) for key in schema["properties"]), wire
            case _:
                converted = tools[0]["functionDeclarations"][0]
                schema = converted.get("parametersJsonSchema")
                if wire == "gemini openapi":
                    if "parameters" in converted:
                        check_gemini_openapi(converted["parameters"])
                    continue
                check_gemini(schema)
        assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", converted["name"]), wire
        check_common(schema)


def real_tools(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(folder.glob("*.json")):
        tools = json.loads(file.read_text())["tools"]
        for each in tools["tools"] if isinstance(tools, dict) else tools:
            yield file.stem, each


def to_definition(server: str, each: dict[str, Any]) -> ToolDefinition:
    key = server_prefixes([server])[server]
    name = tool_names(key, [each["name"]])[each["name"]]
    return ToolDefinition(name, each.get("description") or "", each["inputSchema"])


def test_every_provider_accepts_real_tools(material: Path) -> None:
    count = 0
    for server, each in real_tools(material / "mcp" / "tools"):
        check_tool(to_definition(server, each))
        count += 1
    assert count > 250


def test_simplified_real_schemas_keep_descriptions_and_choices(material: Path) -> None:
    """Each property outside of a reference keeps its description, its choices, and whether it is required."""
    for _, each in real_tools(material / "mcp" / "tools"):
        schema = each["inputSchema"]
        converted = simplify_tool_schema(schema)
        assert converted["properties"].keys() == schema.get("properties", {}).keys()
        assert converted.get("required", []) == schema.get("required", [])
        for key, inner in schema.get("properties", {}).items():
            for name in ("description", "enum", "default", "minimum"):
                assert converted["properties"][key].get(name) == inner.get(name) or "$ref" in inner
        assert len(json.dumps(converted)) < len(json.dumps(schema)) + 4100


def test_calls_are_validated_with_the_original_schema(material: Path) -> None:
    tools = {t["name"]: t for _, t in real_tools(material / "mcp" / "tools")}
    schema = tools["sequentialthinking"]["inputSchema"]
    assert parse_arguments(schema, {"thought": "x"}).error


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


ODD: dict[str, Any] = {
    "empty": {},
    "no properties": {"type": "object"},
    "null properties": {"type": "object", "properties": None},
    "a list of properties": {"type": "object", "properties": []},
    "properties without a type": {"properties": {"a": {"type": "string"}}},
    "the type is an array": {"type": "array", "items": {"type": "string"}},
    "the type is a list": {"type": ["object", "null"], "properties": {"a": {}}},
    "a union at the top": {"anyOf": [obj(a={"type": "string"}), obj(b={"type": "integer"})]},
    "a union of requirements": {**obj(a={"type": "string"}, b={}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "a nested union of requirements": obj(x={**obj(a={}), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
    "all of": {"allOf": [{"$ref": "#/$defs/A"}, obj(b={})], "$defs": {"A": {**obj(a={}), "required": ["a"]}}},
    "a reference at the top": {"$ref": "#/definitions/Args", "definitions": {"Args": {**obj(a={"type": "string"}), "required": ["a"]}}},
    "a reference to itself": {"$ref": "#"},
    "two that are each other": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "a tree": {**obj(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": obj(children={"type": "array", "items": {"$ref": "#/$defs/Node"}})}},
    "a tree of itself": obj(children={"type": "array", "items": {"$ref": "#"}}),
    "a name with signs": {**obj(a={"$ref": "#/$defs/a~1b c%25"}), "$defs": {"a/b c%": {"type": "string"}}},
    "a reference to a neighbour": obj(a={"type": "string", "description": "A"}, b={"$ref": "#/properties/a"}),
    "a reference to an anchor": {**obj(a={"$ref": "#here"}), "$defs": {"x": {"$anchor": "here", "type": "string"}}},
    "a reference to nothing": obj(a={"$ref": "#/$defs/nothing"}, b={"$ref": "#/properties/a/0/x"}),
    "a reference to elsewhere": obj(a={"$ref": "https://example.com/schema.json", "description": "Elsewhere"}),
    "a reference that is none": obj(a={"$ref": 5}),
    "an array of anything": obj(a={"type": "array"}, b={"type": ["array", "null"]}, c={"items": True}),
    "a tuple of draft 7": obj(a={"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": False}),
    "a tuple of 2020": obj(a={"type": "array", "prefixItems": [{"type": "string"}], "items": False}),
    "choices without a type": obj(a={"enum": ["x", "y"]}, b={"enum": [1, None]}, c={"const": True}, d={"enum": []}),
    "choices of objects": obj(a={"enum": [{"x": 1}, ["y"]]}),
    "nullable": obj(a={"type": "string", "nullable": True, "enum": ["x"]}),
    "other names of types": obj(a={"type": "int"}, b={"type": "Float"}, c={"type": "any"}, d={"type": "dict"}, e={"type": "blob"}),
    "types of draft 3": obj(a={"type": [{"type": "string"}, "null"]}, b={"type": None}, c={"type": []}),
    "draft 4": {**obj(a={"type": "number", "minimum": 0, "exclusiveMinimum": True, "id": "#a"}), "id": "http://x", "$schema": "http://json-schema.org/draft-04/schema#"},
    "required of draft 3": obj(a={"type": "string", "required": True}),
    "required of what is not there": {**obj(a={}), "required": ["a", "a", "b", 3]},
    "booleans": obj(a=True, b=False, c=None, d="string", e=["string"]),
    "values of the wrong kind": obj(a={"type": "string", "description": None, "title": 3, "minLength": "1", "maximum": "9", "pattern": 1, "default": None}),
    "conditions": {**obj(a={}), "if": obj(a={"const": 1}), "then": {"required": ["a"]}, "else": False, "not": {"required": ["z"]}, "dependentRequired": {"a": ["b"]}},
    "free keys": {"type": "object", "additionalProperties": {"type": "string"}, "patternProperties": {"^x-": True}, "propertyNames": {"pattern": "^a"}},
    "keywords of others": obj(a={"type": "string", "x-order": 1, "placeholder": "p", "example": "e"}),
    "properties named like keywords": obj(type={"type": "string"}, properties={"type": "object"}, required={"type": "boolean"}, items={}, enum={"enum": ["a"]}),
    "nested without end": json.loads('{"type":"object","properties":{"a":' * 200 + "{}" + "}}" * 200),
}  # fmt: skip


@pytest.mark.covers("MCP-05")
@pytest.mark.parametrize("name", ODD)
def test_every_provider_accepts_odd_schemas(name: str) -> None:
    check_tool(ToolDefinition("odd", "Odd.", ODD[name]))


def test_exponential_references_stay_bounded() -> None:
    names = [f"n{i}" for i in range(30)]
    each = {
        a: obj(x={"$ref": f"#/$defs/{b}"}, y={"$ref": f"#/$defs/{b}"})
        for a, b in zip(names, [*names[1:], "end"], strict=True)
    }
    schema = {**obj(a={"$ref": "#/$defs/n0"}), "$defs": {**each, "end": {"type": "string"}}}
    check_tool(ToolDefinition("laughs", "", schema))
    names = names[:12]
    mutual = {a: obj(**{b: {"$ref": f"#/$defs/{b}"} for b in names}) for a in names}
    check_tool(ToolDefinition("mutual", "", {**obj(a={"$ref": "#/$defs/n0"}), "$defs": mutual}))


def test_valid_schemas_are_not_changed() -> None:
    @tool
    def book(city: str, days: int = 1, tags: list[str] | None = None, at: tuple[int, int] | None = None) -> str:
        """Book.

        Args:
            city: Where.
        """
        return ""

    schema = book.spec.input_schema
    converted = simplify_tool_schema(schema)
    assert {k: converted["properties"][k] for k in ("city", "days", "tags")} == {
        k: schema["properties"][k] for k in ("city", "days", "tags")
    }
    assert simplify_tool_schema(converted) == converted


JSONISH = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.sampled_from(["", "string", "object", "array", "#", "#/$defs/a", "#/properties/b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "type properties items anyOf allOf oneOf $ref $defs definitions enum const required a b not minimum exclusiveMinimum "
                "prefixItems additionalProperties description default nullable patternProperties".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(
    st.dictionaries(
        st.sampled_from(["type", "properties", "anyOf", "allOf", "$ref", "$defs", "required", "items", "enum"]), JSONISH
    )
)
def test_every_provider_accepts_random_schemas(schema: dict[str, Any]) -> None:
    check_tool(ToolDefinition("odd", "Odd.", schema))
    assert simplify_tool_schema(simplify_tool_schema(schema)) == simplify_tool_schema(schema)


@given(st.text("ab .\n", max_size=60), st.integers(1, 40))
def test_split_description_loses_no_text(text: str, limit: int) -> None:
    first, rest = split_description(text, limit)
    assert len(first) <= limit
    assert "".join((first + rest).split()) == "".join(text.split())


def test_unsupported_parameter_name_moves_to_the_description() -> None:
    schema = {
        **obj(ok={"type": "string"}, größe={"type": "integer"}),
        "required": ["größe"],
        "additionalProperties": False,
    }
    converted = encode_body("messages", ToolDefinition("t", "", schema))["tools"][0]["input_schema"]

    assert list(converted["properties"]) == ["ok"]
    assert converted["description"].endswith('"größe" (required): {"type":"integer"}')
    assert "required" not in converted
    assert "additionalProperties" not in converted
    assert "größe" in encode_body("responses", ToolDefinition("t", "", schema))["tools"][0]["parameters"]["properties"]


def test_long_description_continues_in_the_schema() -> None:
    text = "First. " + "Words of a sentence. " * 200
    converted = encode_body("chat_completions", ToolDefinition("t", text, {}))["tools"][0]["function"]
    assert len(converted["description"]) <= 1024
    assert f"{converted['description']} {converted['parameters']['description']}" == text.strip()


LONG = "look_at_everything_" * 5


@pytest.mark.covers("MCP-13")
@pytest.mark.parametrize("name", [LONG, "9lives", "-dash"])
async def test_unsupported_tool_name_is_replaced_for_the_model_only(name: str) -> None:
    fields: dict[str, Any] = {"description": "d", "parameters": {"type": "object"}, "execute": look}
    from_model: list[str] = []

    def answer(request: ModelRequest) -> Any:
        from_model.append(request.tools[0].name)
        return ScriptedCall(request.tools[0].name)

    agent = Agent(ScriptedModel(answer, "done"), tools=[create_named_tool(name, fields)], execution=MemoryEnv({}))
    result = await agent.run("go")

    assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", from_model[0])
    assert result.stats.tool_counts == {name: 1}


async def look(args: dict[str, Any], ctx: Any) -> str:
    return "seen"


def create_named_tool(name: str, parts: dict[str, Any]) -> Any:
    return define_tool(name, parts)


# --- Gemini's documented subset ----------------------------------------------------------------------------------------

DOCUMENTED: frozenset[str] = frozenset(
    "$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf "
    "oneOf properties additionalProperties required propertyOrdering default".split()
)
"""The subset that Google documents for parametersJsonSchema, and ``default``, which was accepted when recorded."""

DOCUMENTED_OPENAPI: frozenset[str] = frozenset(
    "type format title description nullable enum maxItems minItems properties required minProperties maxProperties anyOf "
    "propertyOrdering items minimum maximum".split()
)


def find_unsupported(schema: Any, allowed: frozenset[str], place: str = "$") -> list[str]:
    """Return what is outside of a documented subset in a schema."""
    if not isinstance(schema, dict):
        return [] if isinstance(schema, bool) and allowed is DOCUMENTED else [f"{place}: {schema!r}"]
    found = find_schema_errors(schema, allowed, place)
    for name in ("properties", "$defs"):
        for key, inner in (schema.get(name) or {}).items():
            found += find_unsupported(inner, allowed, f"{place}.{name}.{key}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            found += find_unsupported(schema[name], allowed, f"{place}.{name}")
    for name in ("anyOf", "oneOf", "prefixItems"):
        for i, inner in enumerate(schema.get(name) or []):
            found += find_unsupported(inner, allowed, f"{place}.{name}[{i}]")
    return found


def find_schema_errors(schema: dict[str, Any], allowed: frozenset[str], place: str) -> list[str]:
    found = [f"{place}.{k}" for k in schema.keys() - allowed]
    if "$ref" in schema:
        found += [f"{place}: {k} beside $ref" for k in schema if not k.startswith("$")]
    if any(not isinstance(c, str | int | float) or isinstance(c, bool) for c in schema.get("enum") or []):
        found.append(f"{place}.enum")
    if allowed is DOCUMENTED_OPENAPI:
        if not isinstance(schema.get("type", ""), str) or ("type" not in schema and "anyOf" not in schema):
            found.append(f"{place}.type")
        if schema.get("type") == "array" and "items" not in schema:
            found.append(f"{place}.items missing")
    return found


@pytest.mark.parametrize("form", ["json", "openapi"])
def test_real_tool_schemas_stay_in_the_gemini_subset(material: Path, form: Any) -> None:
    tools: list[ToolDefinition] = []
    for path in sorted((material / "mcp" / "tools").glob("*.json")):
        listed = json.loads(path.read_text(encoding="utf-8"))
        listed = listed if isinstance(listed, list) else listed["tools"]
        tools += [ToolDefinition(tool["name"], tool.get("description") or "", tool["inputSchema"]) for tool in listed]
    profile = ModelProfile(ModelInfo("m", "gemini"), "http://host", gemini=GeminiDialect(tool_schema=form))

    encode = json.loads(gemini.encode_request(ModelRequest([Message.user("Hi")], tools=tools), profile))
    declared = encode["tools"][0]["functionDeclarations"]
    field, allowed = ("parametersJsonSchema", DOCUMENTED) if form == "json" else ("parameters", DOCUMENTED_OPENAPI)
    wrong = {d["name"]: found for d in declared if field in d and (found := find_unsupported(d[field], allowed))}

    assert len(declared) == len(tools) > 250
    assert wrong == {}
    for given_tool, declaration in zip(tools, declared, strict=True):
        values = (declaration.get(field) or {}).get("properties") or {}
        assert list(values) == list(given_tool.input_schema.get("properties") or {})
