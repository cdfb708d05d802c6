"""Azure OpenAI: deployments of a resource, over Chat Completions or Responses.

The resource and the deployment can be set in two styles: ``endpoint``, ``deployment``, and ``apiVersion``; or the base URL of
the ``v1`` interface (or the resource name), a model, and a map from models to deployments. The configuration, in which
environment variables have already replaced settings of files, overrides the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast
from urllib.parse import quote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ProviderConfigError
from mainspring.lazy import lazy_re
from mainspring.models.auth import (
    ApiKey,
    AzureCliCredential,
    CallableKey,
    CredentialResolver,
    EntraIdCredential,
    FirstCredential,
    KeyCallback,
    KeyVaultSecret,
)
from mainspring.models.auth.azure import is_azure_cli_installed, is_identity_package_installed
from mainspring.models.auth.credentials import KEY_VARIABLES, check_base_url, get_setting, key_or_token, require_key
from mainspring.models.config import ProviderConfig
from mainspring.models.http_model import HttpModel
from mainspring.models.profile import ChatCapabilities
from mainspring.models.provider_table import PROVIDERS
from mainspring.models.providers import http as api_versions
from mainspring.models.providers.addresses import single_address
from mainspring.models.providers.http import (
    OPENAI_RESPONSES,
    OpenAIApi,
    build_responses_model,
    http_profile,
    is_non_reasoning,
    provider_setting,
    requires_responses_api,
    select_api,
    static_api_key,
    timeouts_from,
)
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol
from mainspring.programs import explain_missing_program

_NAME = "azure"
URL_VARIABLES = PROVIDERS[_NAME].url_variables
_VARIABLES = {each.setting: each.variables for each in PROVIDERS[_NAME].other_variables}
RESOURCE_VARIABLE = _VARIABLES["resourceName"][0]
DEPLOYMENT_VARIABLES = _VARIABLES["deployment"]
VERSION_VARIABLE = _VARIABLES["apiVersion"][0]
MAP_VARIABLE = _VARIABLES["deploymentNameMap"][0]
KEY_HEADER = "api-key"

_CHAT = ChatCapabilities(
    max_tokens_field="max_completion_tokens", prompt_cache_key=True, reasoning="none", unsupported=("top_k",)
)
"""Capabilities of Azure over Chat Completions. In this version, models without reasoning use the older output limit field."""

_AUTH_MODES = ("auto", "key", "cli", "entra", "managed_identity", "key_vault")
_PATHS = lazy_re(r"/openai(/v1|/deployments(/[^/]+)?)?(/(chat/completions|responses))?/*$")


class DeploymentTarget(Struct, frozen=True):
    """Address of a deployment.

    Attributes:
        root: Scheme and host of the resource.
        deployment: Name of the deployment.
        model: Name of the deployed model, if known; otherwise the deployment's.
        v1: Whether the resource was set as its ``v1`` interface, which uses Responses.
    """

    root: str
    deployment: str
    model: str
    v1: bool


def build(config: ProviderConfig) -> HttpModel:
    """Create a model for a deployment of Azure OpenAI.

    Own settings, in ``extra`` or at the top level: ``endpoint``, ``resource_name``, ``deployment``,
    ``deployment_name_map`` (a dict, or a text ``a=b,c=d``), ``api_version``, ``api`` (``chat``, ``responses``, ``auto``), ``auth``
    (``auto``, ``key``, ``cli``, ``entra``, ``managed_identity``, ``key_vault``), ``client_id``, ``vault_url``, ``secret_name``.

    Raises:
        ProviderConfigError: The resource, the deployment, or every credential is missing.
    """
    place = resolve_deployment(config)
    api = select_api(config, _default_api(place))
    resolver = credential_for(config, place.root)
    version = provider_setting(config, "api_version") or get_setting(None, VERSION_VARIABLE)
    config = replace(config, known_as=config.known_as or place.model)
    if api == "responses":
        url = _with_query(f"{place.root}/openai/v1", version or api_versions.AZURE_RESPONSES)
        return build_responses_model(
            config,
            provider=_NAME,
            model=place.deployment,
            base_url=url,
            credential=resolver,
            accepts=OPENAI_RESPONSES,
            key_header=KEY_HEADER,
        )
    url = _with_query(f"{place.root}/openai/deployments/{quote(place.deployment)}", version or api_versions.AZURE_CHAT)
    profile = http_profile(
        config,
        provider=_NAME,
        model=place.deployment,
        base_url=url,
        path="/chat/completions",
        capabilities=_CHAT,
        key_header=KEY_HEADER,
    )
    if is_non_reasoning(_NAME, place.model):
        profile = replace(profile, dialect=replace(profile.dialect, efforts=(), max_tokens_field="max_tokens"))
    return HttpModel(profile, ChatCompletionsProtocol(), resolver, timeouts=timeouts_from(config))


def resolve_deployment(config: ProviderConfig, environment: Mapping[str, str] | None = None) -> DeploymentTarget:
    """Return the address of the deployment of a configuration.

    Args:
        config: Provider settings.
        environment: Environment variables; those of the process by default.

    Raises:
        ProviderConfigError: The resource or the deployment is missing.
    """
    url = single_address(config, endpoint=provider_setting(config, "endpoint"), base_url=config.base_url)
    resource = get_setting(provider_setting(config, "resource_name"))
    if url and resource and urlsplit(url).hostname != f"{resource}.openai.azure.com":
        raise ProviderConfigError(
            f"Conflicting settings of {_NAME}: resource_name is {resource!r}, but the address is {url}. Remove one of them.",
            reason="conflicting_settings",
            provider=_NAME,
        )
    if url is None and resource is None:
        url = get_setting(None, *URL_VARIABLES, environment=environment)
        resource = get_setting(None, RESOURCE_VARIABLE, environment=environment)
    if url is None and resource is None:
        raise ProviderConfigError(
            f"Missing resource of provider {_NAME}. Set {URL_VARIABLES[0]} or {RESOURCE_VARIABLE}, or the setting "
            f"providers.{_NAME}.endpoint.",
            reason="missing_endpoint",
            provider=_NAME,
        )
    url = url or f"https://{resource}.openai.azure.com/openai/v1"
    check_base_url(_NAME, url)
    path = url.partition("?")[0]
    model, deployment = _deployment(config, environment)
    if not deployment:
        raise ProviderConfigError(
            f"Missing deployment of provider {_NAME}. Use --model {_NAME}:DEPLOYMENT, or set providers.{_NAME}.deployment or "
            f"{DEPLOYMENT_VARIABLES[0]}.",
            reason="missing_deployment",
            provider=_NAME,
        )
    return DeploymentTarget(_PATHS.sub("", path).rstrip("/"), deployment, model, "/openai/v1" in path)


def select_deployment(config: ProviderConfig) -> str:
    """Return the deployment of a configuration; empty if it is missing."""
    return _deployment(config, None)[1]


def deployment_map(value: str | Mapping[str, str] | None) -> dict[str, str]:
    """Parse a map from models to deployments, ``model=deployment,model=deployment``.

    Raises:
        ProviderConfigError: A part has another form.
    """
    if value is None or isinstance(value, Mapping):
        return dict(value or {})
    found: dict[str, str] = {}
    for part in value.split(","):
        if not part.strip():
            continue
        model, equals, deployment = (piece.strip() for piece in part.partition("="))
        if not (equals and model and deployment):
            raise ProviderConfigError(
                f"Invalid {MAP_VARIABLE}: {part!r}. Use the form model=deployment,model=deployment.",
                provider=_NAME,
            )
        found[model] = deployment
    return found


def credential_for(config: ProviderConfig, root: str) -> CredentialResolver:
    """Return the credential of a configuration, in this order: its own key or function, AZURE_OPENAI_API_KEY, the Azure CLI, and
    the sources of the extra ``azure`` (Entra ID, a managed identity). Nothing is called before the first request.

    Raises:
        ProviderConfigError: All of them are missing.
    """
    auth = (provider_setting(config, "auth") or "auto").lower().replace("-", "_")
    client_id = provider_setting(config, "client_id")
    vault, name = provider_setting(config, "vault_url"), provider_setting(config, "secret_name")
    modes = ("key_vault",) if vault or name else ("auto", "entra", "managed_identity", "key_vault")
    if (vault or name or client_id) and auth in _AUTH_MODES and auth not in modes:
        setting = "client_id" if not (vault or name) else "vault_url" if vault else "secret_name"
        raise ProviderConfigError(
            f"`{setting}` of {_NAME} has no effect with `auth` {auth}. Set `auth` to {' or '.join(modes)}, or remove it.",
            reason="conflicting_settings",
            provider=_NAME,
        )
    match auth:
        case "cli":
            return AzureCliCredential()
        case "entra":
            return EntraIdCredential(client_id=client_id)
        case "managed_identity":
            return EntraIdCredential(client_id=client_id or get_setting(None, *_VARIABLES["clientId"]), managed=True)
        case "key_vault":
            if not (vault and name):
                raise ProviderConfigError("`auth` key_vault requires vaultUrl and secretName.", provider=_NAME)
            return KeyVaultSecret(vault, name, client_id=client_id)
        case "auto" | "key":
            return _key_or_login(config, root, auth, client_id)
        case _:
            raise ProviderConfigError(
                f"Invalid `auth` of {_NAME}: {auth!r}. Use one of {', '.join(_AUTH_MODES)}.", provider=_NAME
            )


def _key_or_login(config: ProviderConfig, root: str, auth: str, client_id: str | None) -> CredentialResolver:
    if isinstance(config.api_key, CredentialResolver):
        return config.api_key
    if callable(config.api_key):
        return CallableKey(cast("KeyCallback", config.api_key), key_or_token)
    logins: list[CredentialResolver] = []
    if auth == "auto":
        logins = [
            *([AzureCliCredential()] if is_azure_cli_installed() else []),
            *([EntraIdCredential(client_id=client_id)] if is_identity_package_installed() else []),
        ]
    key = static_api_key(config)
    if get_setting(key, *KEY_VARIABLES[_NAME]) is None and logins:
        return logins[0] if len(logins) == 1 else FirstCredential(logins)
    try:
        return ApiKey(require_key(_NAME, key, base_url=root, home=key_base_url(root, *URL_VARIABLES)))
    except ProviderConfigError as error:
        why = explain_missing_program("az") if auth == "auto" else ""
        ignored = f" The Azure CLI (`az`) {why}." if "was found" in why else ""
        raise ProviderConfigError(
            f"{error.message} Or run `az login` (Azure CLI), or install `mainspring[azure]` for Entra ID "
            f"and managed identities.{ignored}",
            reason=error.reason,
            provider=_NAME,
        ) from None


def key_base_url(root: str, *variables: str) -> str:
    """Return the address to which a key of the environment may be sent: Azure, or the address in an environment variable."""
    host = urlsplit(root).hostname or ""
    if host.endswith(PROVIDERS[_NAME].key_hosts):
        return root
    return get_setting(None, *variables) or "https://openai.azure.com"


def _deployment(config: ProviderConfig, environment: Mapping[str, str] | None) -> tuple[str, str]:
    """Return the model and its deployment; both are empty if none is set."""
    named = get_setting(provider_setting(config, "deployment"))
    model = get_setting(config.model)
    if named is None and model is not None:
        known = deployment_map(provider_setting(config, "deployment_name_map"))
        known = known or deployment_map(get_setting(None, MAP_VARIABLE, environment=environment))
        named = known.get(model, model)
    named = named or get_setting(None, *DEPLOYMENT_VARIABLES, environment=environment) or ""
    return model or named, named


def _default_api(place: DeploymentTarget) -> OpenAIApi:
    """Return Responses if the model requires it or the ``v1`` interface was set; otherwise Chat Completions."""
    return (
        "responses"
        if requires_responses_api(place.deployment) or requires_responses_api(place.model) or place.v1
        else "chat"
    )


def _with_query(url: str, version: str) -> str:
    return f"{url}?api-version={version}"
