"""Constraints of msgspec, pydantic, and annotated_types: in the schema, and enforced wherever a value is created."""

import dataclasses
import subprocess
import sys
from decimal import Decimal
from typing import Annotated, Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import annotated_types as at
import attrs
import msgspec
import pydantic
import pytest
from msgspec import Meta
from pydantic import Field
from typing_extensions import Doc

from mainspring import Agent
from mainspring.errors import ToolError
from mainspring.testing import ScriptedCall, ScriptedModel
from mainspring.tools import tool
from mainspring.tools.schema.function import schema_from_signature, schema_from_type
from mainspring.tools.validation import validate

T = TypeVar("T")


class Size(msgspec.Struct, rename="camel"):
    """A size."""

    wide_side: Annotated[int, Field(ge=1, le=9)]
    name: Annotated[str, "What it is called."] = "box"


@dataclasses.dataclass
class Order:
    count: Annotated[int, at.Gt(0)]
    sizes: list[Size] = dataclasses.field(default_factory=list)
    note: str = Field(default="none", max_length=5)


class Filter(TypedDict):
    top: NotRequired[Annotated[int, at.Interval(ge=1, lt=10)]]


@attrs.define
class Box:
    _weight: Annotated[float, at.Le(2.5)]


class Even(pydantic.BaseModel):
    n: Annotated[int, Field(multiple_of=2)]


class Page(msgspec.Struct, Generic[T]):
    items: Annotated[list[T], at.MinLen(1)]


class Holder(msgspec.Struct, tag="holder", forbid_unknown_fields=True):
    even: Even
    inner: "Holder | None" = None
    code: Annotated[str, Field(pattern="^[a-z]+$")] = "a"


CASES: list[tuple[Any, dict[str, Any], list[Any], list[Any]]] = [
    (Annotated[int, Field(ge=1, le=7, description="Days.")], {"minimum": 1, "maximum": 7, "description": "Days."}, [1, 7], [0, 8, "x"]),
    (Annotated[int, at.Ge(1), at.Le(7)], {"minimum": 1, "maximum": 7}, [1, 7], [0, 8]),
    (Annotated[int, at.Ge(1), at.Ge(3), at.Gt(3)], {"exclusiveMinimum": 3}, [4], [1, 3]),
    (Annotated[int, Field(gt=0.5)], {"minimum": 1}, [1], [0]),
    (Annotated[float, at.Interval(gt=0, lt=1)], {"exclusiveMinimum": 0, "exclusiveMaximum": 1}, [0.5], [0.0, 1, 1.5]),
    (Annotated[int, at.MultipleOf(4), Meta(multiple_of=6)], {"multipleOf": 12}, [0, 12], [4, 6]),
    (Annotated[str, at.Len(1, 3)], {"minLength": 1, "maxLength": 3}, ["a", "abc"], ["", "abcd"]),
    (Annotated[list[int], at.MinLen(1), at.MaxLen(2)], {"minItems": 1, "maxItems": 2}, [[1]], [[], [1, 2, 3]]),
    (Annotated[dict[str, int], at.Len(1, 1)], {"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
    (Annotated[str, Meta(pattern="^a+$", examples=["aa"], title="As")], {"pattern": "^a+$", "examples": ["aa"], "title": "As"}, ["aa"], ["b"]),
    (Annotated[str, Field(pattern="^a", title="As", examples=["a"], deprecated=True)], {"pattern": "^a", "title": "As", "deprecated": True}, ["ab"], ["b"]),
    (Annotated[str, pydantic.StringConstraints(min_length=2, pattern="^x")], {"minLength": 2, "pattern": "^x"}, ["xx"], ["x", "yy"]),
    (Annotated[int | None, Field(ge=1)], {}, [None, 1], [0]),
    (Annotated[list[int] | str, at.MinLen(1)], {}, [[1], "a"], [[], ""]),
    (list[Annotated[int, at.Ge(0)]], {"items": {"type": "integer", "minimum": 0}}, [[], [0]], [[-1]]),
    (dict[str, Annotated[str, at.MaxLen(1)]], {}, [{"a": "b"}], [{"a": "bc"}]),
    (tuple[Annotated[int, at.Ge(1)], str], {}, [[1, "a"]], [[0, "a"]]),
    (Annotated[str, "Plain words."], {"description": "Plain words."}, ["x"], [[1]]),
    (Annotated[str, Doc("Documented.")], {"description": "Documented."}, ["x"], [[1]]),
    (Annotated[int, None, at.Unit("m")], {}, [1], ["x"]),
    (pydantic.conint(ge=2), {"minimum": 2}, [2], [1]),
    (pydantic.PositiveInt, {"exclusiveMinimum": 0}, [1], [0]),
    (Annotated[Decimal, Field(gt=0)], {}, [1, "2.5"], [0, "-1"]),
    (pydantic.HttpUrl, {"format": "uri"}, ["http://a.b/"], [5]),
    (Size, {"description": "A size."}, [{"wideSide": 1}], [{"wideSide": 0}, {"wideSide": 10}, {}]),
    (list[Size], {}, [[{"wideSide": 9, "name": "x"}]], [[{"wideSide": 0}]]),
    (Order, {}, [{"count": 1, "sizes": [{"wideSide": 1}], "note": "abc"}], [{"count": 0}, {"count": 1, "note": "abcdef"}, {"count": 1, "sizes": [{"wideSide": 0}]}]),
    (Filter, {}, [{}, {"top": 9}], [{"top": 10}]),
    (Box, {}, [{"_weight": 2.5}], [{"_weight": 3}]),
    (Even, {}, [{"n": 2}], [{"n": 3}]),
    (Page[Size], {}, [{"items": [{"wideSide": 1}]}], [{"items": []}, {"items": [{"wideSide": 0}]}]),
    (Holder, {"additionalProperties": False}, [{"type": "holder", "even": {"n": 2}, "inner": {"type": "holder", "even": {"n": 4}}}],
     [{"even": {"n": 2}}, {"type": "x", "even": {"n": 2}}, {"type": "holder", "even": {"n": 2}, "code": "A"},
      {"type": "holder", "even": {"n": 2}, "zz": 1}, {"type": "holder", "even": {"n": 2}, "inner": {"type": "holder", "even": {"n": 1}}}]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "keywords", "good", "bad"), CASES)
def test_constraint_is_in_the_schema_and_enforced(kind: Any, keywords: dict[str, Any], good: list[Any], bad: list[Any]):
    def run(value: Any, other: int = 0): ...

    run.__annotations__["value"] = kind
    parameter = schema_from_signature(run)
    schema, decode = schema_from_type(kind)
    described = parameter.input_schema["properties"]["value"]
    assert {key: described.get(key) for key in keywords} == keywords
    assert {key: schema.get(key) for key in keywords} == keywords
    for value in good:
        assert validate(schema, value) == []
        assert repr(parameter.decode({"value": value})["value"]) == repr(decode(value))
    for value in bad:
        assert validate(schema, value) or "Decimal" in str(kind)  # the schema of a text has no bounds
        with pytest.raises(ToolError, match=r"\$\.value"):
            parameter.decode({"value": value})
        with pytest.raises(ValueError, match=r"\$"):
            decode(value)


def test_records_are_created_with_their_defaults():
    assert schema_from_type(Order)[1]({"count": 1, "sizes": [{"wideSide": 2}]}) == Order(1, [Size(2)], "none")
    assert schema_from_type(Box)[1]({"_weight": 1}) == Box(1)
    assert schema_from_type(Holder)[1]({"type": "holder", "even": {"n": 2}}) == Holder(Even(n=2))


TAGS: Any = Field(default_factory=lambda: ["x"], max_length=2)
MORE: Any = Field(default=[1])


def test_field_is_a_default():
    def f(
        n: int = Field(default=3, ge=1, description="How many."),
        tags: list[str] = TAGS,
        more: list[int] = MORE,
        must: int = Field(ge=1),
        *,
        inside: Annotated[int, Field(default=7)],
    ): ...

    schema = schema_from_signature(f)
    assert schema.input_schema["required"] == ["must"]
    assert schema.input_schema["properties"]["n"] == {
        "type": "integer",
        "minimum": 1,
        "description": "How many.",
        "default": 3,
    }
    first = schema.decode({"must": 1})
    assert first == {"must": 1, "n": 3, "tags": ["x"], "more": [1], "inside": 7}
    first["more"].append(2)
    first["tags"].append("y")
    assert schema.decode({"must": 1}) == {"must": 1, "n": 3, "tags": ["x"], "more": [1], "inside": 7}
    assert schema.decode({"must": 1, "n": 5})["n"] == 5
    with pytest.raises(ToolError, match=r"2 problems:\n- \$\.n: 0 .*\n- \$: missing required property 'must'"):
        schema.decode({"n": 0})


def test_predicates_are_enforced():
    def f(
        n: Annotated[int, at.Predicate(lambda n: n % 2 == 0)], names: list[Annotated[str, at.Predicate(str.islower)]]
    ): ...

    schema = schema_from_signature(f)
    assert schema.decode({"n": 2, "names": ["a"]}) == {"n": 2, "names": ["a"]}
    with pytest.raises(ToolError) as caught:
        schema.decode({"n": 1, "names": ["a", "B"], "zz": 1})
    assert str(caught.value) == (
        "3 problems:\n- $: unknown property 'zz'; valid properties: 'n', 'names'\n- $.n: 1 does not satisfy the condition "
        f'{test_predicates_are_enforced.__name__}.<locals>.<lambda>\n- $.names[1]: "B" does not satisfy the condition str.islower'
    )


class Strange:
    ge = 5


class Named(NamedTuple):
    n: Annotated[int, at.Ge(1)]


class Deep(TypedDict):
    order: Annotated[int, Strange()]


REFUSED: list[tuple[Any, str]] = [
    (Annotated[int, Strange()], "in Annotated is not a known constraint. Use msgspec.Meta, pydantic.Field, annotated_types"),
    (Annotated[int, lambda n: n > 1], "is not a known constraint"),
    (Annotated[str, at.Ge(1)], "ge=1 does not apply to str"),
    (Annotated[bool, at.Ge(1)], "ge=1 does not apply to bool"),
    (Annotated[int | str, at.Ge(1)], "ge=1 does not apply to str. Constrain a number"),
    (Annotated[Decimal, at.Ge(1)], "ge=1 does not apply to Decimal"),
    (Annotated[Any, at.MinLen(1)], "min_length=1 does not apply to"),
    (Annotated[str, Field(pattern="(")], "The pattern '(' cannot be used: missing )"),
    (Annotated[str, Field(pattern="a"), Meta(pattern="b")], "two values for pattern: 'a' and 'b'"),
    (Annotated[int, Field(alias="m")], "Field(alias=...) has no effect here. Remove it"),
    (Annotated[int, at.Timezone("UTC")], "is not supported. Check the value in the function"),
    (Annotated[int, Field(json_schema_extra=lambda schema: None)], "must be a dict"),
    (Named, "Field 'n' of Named: use a dataclass instead of a named tuple"),
    (list[Deep], "Field 'order' of Deep: <"),
    (Annotated[Size, pydantic.AfterValidator(len)], "pydantic does not support the type"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message"), REFUSED)
def test_unknown_constraint_is_refused_when_the_tool_is_made(kind: Any, message: str):
    def run(fine: int, value: Any): ...

    run.__annotations__["value"] = kind
    with pytest.raises(TypeError) as caught:
        tool(run)
    assert str(caught.value).startswith("Parameter 'value' of run(): ")
    assert message in str(caught.value)
    with pytest.raises(TypeError, match="has no JSON Schema"):
        schema_from_type(kind)


async def test_model_reads_all_problems_of_a_call_at_once():
    calls: list[int] = []

    class Positive(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n < 0:
                raise ValueError("must be positive")
            return n

    @tool
    def plan(
        days: Annotated[int, Field(ge=1)], code: Annotated[str, at.Predicate(str.isupper)], first: Positive
    ) -> str:
        """Plan."""
        calls.append(days)
        return "done"

    model = ScriptedModel(
        ScriptedCall("plan", {"days": 0, "code": "a", "first": {"n": -1}, "zz": 1}),
        ScriptedCall("plan", {"days": 1, "code": "a", "first": {"n": 1}}),
        ScriptedCall("plan", {"days": "1", "code": "A", "first": {"n": 1}}),
        "Done.",
    )
    result = await Agent(model, tools=[plan]).run("go")
    texts = [block.text for message in result.messages[1:] for block in getattr(message, "tool_results", ())]
    assert texts == [
        'Validation error: tool "plan": 4 problems:\n- $.days: 0 is less than the minimum of 1\n'
        "- $: unknown property 'zz'; valid properties: 'days', 'code', 'first'\n"
        '- $.code: "a" does not satisfy the condition str.isupper\n- $.first.n: Value error, must be positive',
        'Validation error: tool "plan": $.code: "a" does not satisfy the condition str.isupper',
        "done",
    ]
    assert calls == [1]


def test_pydantic_and_annotated_types_are_not_imported():
    code = (
        "import sys, typing\nfrom mainspring.tools.schema.function import schema_from_signature as s\n"
        "class A(typing.TypedDict):\n    n: typing.Annotated[int, 'text']\n"
        "def f(a: A, b: typing.Annotated[str, 'text'] = ''): ...\n"
        "assert s(f).input_schema['properties']['a']['properties']['n']['description'] == 'text'\n"
        "assert not {'pydantic', 'annotated_types'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@dataclasses.dataclass
class Price:
    euros: Decimal = Field(decimal_places=2)


async def test_field_of_a_dataclass_may_have_a_constraint_that_only_pydantic_knows() -> None:
    schema, decode = schema_from_type(Price)
    assert schema["properties"]["euros"]["anyOf"]
    assert decode({"euros": "1.25"}) == Price(Decimal("1.25"))
    with pytest.raises(ValueError, match="decimal places"):
        decode({"euros": "1.255"})
