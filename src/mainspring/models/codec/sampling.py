"""Fields of the sampling options in each protocol, and the options that a request does not contain; loaded only if some are set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mainspring.models.port import ModelRequest
from mainspring.models.profile import SamplingCapabilities

_SAME = {name: name for name in ("top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")}
SAMPLING_FIELDS: dict[str, Mapping[str, str]] = {
    "chat_completions": {**_SAME, "parallel_tool_calls": "parallel_tool_calls"},
    "responses": {"top_p": "top_p", "parallel_tool_calls": "parallel_tool_calls"},
    "messages": {"top_p": "top_p", "top_k": "top_k", "parallel_tool_calls": "disable_parallel_tool_use"},
    "gemini": {
        "top_p": "topP",
        "top_k": "topK",
        "seed": "seed",
        "presence_penalty": "presencePenalty",
        "frequency_penalty": "frequencyPenalty",
    },
    "ollama": _SAME,
}
"""Field of each option that a protocol has, by the name of the protocol."""


_FLAGS = {"temperature": "temperature", "stop": "stop", "tool_choice": "forced_tools"}
"""The field of the capabilities for each other option."""


def sampling_options(request: ModelRequest) -> dict[str, Any]:
    """Return the sampling options of a request that are set, by name."""
    if request.sampling is None:
        return {}
    given = {name: getattr(request.sampling, name) for name in request.sampling.__struct_fields__}
    if not request.tools:
        del given["parallel_tool_calls"]
    return {name: value for name, value in given.items() if value is not None}


def sampling_fields(protocol: str, request: ModelRequest, unsupported: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a request for its sampling options.

    Args:
        protocol: Name of the protocol.
        request: The request.
        unsupported: Options that the host does not support.
    """
    fields = SAMPLING_FIELDS[protocol]
    options = sampling_options(request).items()
    return {fields[name]: value for name, value in options if name in fields and name not in unsupported}


def omitted_options(
    protocol: str, request: ModelRequest, capabilities: SamplingCapabilities, unsupported: Sequence[str] = ()
) -> list[str]:
    """Return the options of a request that are not sent, because the protocol or the host does not support them.

    Args:
        protocol: Name of the protocol.
        request: The request.
        capabilities: Capabilities of the host.
        unsupported: Further options that the host does not support in this request.
    """
    rejected = {*capabilities.unsupported, *unsupported}
    rejected |= {name for name, flag in _FLAGS.items() if not getattr(capabilities, flag, True)}
    names = [name for name in sampling_options(request) if name in rejected or name not in SAMPLING_FIELDS[protocol]]
    others = {
        "temperature": request.temperature is not None,
        "stop": bool(request.stop),
        "tool_choice": bool(request.tools) and request.tool_choice not in ("auto", "none"),
    }
    return [*names, *[name for name, is_set in others.items() if is_set and name in rejected]]


def without_rejected_options(protocol: str, text: str, capabilities: SamplingCapabilities) -> Iterator[tuple[str, ...]]:
    """Return the unsupported options after a rejection, for each option that an error text, in lower case, mentions."""
    for name, field in SAMPLING_FIELDS[protocol].items():
        words = {re.escape(field.lower()), re.escape(name), re.escape(name.replace("_", ""))}
        if name not in capabilities.unsupported and re.search(rf"(?<![a-z])({'|'.join(words)})(?![a-z])", text):
            yield (*capabilities.unsupported, name)


def format_omitted_options(provider: str, model: str, names: Sequence[str]) -> str:
    """Return a note about options that were not sent."""
    return f"{', '.join(names)}: not sent, because {provider}:{model} does not support this option in this request."
