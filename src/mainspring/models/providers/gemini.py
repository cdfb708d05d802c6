"""Gemini, through Google's developer API."""

from __future__ import annotations

from urllib.parse import urlsplit

from mainspring.errors import ProviderConfigError
from mainspring.lazy import lazy_re
from mainspring.models.auth.credentials import get_setting, require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import GeminiDialect
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers import http as api_versions
from mainspring.models.providers.http import (
    http_profile,
    make_credential,
    provider_setting,
    static_api_key,
    timeouts_from,
)
from mainspring.models.wire.gemini import GeminiProtocol

_NAME = "gemini"
_HOST = PROVIDERS[_NAME]

_VERTEX_UNSUPPORTED = (
    "The provider gemini supports only Google's developer API with a key. Vertex AI (useVertexai) requires Google Cloud "
    "credentials, which LangChain supports: install the extra langchain and langchain-google-vertexai, then pass "
    "ChatVertexAI(...) as the model, or use the provider langchain with class langchain_google_vertexai:ChatVertexAI"
)
_GENERATION = lazy_re(r"gemini-(\d+)(?:\.(\d+))?")


def build(config: ProviderConfig) -> HttpModel:
    """Create a model of Google.

    Own settings: ``api_version``, and ``use_vertexai``, which is rejected with instructions.

    Raises:
        ProviderConfigError: The key is missing, or Vertex AI is requested.
    """
    requested = provider_setting(config, "use_vertexai")
    if requested and str(requested).lower() not in ("false", "0", "no"):
        raise ProviderConfigError(_VERTEX_UNSUPPORTED, reason="vertex", provider=_NAME)
    model = model_id(config)
    version = provider_setting(config, "api_version") or api_versions.GEMINI
    home = _with_api_version(get_setting(None, *_HOST.url_variables) or _HOST.base_url, version)
    base_url = _with_api_version(get_setting(config.base_url) or home, version)
    key = require_key(_NAME, static_api_key(config), base_url=base_url, home=home)
    profile = http_profile(
        config,
        provider=_NAME,
        model=model,
        base_url=base_url,
        path=f"/models/{model}:streamGenerateContent",
        capabilities=gemini_capabilities(model),
        key_header="x-goog-api-key",
    )
    return HttpModel(profile, GeminiProtocol(), make_credential(config, key), timeouts=timeouts_from(config))


def model_id(config: ProviderConfig) -> str:
    """Return the model ID of a configuration."""
    return (config.model or _HOST.model).removeprefix("models/")


def gemini_capabilities(model: str) -> GeminiDialect:
    """Return the capabilities of a model by the generation in its name, as documented by Google."""
    found = _GENERATION.search(model)
    if found is None or "image" in model or "tts" in model:
        return GeminiDialect()
    generation = (int(found[1]), int(found[2] or 0))
    if generation >= (3, 0):
        levels = ("minimal", "low", "medium", "high")
        if "pro" in model:
            levels = ("low", "high") if generation == (3, 0) else ("low", "medium", "high")
        return GeminiDialect(
            thinking="level",
            levels=levels,
            can_rest=False,
            sign_calls=True,
            result_images="inside",
            schema_with_tools=True,
        )
    if generation < (2, 5):
        return GeminiDialect()
    if "pro" in model:
        return GeminiDialect(thinking="budget", least_budget=128, most_budget=32768, can_rest=False)
    return GeminiDialect(thinking="budget", least_budget=512 if "lite" in model else 1)


def _with_api_version(base_url: str, version: str) -> str:
    """Return the base URL with the API version, unless it has a path."""
    return base_url if urlsplit(base_url).path.strip("/") else f"{base_url.rstrip('/')}/{version}"
