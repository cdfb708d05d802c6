"""What a provider is configured with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from mainspring.errors import ProviderConfigError
from mainspring.redaction import redacted_repr


class ModelFacts(Struct, kw_only=True, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"):
    """What a person knows better than the catalogue about one model. ``None`` keeps what the catalogue says.

    Attributes:
        context_window: Tokens of prompt and answer together.
        max_output_tokens: Most tokens of one answer.
        vision: Whether it takes images.
        tools: Whether it calls tools.
        reasoning: Whether it reasons.
        prices: US dollars per million tokens: input, output, and if they differ cache read, cache write, one-hour cache write.
        label: Name for people.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    prices: tuple[float, ...] | None = None
    label: str | None = None


class ProviderConfig(Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """The settings of one provider. An empty text counts as not given.

    Attributes:
        provider: Name of the provider.
        model: Id of the model; each provider has a default.
        api_key: The key, or a function that gives it (it may be async).
        base_url: Where requests go.
        headers: Further headers of each request.
        context_window: Tokens of prompt and answer together, where the catalogue does not know.
        max_output_tokens: Cap of one reply.
        vision: Whether the model takes images, where the catalogue does not know.
        prices: What the model costs, where the catalogue does not know or is wrong; see `ModelFacts`.
        known_as: The model's name in the catalogue, where ``model`` is a deployment or an alias.
        models: Facts about single models, by id.
        connect_timeout: Seconds until a connection must stand.
        first_byte_timeout: Seconds until an answer must begin; 0 waits for ever.
        idle_timeout: Seconds between two pieces of an answer; 0 waits for ever.
        dialect: Changes of what the host accepts; see `Dialect`.
        extra: Settings that only this provider knows.
    """

    provider: str = ""
    model: str | None = None
    api_key: Any = None
    base_url: str | None = None
    headers: dict[str, str] = {}
    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool | None = None
    prices: tuple[float, ...] | None = None
    known_as: str | None = None
    models: dict[str, ModelFacts] = {}
    connect_timeout: float | None = None
    first_byte_timeout: float | None = None
    idle_timeout: float | None = None
    dialect: dict[str, Any] = {}
    extra: dict[str, Any] = {}

    def __repr__(self) -> str:
        return redacted_repr(self, "api_key", "headers")


_FIELDS = {**{name: name for name in ProviderConfig.__struct_fields__}}
_FIELDS.update(zip(ProviderConfig.__struct_encode_fields__, ProviderConfig.__struct_fields__, strict=True))


PROVIDER_SPECIFIC_SETTINGS = frozenset(
    "anthropicVersion api apiVersion auth cacheTtl class clientId contextManagement deployment deploymentNameMap endpoint "
    "extraBetas issuer keepAlive loginPort mode modelAlias modelDeployment numCtx options org projectEndpoint resourceName "
    "secretName temperature tokenFile useVertexai vaultUrl".split()
)
"""Settings that only one or two providers know; see the page of models for what they mean."""


def reject_misspelled_settings(settings: Iterable[str]) -> None:
    """Refuse a setting that is none and looks like one of `ProviderConfig`. Any other name may be known to a provider.

    Raises:
        TypeError: With the one that was meant.
    """
    for name in settings:
        first, *rest = name.split("_")
        if name in _FIELDS or "".join([first, *map(str.capitalize, rest)]) in PROVIDER_SPECIFIC_SETTINGS:
            continue
        import difflib

        near = difflib.get_close_matches(name, ProviderConfig.__struct_fields__, 1, 0.7)
        if near:
            raise TypeError(
                f"a model has no setting {name!r}; did you mean {near[0]!r}? What only your own provider knows goes into extra={{...}}"
            )


def to_provider_config(config: ProviderConfig | Mapping[str, Any], provider: str = "") -> ProviderConfig:
    """A configuration from one, or from a dict with names in either case; unknown names go to ``extra``.

    Raises:
        ProviderConfigError: If a value has the wrong type, or a name looks like a misspelt one.
    """
    if isinstance(config, ProviderConfig):
        return config if config.provider or not provider else msgspec.structs.replace(config, provider=provider)
    try:
        reject_misspelled_settings(config)
    except TypeError as error:
        raise ProviderConfigError(str(error), provider=str(config.get("provider") or provider)) from None
    known: dict[str, Any] = {}
    extra: dict[str, Any] = dict(config.get("extra") or {})
    for name, value in config.items():
        if name == "extra":
            continue
        if name in _FIELDS:
            known[_FIELDS[name]] = value
        else:
            extra[name] = value
    key = known.pop("api_key", None)
    try:
        plain = {k: v for k, v in known.items() if v is not None and v != ""}
        names = dict(zip(ProviderConfig.__struct_fields__, ProviderConfig.__struct_encode_fields__, strict=True))
        result = msgspec.convert({names[k]: v for k, v in plain.items()}, ProviderConfig)
    except msgspec.ValidationError as error:
        name = known.get("provider") or provider
        raise ProviderConfigError(f"Configuration of provider {name!r}: {error}", provider=str(name)) from error
    result.api_key = key
    result.extra = extra
    result.provider = result.provider or provider
    return result


KeySource = str | Callable[[], str | Awaitable[str]] | None
"""What ``api_key`` may be."""
