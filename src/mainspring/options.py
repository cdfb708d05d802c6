"""Declaration of options: the name, type, default, limits, and description of each, in one place.

A policy declares its options as a group next to its code:

    class RepeatedCallOptions(Options):
        repeat_hint: int | None = option(default=None, ge=1, doc="Number of turns ...")

Type checkers treat a group as a class with one keyword argument for each option. `RunOptions` inherits all groups. The checks,
the settings, the environment variables, the flags, and the tables in the docs are derived from these declarations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

from msgspec import UNSET, Meta, Struct
from msgspec.structs import fields

from mainspring.lazy import lazy_function
from mainspring.text import suggest_name

_find_run_option_name = lazy_function("mainspring.other_names", "find_run_option_name")

_T = TypeVar("_T")
OptionsT = TypeVar("OptionsT", bound="Options")

DOC_INDENT = "" if sys.version_info >= (3, 13) else "    "
"""Indentation in the docstring of a class: Python 3.13 removes it."""


class AgentSetting(Struct, frozen=True, kw_only=True):
    """The setting ``agent.NAME`` for an option, its environment variable ``MAINSPRING_NAME``, and its flag.

    Attributes:
        key: Name in camelCase; empty for that of the option.
        limits: Limits that replace those of the option; None keeps them.
        off: Value that sets the option to None, since a settings file cannot.
        default: Value of the command if the user sets none.
        untrusted: What an untrusted project may set: ``lower`` values than the user's, ``any`` value, or nothing.
        flag: Name of the flag; empty for none.
        metavar: Name of the flag's value.
        doc: Description that replaces that of the option.
    """

    key: str = ""
    limits: Meta | None = None
    off: Any = UNSET
    default: Any = UNSET
    untrusted: Literal["", "lower", "any"] = ""
    flag: str = ""
    metavar: str = ""
    doc: str = ""


class OptionSpec(Struct, kw_only=True, eq=False):
    """One option, as declared; see `option`.

    Attributes:
        name: Its name.
        owner: The group that declares it.
    """

    default: Any
    doc: str
    ge: float | None
    le: float | None
    check: tuple[Callable[[Any], bool], str] | None
    setting: AgentSetting | None
    names_tools: bool
    inherited: bool
    name: str = ""
    owner: type[Options] | None = None

    @property
    def kind(self) -> Any:
        """The annotated type without None."""
        return _split_type(self._annotation)[0]

    @property
    def is_optional(self) -> bool:
        """Whether the value may be None."""
        return _split_type(self._annotation)[2]

    @property
    def _annotation(self) -> Any:
        assert self.owner is not None
        return _annotation(self.owner, self.name)

    def find_problem(self, value: Any) -> str:
        """Return the problem with a value; empty if it is valid."""
        if value is self.default or (value is None and self.is_optional):
            return ""
        is_valid, expected = self._validate(value)
        if not is_valid:
            return f"{self.name} must be {expected}, not {value!r:.80}"
        return find_nested_problem(self.name, value)

    def _validate(self, value: Any) -> tuple[bool, str]:
        if self.check is not None:
            is_valid, expected = self.check
            return is_valid(value), expected
        kind = self.kind
        if kind is int:
            return _is_number(value, int) and value >= self.ge, f"a whole number of at least {self.ge}"
        if kind is float:
            return _is_number(value) and _is_within(value, self.ge, self.le), _describe_range(self.ge, self.le)
        if get_origin(kind) is Literal:
            choices = (*([None] if self.is_optional else []), *get_args(kind))
            return value in choices, " or ".join([repr(choice) for choice in choices])
        if isinstance(kind, type) and issubclass(kind, Struct):
            return isinstance(value, kind), f"a {kind.__name__}"
        return True, ""


def option(
    *,
    default: _T,
    doc: str,
    ge: float | None = None,
    le: float | None = None,
    check: tuple[Callable[[Any], bool], str] | None = None,
    setting: AgentSetting | None = None,
    names_tools: bool = False,
    inherited: bool = True,
) -> _T:
    """Declare an option of an `Options` group. Its name and type are those of the attribute.

    Args:
        default: Its default.
        doc: Its description, in Markdown.
        ge: Minimum of a number.
        le: Maximum of a number.
        check: Function that returns True if a value is valid, and a description of valid values for the error; for types that the
            annotation does not check.
        setting: Its setting in the command; None for none.
        names_tools: Whether the value contains names of tools, which are checked when a run starts.
        inherited: Whether subagents inherit it.
    """
    declared: Any = OptionSpec(
        default=default, doc=doc, ge=ge, le=le, check=check, setting=setting, names_tools=names_tools,
        inherited=inherited,
    )  # fmt: skip
    return declared


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
class Options:
    """Base of all groups of options. Immutable; stores only the options that are set, all others have their default.

    Attributes:
        declared: The options of the group, by name.
        page: The part of the docs that explains the group, relative to ``docs/``.
    """

    declared: ClassVar[Mapping[str, OptionSpec]] = {}
    page: ClassVar[str] = ""

    def __init_subclass__(cls, *, page: str = "") -> None:
        own = {name: each for name, each in vars(cls).items() if isinstance(each, OptionSpec)}
        for name, each in own.items():
            each.name, each.owner = name, cls
            setattr(cls, name, each.default)
        inherited = [each for base in cls.__bases__ if issubclass(base, Options) for each in base.declared.items()]
        cls.declared = {**dict(inherited), **own}
        cls.page = page
        lines = [f"{DOC_INDENT}    {name}: {each.doc} Default {each.default!r}." for name, each in cls.declared.items()]
        cls.__doc__ = "\n".join([(cls.__doc__ or "").rstrip(), "", f"{DOC_INDENT}Attributes:", *lines])

    def __init__(self, **given: Any) -> None:
        for name in given:
            if name not in self.declared:
                other = _find_run_option_name(name)
                hint = f"Did you mean {other!r}?" if other in self.declared else suggest_name(name, self.declared)
                raise TypeError(f"Unexpected keyword argument {name!r}{hint and f'. {hint}'}")
        self.__dict__.update(given)

    @property
    def given(self) -> Mapping[str, Any]:
        """The options that are set, by name, in the order of their declaration."""
        return {name: self.__dict__[name] for name in self.declared if name in self.__dict__}

    def merged_with(self, base: OptionsT) -> OptionsT:
        """Return these options, and those of ``base`` where these are not set."""
        kind = type(self) if isinstance(self, type(base)) else type(base)
        return kind(**{**base.__dict__, **self.__dict__})

    def without(self: OptionsT, *names: str) -> OptionsT:
        """Return the options with these not set."""
        return type(self)(**{name: value for name, value in self.__dict__.items() if name not in names})

    def find_problems(self) -> list[str]:
        """Return the problems with the options that are set, in the order of their declaration."""
        problems = [self.declared[name].find_problem(value) for name, value in self.given.items()]
        return [problem for problem in problems if problem]

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"immutable type: {type(self).__name__!r}")

    __delattr__: Any = __setattr__

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash((type(self), frozenset(self.__dict__.items())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join([f'{name}={value!r}' for name, value in self.__dict__.items()])})"


@cache
def _annotation(owner: type, name: str) -> Any:
    """Return the annotation of one attribute: evaluating those of all options takes a millisecond at startup."""
    return eval(owner.__annotations__[name], vars(sys.modules[owner.__module__]))


def _split_type(annotation: Any) -> tuple[Any, Meta | None, bool]:
    """Return a type without None, its limits, and whether None is allowed."""
    is_union = get_origin(annotation) in (Union, UnionType)
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)] if is_union else [annotation]
    kind: Any = kinds[0] if len(kinds) == 1 else annotation
    limits = next((each for each in getattr(kind, "__metadata__", ()) if isinstance(each, Meta)), None)
    return (kind if limits is None else get_args(kind)[0]), limits, is_union and type(None) in get_args(annotation)


@cache
def _limits_within(kind: type[Struct]) -> tuple[tuple[str, Meta, bool], ...]:
    """Return the fields of a value that have limits, each with the limits, and whether None is allowed."""
    found = [(field.name, *_split_type(field.type)[1:]) for field in fields(kind)]
    return tuple([(name, limits, is_optional) for name, limits, is_optional in found if limits is not None])


def find_nested_problem(name: str, value: Any) -> str:
    """Return the problem within a composite value, for example a field outside of its limits; empty if it is valid.

    Args:
        name: Name of the value in the text.
        value: A struct, or a mapping of names to structs.
    """
    if isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return next((p for key, each in named.items() if (p := find_nested_problem(f"{name}[{key!r}]", each))), "")
    return next((f"{name}: {problem}" for problem in _iter_problems(value)), "") if isinstance(value, Struct) else ""


def _iter_problems(value: Struct) -> Iterator[str]:
    for part, limits, is_optional in _limits_within(type(value)):
        given = getattr(value, part)
        if given is None and is_optional:
            continue
        if not _is_number(given) or not _is_within(given, limits.ge, limits.le):
            yield f"{part} must be {_describe_range(limits.ge, limits.le)}, not {given!r:.80}"
    find_problem: Callable[[], str] | None = getattr(value, "find_problem", None)
    if find_problem is not None and (problem := find_problem()):
        yield problem


def _is_number(value: Any, kind: Any = int | float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_within(value: Any, low: float | None, high: float | None) -> bool:
    return (-float("inf") if low is None else low) <= value <= (float("inf") if high is None else high)


def _describe_range(low: float | None, high: float | None) -> str:
    return f"a number of at least {low}" if high is None else f"a number from {low} to {high}"


def is_named_mapping(value: Any, fits: Callable[[Any], bool]) -> bool:
    """Return True if a value is a mapping of names to values that fit."""
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and fits(each) for key, each in cast("Mapping[Any, Any]", value).items()
    )
