"""The JSON Schema of a settings file, for completion and checks in editors: ``mainspring config schema`` prints it."""

from __future__ import annotations

import json
import re
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
    default = {"description": "Provider of models without a provider prefix", "type": "string"}
    definitions["Providers"] = {
        "title": "Providers",
        "description": "`default`, and a section for each provider by name.",
        "type": "object",
        "properties": {"default": default, **{name: _provider_section(name) for name in PROVIDERS}},
        "additionalProperties": {"$ref": "#/$defs/ProviderSettings"},
    }
    root = definitions.pop("AppConfig")
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
    properties: dict[str, Any] = {
        setting: {"description": f"See docs/{profile.docs}"}
        if setting in profile.settings
        else {"$ref": f"#/$defs/ProviderSettings/properties/{setting}"}
        for setting in provider_setting_types(name)
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


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
