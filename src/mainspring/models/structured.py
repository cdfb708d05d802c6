"""Answers that follow a schema: read, checked, and given back as text where they do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from mainspring.lazy import lazy_re
from mainspring.models.port import ModelResponse

Schema = Mapping[str, Any] | type
"""A JSON Schema, a type that msgspec knows (struct, dataclass, TypedDict), or a pydantic model."""

_FENCE = lazy_re(r"\A```[a-zA-Z]*\s*\n(.*?)\n?```\Z", re.DOTALL)


class StructuredResponse(Struct, frozen=True, eq=False):
    """An answer that was to follow a schema.

    Attributes:
        response: The answer itself.
        value: What was read out of it: of the type that was asked for, or plain JSON values for a JSON Schema; ``None``
            where the answer does not fit.
        problems: Why it does not fit; empty if it does.
    """

    response: ModelResponse
    value: Any = None
    problems: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The answer's text, which is what is left where it does not fit."""
        return self.response.text


def json_schema(schema: Schema) -> dict[str, Any]:
    """The JSON Schema that a schema stands for."""
    if isinstance(schema, Mapping):
        return dict(schema)
    if callable(of_pydantic := getattr(schema, "model_json_schema", None)):
        return cast("dict[str, Any]", of_pydantic())
    return msgspec.json.schema(schema)


def parse_structured(response: ModelResponse, schema: Schema) -> StructuredResponse:
    """Read an answer by a schema. A fence of Markdown around it is no obstacle. Never raises for what a model wrote."""
    text = response.text.strip()
    fenced = _FENCE.match(text)
    try:
        return StructuredResponse(response, _parser(schema)(fenced[1] if fenced else text))
    except _SchemaMismatchError as error:
        return StructuredResponse(response, problems=error.problems)
    except (ValueError, RecursionError) as error:  # what msgspec and pydantic raise
        return StructuredResponse(response, problems=(str(error),))


class _SchemaMismatchError(Exception):
    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _parser(schema: Schema) -> Callable[[str], Any]:
    if isinstance(schema, Mapping):
        return lambda text: _validate(msgspec.json.decode(text), schema)
    of_pydantic = getattr(schema, "model_validate_json", None)
    return of_pydantic if callable(of_pydantic) else msgspec.json.Decoder(schema).decode


def _validate(value: Any, schema: Mapping[str, Any]) -> Any:
    from jsonschema.validators import validator_for  # 100 ms to load
    from referencing import Registry

    validator = validator_for(schema)(schema, registry=Registry())  # the empty registry fetches nothing
    problems = tuple([f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)])
    if problems:
        raise _SchemaMismatchError(problems)
    return value
