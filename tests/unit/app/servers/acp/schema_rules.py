"""The published schema of the Agent Client Protocol, and a check that all sent messages match it."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from acp.connection import StreamDirection, StreamEvent
from referencing import Registry

from tests.conftest import REPOSITORY

_FREE_TEXT = re.compile(r'"(?:[^"\\]|\\.)*[ /0-9](?:[^"\\]|\\.)*"')
"""Strings in JSON that are not words of the schema, which contain no space, slash, or digit."""

_UNSTABLE = {"session/fork": ("ResumeSessionRequest", "NewSessionResponse")}
"""Methods that the schema does not have yet, with the types they correspond to."""


class Rules:
    """The published schema of one version.

    Args:
        folder: The folder with the published files of the protocol.
        version: For example, ``v1``.
        strict: Whether unknown fields are errors.
    """

    def __init__(self, folder: Path, version: str, *, strict: bool = False) -> None:
        self.schema = json.loads((folder / version / "schema.json").read_text())
        self.methods = json.loads((folder / version / "meta.json").read_text())
        self.types = {
            (d.get("x-side"), d.get("x-method"), name.endswith("Response")): name
            for name, d in self.schema["$defs"].items()
            if "x-method" in d
        }
        self._strict = strict
        self._defs = _closed(self.schema["$defs"]) if strict else self.schema["$defs"]
        self._made: dict[str, jsonschema.Draft202012Validator] = {}
        self._problems: dict[tuple[str, str], str] = {}

    def _validator(self, name: str) -> jsonschema.Draft202012Validator:
        if name not in self._made:
            whole = {"allOf": [{"$ref": f"#/$defs/{name}"}], "$defs": self._defs}
            if self._strict:
                whole["unevaluatedProperties"] = False
            self._made[name] = jsonschema.Draft202012Validator(whole, registry=Registry())
        return self._made[name]

    def takes(self, name: str, value: Any) -> bool:
        return self._validator(name).is_valid(value)

    def problem(self, name: str, value: Any) -> str:
        """Return the error of a value, or an empty string. Values that differ only in free text are checked once."""
        key = name, _FREE_TEXT.sub('" "', json.dumps(value))
        if key not in self._problems:
            self._problems[key] = self._find_problem(name, value)
        return self._problems[key]

    def _find_problem(self, name: str, value: Any) -> str:
        found = [
            inner for error in self._validator(name).iter_errors(value) for inner in (error, *(error.context or ()))
        ]
        if not found:
            return ""
        max_depth = max(found, key=lambda error: len(error.absolute_path))
        return f"{name}: {max_depth.json_path}: {max_depth.message[:300]}"

    def fits_some(self, value: Any) -> list[str]:
        return [name for name in self.schema["$defs"] if self.takes(name, value)]

    def name(self, side: str, method: str, *, answer: bool) -> str | None:
        """Return the type name of a method's parameters or result."""
        if method in _UNSTABLE:
            return _UNSTABLE[method][answer]
        return self.types.get((side, method, answer)) or self.types.get(("protocol", method, answer))


def _closed(defs: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions with unknown fields forbidden wherever a value of some type is expected."""

    def close(node: Any, *, value: bool) -> Any:
        if isinstance(node, list):
            return [close(each, value=False) for each in node]
        if not isinstance(node, dict):
            return node
        result: dict[str, Any] = {}
        for key, inner in node.items():
            if key == "properties":
                result[key] = {name: close(each, value=True) for name, each in inner.items()}
            else:
                result[key] = close(inner, value=key == "items")
        if value and {"$ref", "allOf", "anyOf", "oneOf"} & set(node):
            result["unevaluatedProperties"] = False
        return result

    return {name: close(each, value=False) for name, each in defs.items()}


class Watch:
    """Records every message between a client and the agent, and checks all of them at the end."""

    def __init__(self) -> None:
        self.messages: list[tuple[bool, dict[str, Any]]] = []

    def __call__(self, event: StreamEvent) -> None:
        self.messages.append((event.direction is StreamDirection.INCOMING, event.message))

    def check(self) -> Counter[str]:
        """Return how often each type was sent.

        Raises:
            AssertionError: If a message that the agent sent or accepted does not match the schema.
        """
        seen = Counter[str]()
        rules = published()
        if rules is None:
            return seen
        problems: list[str] = []
        for ours, side, method, value, answer in self._values():
            name = rules.name(side, method, answer=answer)
            if name is None:
                problems.append(f"{method} is not of the protocol")
                continue
            seen[name if name != "SessionNotification" else value["update"]["sessionUpdate"]] += 1
            if problem := rules.problem(name, _stable(method, value, answer=answer)):
                problems.append(f"{'agent' if ours else 'client'}: {problem}: {json.dumps(value)[:300]}")
        assert not problems, "\n".join(problems)
        return seen

    def _values(self) -> Iterator[tuple[bool, str, str, Any, bool]]:
        """Iterate over all values that the agent sent or accepted."""
        request: dict[tuple[bool, Any], tuple[str, Any]] = {}
        for ours, message in self.messages:
            assert message.get("jsonrpc") == "2.0", message
            if "method" not in message:
                sent = request.pop((not ours, message["id"]), None)
                if sent is None and "error" in message:
                    continue  # the response to a line that was not a request
                assert sent is not None, message
                method, params = sent
                side = "agent" if ours else "client"
                if ours and "error" in message:
                    continue
                if ours:
                    yield False, side, method, params, False
                if "error" not in message:
                    yield ours, side, method, message.get("result"), True
                continue
            method, params = message["method"], message.get("params")
            if "id" in message:
                request[ours, message["id"]] = method, params
            if ours or "id" not in message:
                yield ours, "client" if ours else "agent", method, params, False


def _stable(method: str, value: Any, *, answer: bool) -> Any:
    """Return a value without the unstable parts of the protocol: forks of sessions."""
    if method in _UNSTABLE and not answer:
        return value
    if method == "initialize" and answer:
        can = dict(value["agentCapabilities"])
        can["sessionCapabilities"] = {k: v for k, v in can["sessionCapabilities"].items() if k != "fork"}
        return {**value, "agentCapabilities": can}
    return value


@cache
def published() -> Rules | None:
    """Return the rules of the protocol version in use, if the published files are next to the checkout."""
    folder = REPOSITORY.parent / "shared" / "material" / "acp"
    return Rules(folder, "v1", strict=True) if folder.is_dir() else None
