"""Every profile of a built-in provider is complete: what is derived from it works without another entry elsewhere."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from mainspring.app.providers.setup import PROVIDER_SETUPS
from mainspring.env.variables import child_environment
from mainspring.models import ChatCapabilities, HttpModel, create_model, get_supported_providers
from mainspring.models.catalog import load_catalog
from mainspring.models.provider_table import PROVIDERS, ProviderProfile

SHARED_VARIABLES = {"GITHUB_TOKEN"}
"""Keys that other programs need too."""

EXAMPLES: dict[str, dict[str, Any]] = {
    "azure": {"endpoint": "https://r.openai.azure.com", "deployment": "d"},
    "foundry": {"mode": "cloud", "project_endpoint": "https://p.azure.com"},
    "codex": {"token_file": "tokens.json", "api_key": None},
    "compatible": {"base_url": "https://h.example/v1", "model": "m"},
}
"""Required settings besides a key."""

each_profile = pytest.mark.parametrize("profile", PROVIDERS.values(), ids=lambda profile: profile.name)


@pytest.mark.covers("CFG-15")
@each_profile
def test_profile_is_registered_and_named_by_its_key(profile: ProviderProfile) -> None:
    assert PROVIDERS[profile.name] is profile
    assert profile.name in get_supported_providers()
    assert (profile.name in PROVIDER_SETUPS) == bool(profile.label)


@pytest.mark.parametrize(
    "profile",
    [p for p in PROVIDERS.values() if p.name not in ("langchain", "embedded")],
    ids=lambda profile: profile.name,
)
def test_model_uses_the_protocol_of_its_profile(profile: ProviderProfile) -> None:
    settings = EXAMPLES.get(profile.name, {})
    model = create_model(profile.name, **{"api_key": "k", **settings})

    found: Any = model
    assert isinstance(model, HttpModel)
    assert found._protocol.name == profile.protocols[0]
    if settings.keys() <= {"token_file", "api_key"} and profile.name != "gemini":
        assert (model.model, model.profile.base_url) == (profile.model, profile.base_url)


@each_profile
def test_quirks_are_capabilities_with_valid_values(profile: ProviderProfile) -> None:
    assert set(profile.quirks) <= set(ChatCapabilities.__struct_fields__)
    assert not (profile.quirks and profile.module)
    msgspec.convert(dict(profile.quirks), ChatCapabilities)


@each_profile
def test_keys_of_providers_stay_out_of_programs(profile: ProviderProfile) -> None:
    keys = dict.fromkeys(profile.key_variables, "secret")

    assert set(child_environment(keys)) == set(profile.key_variables) & SHARED_VARIABLES


@each_profile
def test_catalog_knows_the_host_of_the_provider(profile: ProviderProfile) -> None:
    catalog = load_catalog()
    if profile.name in catalog.providers and profile.base_url:
        assert catalog.hosts[urlsplit(profile.base_url).hostname or ""] == profile.name
        assert profile.module or catalog.find(profile.name, profile.model) is not None


@each_profile
def test_documentation_has_a_page_about_the_provider(profile: ProviderProfile, repository: Path) -> None:
    path, _, anchor = profile.docs.partition("#")
    page = (repository / "docs" / path).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)

    assert not anchor or anchor in [heading.lower().replace(" ", "-") for heading in headings]


def test_documented_table_is_current(repository: Path) -> None:
    done = subprocess.run([sys.executable, "scripts/make_provider_table.py", "--check"], cwd=repository, check=False)
    assert done.returncode == 0, "run `python scripts/make_provider_table.py`"
