"""Explain why a provider rejects a setting, and suggest the one that was meant; loaded only for the error."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from mainspring.models.port import REQUEST_OPTIONS
from mainspring.models.provider_table import PROVIDERS
from mainspring.text import to_camel_case

_EQUIVALENTS = {
    "baseUrl": ("endpoint", "projectEndpoint", "resourceName", "url", "apiBase", "host"),
    "apiKey": ("token", "key"),
    "model": ("deployment", "modelDeployment", "modelAlias", "deploymentName"),
    "maxOutputTokens": ("maxTokens",),
    "headers": ("org", "organization", "project", "extraHeaders"),
}
"""Names of other providers and libraries for a setting."""

_WITHOUT_SETTING = ("stop", "tool_choice", "extra_body")
"""Options of requests that only code can set."""


def explain_unknown_setting(
    provider: str, name: str, known: Iterable[str], *, spell: Callable[[str], str] = str
) -> str:
    """Return why a provider does not support a setting, and the setting that was meant.

    Args:
        provider: Name of the provider.
        name: The setting, in camelCase.
        known: The settings that it supports.
        spell: Function that spells a name as the user must write it.
    """
    known = tuple(known)
    per_request = {to_camel_case(each): each for each in REQUEST_OPTIONS}
    owners = [profile.name for profile in PROVIDERS.values() if name in profile.settings]
    meant = next((each for each, others in _EQUIVALENTS.items() if name in others and each in known), None)
    if name in per_request:
        text = f"{spell(name)!r} is an option of requests, not a setting of {provider}."
        return f"{text} {_describe_option(per_request[name], name)}"
    near = difflib.get_close_matches(name, {*known, *per_request}, 1, 0.6)
    if owners:
        text = f"{spell(name)!r} is a setting of {' and '.join(owners)}, not of {provider}."
    else:
        text = f"Unknown setting: {spell(name)!r}. {provider} does not support it."
        meant = meant or next(iter(near), None)
    if meant is None:
        return f"{text} Available settings: {', '.join([spell(each) for each in known])}."
    hint = f"Did you mean {spell(meant)!r}?"
    if meant not in known:
        hint += f" It is an option of requests. {_describe_option(per_request[meant], meant)}"
    return f"{text} {hint}"


def _describe_option(option: str, setting: str) -> str:
    """Return how to set an option of requests."""
    in_settings = "" if option in _WITHOUT_SETTING else f", or the setting agent.{setting}"
    return f"Use {option}=... of Behavior or of a call{in_settings}."
