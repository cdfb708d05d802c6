"""Find likely mistakes in the names of models and providers in the settings."""

from __future__ import annotations

from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings import AppConfig
from mainspring.errors import ProviderConfigError
from mainspring.models import ProviderRegistry
from mainspring.models.catalog import load_catalog
from mainspring.models.config import known_settings
from mainspring.models.embedded.weights import WEIGHTS
from mainspring.models.provider_prefix import explain_interpretation
from mainspring.text import suggest_name

_MAX_LISTED = 12
"""Maximum number of models that an error lists."""


def find_model_problems(config: AppConfig) -> tuple[str, ...]:
    """Return likely mistakes in the models of the settings: an unknown provider, or a model that the catalog does not list.

    Raises:
        ProviderConfigError: If the default provider is unknown.
    """
    registry = registry_of(config)
    problems = [_find_model_problem(spec, registry) for spec in (config.model, config.compaction.model) if spec]
    problems += [
        find_model_id_problem(name, section.model)
        for name, section in config.providers.sections.items()
        if section.model
    ]
    return tuple([problem for problem in dict.fromkeys(problems) if problem])


def _find_model_problem(spec: str, registry: ProviderRegistry) -> str:
    try:
        name, model = registry.split(spec)
    except ProviderConfigError as error:
        return str(error)
    problem = find_model_id_problem(name, model) if model else ""
    if not problem or model != spec:
        return problem
    return f"{problem} {explain_interpretation(spec, registry.names(), name)}, for example, ollama:{spec}."


def find_model_id_problem(provider: str, model: str) -> str:
    """Return that the catalog does not list a model; empty if it does, or if the provider serves models under any name."""
    known = [entry.id for entry in load_catalog().entries(provider)]
    if provider == "embedded":
        known = list(WEIGHTS)
    if not known or model in known or "deployment" in known_settings(provider):  # a deployment can have any name
        return ""
    listed = f"Available: {', '.join(known)}." if len(known) <= _MAX_LISTED else ""
    return f"Unknown model of {provider}: {model}. {suggest_name(model, known, listed)}".rstrip()
