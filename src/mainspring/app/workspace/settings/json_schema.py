"""The JSON Schema of a settings file, for completion and checks in editors: ``mainspring config schema`` prints it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from mainspring.app.workspace.settings.schema import AppConfig, ProviderSettings
from mainspring.app.workspace.settings.validation import SCHEMA_KEY, provider_setting_types
from mainspring.events.codec import unindent_descriptions
from mainspring.models.provider_table import PROVIDERS

_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def settings_schema() -> str:
    """Create the JSON Schema of a settings file."""
    _, definitions = msgspec.json.schema_components((AppConfig, ProviderSettings), ref_template="#/$defs/{name}")
    definitions = unindent_descriptions(definitions)
    for kind in _section_types(AppConfig):
        if kind.__name__ in definitions:
            _describe(definitions[kind.__name__], kind)
    provider = definitions["ProviderSettings"]
    provider["properties"].pop("extra", None)
    provider["properties"]["baseUrl"] |= msgspec.json.schema(provider_setting_types("")["baseUrl"])
    default = {"description": "Provider of models without a provider prefix", "type": "string"}
    sections = {name: _provider_section(name) for name in PROVIDERS}
    definitions["Providers"] = {
        "title": "Providers",
        "description": "`default`, and a section for each provider by name.",
        "type": "object",
        "properties": {"default": default, **sections},
        "additionalProperties": {"$ref": "#/$defs/ProviderSettings"},
    }
    root = definitions.pop("AppConfig")
    for section in (*_with_subsections(root, definitions), provider, *sections.values(), definitions["Providers"]):
        section["properties"] = {
            name: _or_null(_or_single_text(value)) for name, value in section["properties"].items()
        }
    for mapping in (definitions["Providers"], root["properties"]["languageServers"]["anyOf"][0]):
        mapping["additionalProperties"] = _or_null(mapping["additionalProperties"])
    root["properties"] = {SCHEMA_KEY: {"type": "string"}, **root["properties"]}
    for section in (root, *definitions.values()):
        if section.get("title") != "Providers":
            section.setdefault("additionalProperties", False)
        for value in section.get("properties", {}).values():
            value.pop("default", None)  # unset settings have defaults, which editors must not insert
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Mainspring settings"}
    return json.dumps({**root, **head, "$defs": definitions}, indent=2, sort_keys=False) + "\n"


def _provider_section(name: str) -> dict[str, Any]:
    """Create the schema of the section of a built-in provider, which supports more or fewer settings than others."""
    profile = PROVIDERS[name]
    described = {"description": f"See docs/{profile.docs}"}
    properties: dict[str, Any] = {
        setting: {**described, **msgspec.json.schema(kind)}
        if setting in profile.settings or (setting == "baseUrl" and profile.free_address)
        else {"$ref": f"#/$defs/ProviderSettings/properties/{setting}"}
        for setting, kind in provider_setting_types(name).items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _with_subsections(section: dict[str, Any], definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Iterate over the schema of a section and of its subsections, without objects in lists and mappings."""
    yield section
    for value in section["properties"].values():
        if "$ref" in value:
            yield from _with_subsections(definitions[value["$ref"].rpartition("/")[2]], definitions)


def _or_single_text(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows a single text if it allows a list of texts."""
    items = schema.get("items", {})
    if schema.get("type") != "array" or not (items.get("type") == "string" or "enum" in items):
        return schema
    described = {"description": schema["description"]} if "description" in schema else {}
    return {**described, "anyOf": [{"type": "array", "items": items}, items]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows null, which sets nothing."""
    null = {"type": "null"}
    if null in schema.get("anyOf", ()):
        return schema
    rest = {name: value for name, value in schema.items() if name not in ("description", "default")}
    described = {"description": schema["description"]} if "description" in schema else {}
    return described | (
        {**rest, "anyOf": [*rest["anyOf"], null]} if rest.keys() == {"anyOf"} else {"anyOf": [rest, null]}
    )


def _section_types(kind: type[Struct]) -> set[type[Struct]]:
    """Return the type of a section and of all its subsections."""
    found = {kind, ProviderSettings}
    for info in fields(kind):
        for inner in _struct_types(info.type):
            if inner not in found:
                found |= _section_types(inner)
    return found


def _struct_types(kind: Any) -> list[type[Struct]]:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return [kind]
    return [found for inner in get_args(kind) for found in _struct_types(inner)]


def _describe(section: dict[str, Any], kind: type[Struct]) -> None:
    """Set the description of each setting of a section from the docstring of its attribute."""
    text = cleandoc(kind.__doc__ or "")
    descriptions = {name: " ".join(words.replace("``", "`").split()) for name, words in _ATTRIBUTE.findall(text)}
    section["description"] = " ".join(text.partition("\n\n")[0].split())
    for info in fields(kind):
        value = section["properties"].get(info.encode_name)
        if value is not None and info.name in descriptions:
            section["properties"][info.encode_name] = {"description": descriptions[info.name], **value}
