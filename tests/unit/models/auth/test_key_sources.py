"""API keys that are stored outside the settings."""

import os
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend

from mainspring.app.providers.select_model import make
from mainspring.app.workspace.model_providers import registry_of
from mainspring.app.workspace.settings import AppConfig, ProviderSettings
from mainspring.app.workspace.settings.schema import Providers
from mainspring.errors import ConfigError, ProviderConfigError
from mainspring.models import HttpModel
from mainspring.models.auth.key_sources import (
    LazyApiKey,
    read_key_from_file,
    read_key_from_keyring,
    resolve_api_key,
    save_key_to_keyring,
)


def make_lazy_key(**given: Any) -> LazyApiKey:
    key = resolve_api_key("openai", ProviderSettings(**given))
    assert isinstance(key, LazyApiKey)
    return key


async def test_key_command_runs_again_after_the_key_is_rejected(tmp_path: Path) -> None:
    counter = tmp_path / "n"
    key = make_lazy_key(api_key_command=f"echo x >> {counter}; wc -l < {counter} | tr -d ' '")

    assert (await key(), await key()) == ("1", "1")
    key.invalidate("1")
    assert await key() == "2"
    key.invalidate("another")
    assert await key() == "2"


@pytest.mark.parametrize(
    ("command", "message"), [("exit 3", "exit code 3"), ("true", "returned no key"), ("echo no >&2; false", "no")]
)
async def test_failing_key_command_is_an_error(command: str, message: str) -> None:
    with pytest.raises(ProviderConfigError, match=message):
        await make_lazy_key(api_key_command=command)()


def test_key_file_must_be_private(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-1\n", encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key_from_file(str(file))

    file.chmod(0o600)
    assert read_key_from_file(str(file)) == "sk-1"

    file.write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="one line"):
        read_key_from_file(str(file))
    with pytest.raises(ConfigError, match="Cannot read"):
        read_key_from_file(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="Use an absolute path"):
        read_key_from_file("key")


class MemoryKeyring(KeyringBackend):
    """A keyring in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password


def test_keyring_stores_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(MemoryKeyring())
    try:
        with pytest.raises(ConfigError, match="config init openai --keyring"):
            read_key_from_keyring("openai")
        save_key_to_keyring("openai", "sk-9")
        assert read_key_from_keyring("openai") == "sk-9"
    finally:
        keyring.set_keyring(before)


async def test_key_is_not_resolved_or_exposed_before_use(tmp_path: Path) -> None:
    section = ProviderSettings(api_key_command="echo sk-proj-4f9d8e7c6b5a4f3e2d1c", model="m")
    config = AppConfig(providers=Providers(sections={"openai": section}))

    model = make("openai:", config, registry_of(config))

    assert isinstance(model, HttpModel)
    assert os.environ.get("OPENAI_API_KEY") is None
    assert "sk-proj-4f9d8e7c6b5a4f3e2d1c" not in repr(config)
