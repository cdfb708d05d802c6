"""Encode requests to Gemini, with tool schemas in its subset of JSON Schema.

Google documents a subset of JSON Schema for ``parametersJsonSchema`` and ``responseJsonSchema``, and a smaller one of OpenAPI
for ``parameters``. Unsupported keywords are removed or expressed differently: the model then sees fewer constraints, but
Mainspring still validates the arguments against all of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mainspring.messages import (
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from mainspring.models.codec.effort import nearest_effort
from mainspring.models.codec.encoded_history import MessageBoundary, MessageEncodingCache, merge_at_boundary
from mainspring.models.codec.normalize import (
    EMPTY_PROMPT_TEXT,
    arguments_object,
    portable_schema,
    prepare_message,
    split_text_and_images,
)
from mainspring.models.codec.sampling import sampling_fields
from mainspring.models.codec.unsupported import is_unsupported_parameter, with_capabilities, without_named_fields
from mainspring.models.json_values import as_dict, as_dicts, as_list, as_number, to_json
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ModelProfile
from mainspring.models.token_limits import output_limit

KEYWORDS = frozenset(
    (
        "$anchor $defs $id $ref additionalProperties anyOf default description enum format items maxItems maximum minItems "
        "minimum oneOf prefixItems properties propertyOrdering required title type"
    ).split()
)
"""Keywords of ``parametersJsonSchema`` (documented; ``default`` is accepted in practice)."""


OPENAPI_KEYWORDS = frozenset(
    (
        "anyOf description enum format items maxItems maximum minItems minimum nullable properties propertyOrdering "
        "required title type"
    ).split()
)
"""Keywords of ``parameters``."""


_TYPE_KEYWORDS = {
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "object": ("properties", "required", "propertyOrdering"),
}
"""Keywords that belong to a single type."""


_MAX_REFERENCES = 500
"""Maximum number of inlined references; beyond that a host would reject the schema because of its size."""


def json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schema to the documented subset of JSON Schema."""
    converted: dict[str, Any] = {}
    if "$ref" in schema:  # Next to a reference, only keywords that start with a dollar sign are allowed.
        converted["$ref"] = str(schema["$ref"]).replace("#/definitions/", "#/$defs/")
        _keep_definitions(schema, converted)
        return converted
    for name, value in _translate_keywords(schema).items():
        if name in ("properties", "$defs"):
            fields = as_dict(value) or {}
            converted[name] = {key: json_schema(as_dict(field) or {}) for key, field in fields.items()}
        elif name in ("anyOf", "oneOf", "prefixItems"):
            options = [json_schema(option) for option in as_dicts(value)]
            if options:
                converted[name] = options
        elif name in ("items", "additionalProperties"):
            inner = as_dict(value)
            converted[name] = value if inner is None else json_schema(inner)
        elif name in KEYWORDS:
            converted[name] = value
    return converted


def openapi_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schema to the OpenAPI subset: no references, one type, choices as text."""
    plain = json_schema(schema)
    return _openapi(plain, as_dict(plain.get("$defs")) or {}, (), itertools.count())


def _keep_definitions(schema: Mapping[str, Any], result: dict[str, Any]) -> None:
    for name in ("$defs", "definitions"):
        for key, value in (as_dict(schema.get(name)) or {}).items():
            result.setdefault("$defs", {})[key] = json_schema(as_dict(value) or {})


def _translate_keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace keywords by supported equivalents, if any exist."""
    fields = dict(schema)
    definitions = {**(as_dict(fields.pop("definitions", None)) or {}), **(as_dict(fields.get("$defs")) or {})}
    if definitions:
        fields["$defs"] = definitions
    for part in as_dicts(fields.pop("allOf", None)):
        fields = _merge_schemas(fields, part)
    if "const" in fields:
        fields["enum"] = [fields.pop("const")]
    if "enum" in fields:
        choices = as_list(fields["enum"])
        if not choices:
            del fields["enum"]
        elif any(not isinstance(c, str | int | float) or isinstance(c, bool) for c in choices):
            del fields["enum"]  # Only texts and numbers are allowed as choices.
            _hint(fields, f"One of: {', '.join(map(str, choices))}")
    for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = as_number(fields.pop(exclusive, None))
        if bound is not None and fields.get("type") == "integer":
            fields.setdefault(inclusive, int(bound) + step)
    for name, text in (("pattern", "Pattern"), ("minLength", "At least, in characters"), ("maxLength", "At most")):
        if name in fields:
            _hint(fields, f"{text}: {fields.pop(name)}")
    items = fields.get("items")
    if isinstance(items, list):  # The older form of a tuple.
        fields["prefixItems"] = fields.pop("items")
    return fields


def _merge_schemas(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Merge two schemas that both apply: properties and ``required`` are combined, otherwise the first wins."""
    result = {**part, **schema}
    for name in ("properties", "$defs"):
        if name in part and name in schema:
            result[name] = {**(as_dict(part[name]) or {}), **(as_dict(schema[name]) or {})}
    if "required" in part and "required" in schema:
        result["required"] = list(dict.fromkeys([*as_list(schema["required"]), *as_list(part["required"])]))
    return result


def _hint(fields: dict[str, Any], text: str) -> None:
    known = fields.get("description")
    fields["description"] = f"{known} ({text})" if isinstance(known, str) and known else text


def _split_by_type(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one schema per type with the keywords of that type, which are removed from ``fields``."""
    kinds = [kind for kind in as_list(fields.pop("type")) if isinstance(kind, str)]
    parts = {kind: {n: fields.pop(n) for n in _TYPE_KEYWORDS.get(kind, ()) if n in fields} for kind in kinds}
    return [{"type": kind, **parts[kind]} for kind in kinds] or [{}]


def _openapi(
    schema: dict[str, Any], definitions: dict[str, Any], open_refs: tuple[str, ...], count: Iterator[int]
) -> dict[str, Any]:
    """Convert one schema with inlined references. A recursive one (``open_refs``) becomes a plain object, and so does every further
    one beyond the limit, since each may contain several references.
    """
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        found = as_dict(definitions.get(name))
        known = found is not None and name not in open_refs and next(count) < _MAX_REFERENCES
        return _openapi(found or {}, definitions, (*open_refs, name), count) if known else {"type": "object"}
    fields = dict(schema)
    options = as_dicts(fields.pop("anyOf", None)) or as_dicts(fields.pop("oneOf", None))
    if as_list(fields.get("type")):
        options = _split_by_type(fields)
    elif fields.get("type") == "null":
        fields.update(type="string", nullable=True)
    requested = [option for option in options if option.get("type") != "null"]
    if len(requested) < len(options):
        fields["nullable"] = True
    if len(requested) == 1:
        return _openapi({**requested[0], **fields}, definitions, open_refs, count)
    converted: dict[str, Any] = {name: value for name, value in fields.items() if name in OPENAPI_KEYWORDS}
    if requested:
        converted["anyOf"] = [_openapi(option, definitions, open_refs, count) for option in requested]
    elif "type" not in converted:
        converted["type"] = "array" if "items" in converted else "object" if "properties" in converted else "string"
    if "properties" in converted:
        converted["properties"] = {
            k: _openapi(as_dict(v) or {}, definitions, open_refs, count) for k, v in converted["properties"].items()
        }
    if converted.get("type") == "array":
        items = [as_dict(converted.get("items")) or {}, *as_dicts(fields.get("prefixItems"))]
        converted["items"] = _openapi(next((item for item in items if item), items[0]), definitions, open_refs, count)
    if "enum" in converted:
        converted["enum"] = [str(choice) for choice in converted["enum"]]
        converted["type"] = "string"
    return _keep_type_keywords(converted)


def _keep_type_keywords(result: dict[str, Any]) -> dict[str, Any]:
    foreign = {name for kind, own in _TYPE_KEYWORDS.items() if result.get("type") != kind for name in own}
    return {name: value for name, value in result.items() if name not in foreign}


_BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 65536}
"""Thinking tokens of each level, for models with budgets; clamped to the supported range."""


_MAX_STOPS = 5  # documented
_ANSWER = 1024  # tokens to leave for a response after the thinking


def _request_options(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    """Return all fields of the body but tools, system instruction, and contents. No field is null."""
    dialect = profile.gemini
    settings: dict[str, Any] = {}
    thinking = _thinking(request, profile)
    limit = output_limit(request, profile)
    if limit is not None:
        # Thinking tokens are output tokens: a lower limit would leave none for the response.
        settings["maxOutputTokens"] = max(limit, thinking.get("thinkingBudget", 0) + min(limit, _ANSWER))
    if request.temperature is not None and dialect.temperature:
        settings["temperature"] = request.temperature
    if request.stop and dialect.stop:
        settings["stopSequences"] = list(request.stop)[:_MAX_STOPS]
    if thinking:
        settings["thinkingConfig"] = thinking
    if request.schema is not None and dialect.json_schema and (dialect.schema_with_tools or not request.tools):
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = json_schema(request.schema)
    if request.sampling is not None:
        settings.update(sampling_fields("gemini", request, dialect.unsupported))
    extra = dict(request.extra)
    settings.update(as_dict(extra.pop("generationConfig", None)) or {})
    fields: dict[str, Any] = {"generationConfig": settings} if settings else {}
    if request.tools and request.tool_choice != "auto":
        fields["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice)}
    return {**fields, **extra}


def _choice(choice: str) -> dict[str, Any]:
    if choice == "none":
        return {"mode": "NONE"}
    return {"mode": "ANY"} if choice == "required" else {"mode": "ANY", "allowedFunctionNames": [choice]}


def _thinking(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    dialect, level, budget = profile.gemini, request.thinking, request.thinking_budget
    if dialect.thinking == "none" or (level is None and budget is None):
        return {}
    if budget is None and dialect.thinking == "level":
        word = nearest_effort(level, dialect.levels, reasons=True)
        return {"thinkingLevel": word, **({} if level == "off" else {"includeThoughts": True})}
    tokens = budget if budget is not None else _BUDGETS.get(level or "", 0)
    if tokens <= 0:
        return {"thinkingBudget": 0 if dialect.can_rest else dialect.least_budget}
    tokens = min(max(tokens, dialect.least_budget), dialect.most_budget)
    limit = profile.info.max_output_tokens
    return {"thinkingBudget": min(tokens, limit - _ANSWER) if limit else tokens, "includeThoughts": True}


_REFUSABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"parameters_?json_?schema", {"tool_schema": "openapi"}),
    (r"response_?(json_?)?schema|response mime ?type|response_?mime_?type|json mode", {"json_schema": False}),
    (r"thinking.?level", {"thinking": "budget"}),
    (r"thinking.?budget", {"thinking": "level"}),
    (r"thinking|thought", {"thinking": "none"}),
    (r"""unknown name ['"\\]+id\b|function.?(call|response)\S*\.id\b""", {"call_ids": False}),
    (r"function_?response\S*parts|multimodal function|unknown name ['\"\\]+parts\b", {"result_images": "behind"}),
    (r"temperature", {"temperature": False}),
    (r"stop.?sequence", {"stop": False}),
    (r"\bpenalty is not enabled", {"unsupported": ("presence_penalty", "frequency_penalty")}),
)
"""Patterns of rejected fields, and the change for each."""


def profiles_without_rejected(profile: ModelProfile, refusal: str) -> Iterator[ModelProfile]:
    """Return profiles without the rejected field, the most likely first; none if the text mentions no field."""
    text = refusal.lower()
    if re.search(r"thought.?signature", text):
        if "missing" not in text:
            yield with_capabilities(profile, "gemini", {"echo": False, "sign_calls": True})
        yield with_capabilities(profile, "gemini", {"sign_calls": True})
        yield with_capabilities(profile, "gemini", {"echo": False, "sign_calls": False})
    # Hosts quote the path of the field, often without the fact that they reject it.
    if not is_unsupported_parameter(text) and not re.search(r"cannot find field|is not enabled", text):
        return
    yield from without_named_fields(profile, "gemini", text, _REFUSABLE)


_SLOT = "gemini"
_SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Signature that Google documents for a call that another model created."""


_MODEL = b',{"role": "model","parts":'
_SEAMS: tuple[MessageBoundary, ...] = ((b"] }", _MODEL + b"["),)
"""Adjacent model messages are merged: a call may not follow a model message. User messages may be adjacent."""


_INSIDE, _BEHIND = "[with an image]", "[the image follows]"
"""Text of a result about its image."""


_OPENING = b',{"role":"user","parts":[{"text":"Continue."}]}'
"""User message in front of a conversation that starts with the model: a call must follow a user message."""


_EMPTY = b"," + to_json({"role": "user", "parts": [{"text": EMPTY_PROMPT_TEXT}]})


def encode_request(request: ModelRequest, profile: ModelProfile) -> bytes:
    """Return the body of a request: options first, conversation last, so that repeated parts are a prefix."""
    history = MessageEncodingCache.get_or_create(request.scratch, _SLOT, _key(profile))
    messages = request.messages if isinstance(request.messages, list) else list(request.messages)
    stored, tail = history.encode(messages, lambda message: encode_message(message, profile), _SEAMS)
    head = _head(request, profile, history)
    opening = _OPENING if (stored or tail).startswith(_MODEL) else b""
    if not stored and not tail:
        tail = _EMPTY
    cut, tail = merge_at_boundary(stored, tail, _SEAMS)
    conversation = memoryview(stored)[: len(stored) - cut]
    if opening:
        return b"".join((head, opening[1:], conversation, tail, b"]}"))
    return b"".join((head, conversation[1:], tail, b"]}") if stored else (head, tail[1:], b"]}"))


def encode_message(message: Message, profile: ModelProfile) -> bytes:
    """Encode one message as a JSON object with a leading comma; empty if nothing is sent."""
    cleaned = prepare_message(
        message,
        profile.provider,
        profile.model,
        vision=profile.info.vision,
        unreadable=profile.unreadable,
        keep_generated_images=profile.info.vision,
    )
    if cleaned is None:
        return b""
    if cleaned.role == "assistant":
        parts = _assistant(cleaned, profile)
        return _MODEL + to_json(parts) + b" }" if parts else b""
    parts = _user(cleaned, profile)  # Gemini has no role for a system message inside the conversation.
    return b"," + to_json({"role": "user", "parts": parts}) if parts else b""


def _key(profile: ModelProfile) -> str:
    d, info, unreadable = profile.gemini, profile.info, hash(profile.unreadable)
    return f"{_SLOT}|{info.provider}|{info.id}|{info.vision}|{d.echo}|{d.sign_calls}|{d.call_ids}|{d.result_images}|{unreadable}"


def _head(request: ModelRequest, profile: ModelProfile, history: MessageEncodingCache) -> bytes:
    """Encode everything up to the contents; encoded again only after a change."""
    fields = _request_options(request, profile)
    tools, system = list(request.tools), request.system
    known = history.head
    made_of = (fields, tools, system, profile.gemini.tool_schema)
    if known is not None and known[0] == made_of:
        return known[1]
    others = as_list(fields.get("tools"))  # tools that Google runs
    head = to_json({name: value for name, value in fields.items() if name != "tools"})[:-1]
    parts: list[bytes] = [head[1:]] if len(head) > 1 else []
    if tools or others:
        declared = (
            [b'{"functionDeclarations":[' + b",".join([_tool(tool, profile) for tool in tools]) + b"]}"]
            if tools
            else []
        )
        parts.append(b'"tools":[' + b",".join([*declared, *map(to_json, others)]) + b"]")
    if system and not system.isspace():
        parts.append(b'"systemInstruction":' + to_json({"parts": [{"text": system}]}))
    data = b"{" + b",".join([*parts, b'"contents":['])
    history.head = (made_of, data)
    return data


def _tool(tool: ToolDefinition, profile: ModelProfile) -> bytes:
    form = profile.gemini.tool_schema
    cache = vars(tool)
    data = cache.get(slot := f"{_SLOT}|{form}")
    if data is None:
        declaration: dict[str, Any] = {"name": tool.name, "description": tool.description}
        schema = portable_schema(tool)
        if form == "json":
            declaration["parametersJsonSchema"] = json_schema(schema)
        elif schema["properties"]:  # Gemini rejects an object without properties.
            declaration["parameters"] = openapi_schema(schema)
        data = cache[slot] = to_json(declaration)
    return data


def _assistant(message: Message, profile: ModelProfile) -> list[dict[str, Any]]:
    dialect = profile.gemini
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            parts.append(_with_signature({"text": block.text}, block.signature, echo=dialect.echo))
        elif isinstance(block, ThinkingBlock):
            if dialect.echo and (block.thinking or block.signature):
                parts.append(_with_signature({"text": block.thinking, "thought": True}, block.signature, echo=True))
        elif isinstance(block, ToolUseBlock):
            call: dict[str, Any] = {"id": block.id} if dialect.call_ids else {}
            call |= {"name": block.name, "args": arguments_object(block)}
            calls.append(_with_signature({"functionCall": call}, block.signature, echo=dialect.echo))
            parts.append(calls[-1])
        elif isinstance(block, ImageBlock):
            parts.append(_image(block))
    if calls and dialect.sign_calls and not any("thoughtSignature" in call for call in calls):
        calls[0]["thoughtSignature"] = _SKIP_SIGNATURE
    return parts


def _with_signature(part: dict[str, Any], signature: str | None, *, echo: bool) -> dict[str, Any]:
    if signature and echo:
        part["thoughtSignature"] = signature
    return part


def _image(block: ImageBlock) -> dict[str, Any]:
    return {"inlineData": {"mimeType": block.media_type, "data": block.data}}


def _user(message: Message, profile: ModelProfile) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    behind: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            parts.append(_result(block, profile, behind))
        elif isinstance(block, TextBlock):
            behind.append({"text": block.text})
        elif isinstance(block, ImageBlock):
            behind.append(_image(block))
    return parts + behind


def _result(block: ToolResultBlock, profile: ModelProfile, following_parts: list[dict[str, Any]]) -> dict[str, Any]:
    dialect = profile.gemini
    result: dict[str, Any] = {"id": block.tool_use_id} if dialect.call_ids else {}
    result["name"] = block.name
    text, shown = split_text_and_images(block, _INSIDE if dialect.result_images == "inside" else _BEHIND)
    if dialect.result_images == "behind":
        following_parts += [_image(part) if isinstance(part, ImageBlock) else {"text": part.text} for part in shown]
    elif shown:
        result["parts"] = [_image(part) for part in shown if isinstance(part, ImageBlock)]
    result["response"] = {"error" if block.is_error else "output": text}
    return {"functionResponse": result}
