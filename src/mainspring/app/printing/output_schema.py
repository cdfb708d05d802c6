"""Load the schema of ``--schema``, from a file or inline JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function
from mainspring.policies.structured.options import OUTPUT_TOOL as OUTPUT_TOOL

if TYPE_CHECKING:
    from mainspring.tools.schema.output import OutputSchema
else:
    OutputSchema = lazy_function("mainspring.tools.schema.output", "OutputSchema")

_MAX_BYTES = 1 << 20


def load_output_schema(given: str) -> dict[str, Any]:
    """Load a JSON Schema from a file, or from its text if that starts with a brace. Blocking.

    Raises:
        ConfigError: If the file does not exist, or is not a JSON Schema.
    """
    text, place = (given, "--schema") if given.lstrip().startswith("{") else (_read(given), given)
    try:
        schema = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{place}: Invalid JSON: {error}") from None
    if not isinstance(schema, dict):
        raise ConfigError(
            f'{place}: A JSON Schema must be an object, for example, {{"type": "object", "properties": {{...}}}}'
        )
    output_schema = cast("dict[str, Any]", schema)
    try:
        OutputSchema(output_schema)
    except ConfigError as error:
        raise ConfigError(f"{place}: {str(error).removeprefix('behavior.schema ')}") from None
    return output_schema


def _read(name: str) -> str:
    path = Path(os.path.expanduser(name))
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"--schema {name}: {error.strerror or error}") from None
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"--schema {name}: The file is larger than 1 MiB.")
    return data.decode("utf-8-sig", "replace")
