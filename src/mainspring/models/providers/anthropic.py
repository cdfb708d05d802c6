"""Anthropic, and other hosts of Anthropic Messages."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mainspring.lazy import lazy_re
from mainspring.models.auth.credentials import get_setting, require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import AnthropicCapabilities, ThinkingOff
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers import http as api_versions
from mainspring.models.providers.http import (
    http_profile,
    make_credential,
    provider_setting,
    static_api_key,
    timeouts_from,
)
from mainspring.models.wire.anthropic import AnthropicProtocol

_NAME = "anthropic"
_HOST = PROVIDERS[_NAME]
_KEY_HEADER = "x-api-key"
BETA_HEADER = "anthropic-beta"
PATH = "/v1/messages"

CONTEXT_BETA = "context-management-2025-06-27"
"""Beta header required by server-side context management."""

CLEAR_TOOL_USES: dict[str, Any] = {"edits": [{"type": "clear_tool_uses_20250919"}]}
"""Value of ``context_management: true``: old tool results are cleared when the conversation grows long."""

_VERSION = lazy_re(r"claude-(?:[a-z]+-)?(\d)(?:[-.](\d{1,2}))?(?!\d)")
_FAMILY = lazy_re(r"claude-(?:\d[\d.-]*-)?([a-z]+)")
_ALWAYS_THINKING_FAMILIES = ("fable", "mythos")
"""Model families whose thinking cannot be turned off."""

_EFFORTS_4 = ("low", "medium", "high", "max")
_EFFORTS_5 = ("low", "medium", "high", "xhigh", "max")


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of Anthropic, or of a host at ``base_url``.

    Own settings, in ``extra`` or at the top level: ``extra_betas`` (names for the header ``anthropic-beta``),
    ``context_management`` (true, or the value to send), ``cache_ttl`` (``5m`` or ``1h``), ``anthropic_version``.

    Raises:
        ProviderConfigError: The key is missing, or a setting is wrong.
    """
    home = get_setting(None, *_HOST.url_variables) or _HOST.base_url
    base_url = get_setting(config.base_url) or home
    key = require_key(_NAME, static_api_key(config), base_url=base_url, home=home)
    model = config.model or _HOST.model
    profile = http_profile(
        config,
        provider=_NAME,
        model=model,
        base_url=base_url,
        path=PATH,
        capabilities=_apply_settings(config, anthropic_capabilities(model)),
        key_header=_KEY_HEADER,
        headers={"anthropic-version": provider_setting(config, "anthropic_version") or api_versions.ANTHROPIC},
    )
    profile = replace(profile, headers=_with_betas(profile.headers, profile.messages))
    return HttpModel(profile, AnthropicProtocol(), make_credential(config, key), timeouts=timeouts_from(config))


def anthropic_capabilities(model: str) -> AnthropicCapabilities:
    """Return the capabilities of a Claude model by its name; nothing is assumed about other models.

    Source: Anthropic's migration guides up to Claude 5.5 (November 2026) and recorded rejections.
    """
    name = model.lower()
    found = _VERSION.search(name)
    if found is None:
        return AnthropicCapabilities()
    version = (int(found[1]), int(found[2] or 0))
    words = _FAMILY.search(name)
    family = words[1] if words else ""
    if version < (3, 7):
        return AnthropicCapabilities(thinking="none", json_schema=False)
    if version < (4, 6):
        return AnthropicCapabilities(json_schema=version >= (4, 5) or (family == "opus" and version >= (4, 1)))
    if version < (4, 7):
        return AnthropicCapabilities(thinking="both", efforts=_EFFORTS_4, prefill=False)
    off = _thinking_off_mode(family, version)
    strict = version >= ((5, 1) if family in _ALWAYS_THINKING_FAMILIES else (5, 5))
    return AnthropicCapabilities(
        thinking="adaptive",
        thinking_off=off,
        display="summarized",
        drop_unbound=strict and family != "mythos",
        efforts=_EFFORTS_5,
        temperature=False,
        unsupported=("top_p", "top_k"),
        forced_tools=not strict or off == "disabled",
        prefill=False,
    )


def _thinking_off_mode(family: str, version: tuple[int, int]) -> ThinkingOff:
    """Return how to turn off thinking for newer models, which think by default since 5.0."""
    if family in _ALWAYS_THINKING_FAMILIES:
        return "never"
    if version < (5, 0):
        return "omit"
    if version < (5, 5) or family == "haiku":
        return "disabled"
    return "between_tools" if family == "sonnet" else "never"


def _apply_settings(config: ProviderConfig, dialect: AnthropicCapabilities) -> AnthropicCapabilities:
    """Return the capabilities with the provider's own settings applied."""
    managed = provider_setting(config, "context_management")
    return replace(
        dialect,
        cache_ttl=provider_setting(config, "cache_ttl") or "5m",
        extra_betas=provider_setting(config, "extra_betas") or (),
        context_management=CLEAR_TOOL_USES if managed is True else managed or None,
    )


def _with_betas(headers: dict[str, str], dialect: AnthropicCapabilities) -> dict[str, str]:
    """Append the requested betas to the beta header."""
    betas = dialect.extra_betas if dialect.context_management is None else (*dialect.extra_betas, CONTEXT_BETA)
    if not betas:
        return headers
    given = next((name for name in headers if name.lower() == BETA_HEADER), BETA_HEADER)
    names = [name.strip() for name in (*headers.get(given, "").split(","), *betas)]
    return {**headers, given: ",".join(dict.fromkeys([name for name in names if name]))}
