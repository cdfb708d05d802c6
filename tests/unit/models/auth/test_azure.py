"""The Azure CLI, Entra ID, and Key Vault, each with a fake."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import AuthenticationError, ModelTimeoutError, ProviderConfigError
from mainspring.models import create_model
from mainspring.models.auth import ENTRA_SCOPE, AzureCliCredential, EntraIdCredential, KeyVaultSecret
from mainspring.models.auth.azure import is_azure_cli_installed, is_identity_package_installed


def fake_az(folder: Path, script: str) -> Path:
    """Put an ``az`` on PATH that runs these lines of shell script and logs its calls."""
    folder.mkdir(exist_ok=True)
    program = folder / "az"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{folder}/calls"\n{script}\n')
    program.chmod(0o755)
    return folder / "calls"


@pytest.fixture
def bin_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def print_token(**fields: Any) -> str:
    return f"echo '{json.dumps({'accessToken': 'tok', 'tokenType': 'Bearer', **fields})}'"


@pytest.mark.covers("PRV-09", "PRV-13")
async def test_az_is_called_once_until_its_token_expires(bin_path: Path) -> None:
    calls = fake_az(bin_path, print_token(expires_on=5000, expiresOn="1999-01-01 00:00:00.000000"))
    now = [1000.0]
    source = AzureCliCredential(clock=lambda: now[0])

    assert await source() == {"authorization": "Bearer tok"}
    await source()
    assert calls.read_text().splitlines() == [
        "account get-access-token --resource https://cognitiveservices.azure.com --output json"
    ]
    now[0] = 4900
    await source()
    assert len(calls.read_text().splitlines()) == 2


async def test_expiry_of_older_az_versions_is_local_time(bin_path: Path) -> None:
    end = int(time.time()) + 3600
    fake_az(bin_path, print_token(expiresOn=time.strftime("%Y-%m-%d %H:%M:%S.000000", time.localtime(end))))

    assert (await AzureCliCredential().token()).expires == end
    fake_az(bin_path, print_token(expiresOn="soon"))
    assert (await AzureCliCredential().token()).expires is None


@pytest.mark.covers("PRV-09")
async def test_error_of_az_is_reported(bin_path: Path) -> None:
    fake_az(bin_path, "echo \"ERROR: Please run 'az login' to setup account.\" >&2; exit 1")
    with pytest.raises(AuthenticationError, match="Please run 'az login'.*Run `az login`"):
        await AzureCliCredential()()
    for script in ("echo hello", "echo '{}'", "echo '[]'"):
        fake_az(bin_path, script)
        with pytest.raises(AuthenticationError, match="returned no token"):
            await AzureCliCredential()()


async def test_hanging_az_command_times_out(bin_path: Path) -> None:
    fake_az(bin_path, "exec sleep 30")

    with pytest.raises(ModelTimeoutError, match=r"within 0\.2s"):
        await AzureCliCredential(timeout=0.2)()


async def test_missing_az_command_is_reported(bin_path: Path) -> None:
    assert not is_azure_cli_installed()
    with pytest.raises(ProviderConfigError, match=r"\(`az`\) is not installed"):
        await AzureCliCredential()()
    fake_az(bin_path, "true")
    assert is_azure_cli_installed()


async def test_az_inside_the_current_folder_is_reported_as_ignored(
    bin_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fake_az(bin_path, print_token())
    monkeypatch.chdir(bin_path.parent)
    settings: dict[str, Any] = {"endpoint": "https://x.openai.azure.com", "deployment": "d"}
    reason = f"was found but not run: {bin_path}/az is inside the current folder .*Run from another folder"

    with pytest.raises(ProviderConfigError, match=reason):
        await AzureCliCredential()()
    with pytest.raises(ProviderConfigError, match=f"AZURE_OPENAI_API_KEY.*{reason}"):
        create_model("azure", **settings)

    with pytest.raises(ProviderConfigError) as caught:
        create_model("azure", **settings, auth="key")
    assert "was found" not in str(caught.value)  # `az` would not be used there.
    assert not calls.exists()


IDENTITY = """
import time
asked = []

class _Token:
    def __init__(self, token, expires_on):
        self.token, self.expires_on = token, expires_on

class DefaultAzureCredential:
    name = "default"

    def __init__(self, **options):
        self.options = options

    def get_token(self, *scopes):
        asked.append((self.name, scopes))
        return _Token(f"{self.name}-token", int(time.time()) + 3600)

class ManagedIdentityCredential(DefaultAzureCredential):
    name = "managed"
"""

SECRETS = """
class _Secret:
    value = "the-key"

class SecretClient:
    def __init__(self, vault_url, credential):
        self.vault_url = vault_url

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def get_secret(self, name):
        if name != "openai-key":
            raise KeyError(name)
        return _Secret()
"""


@pytest.fixture
def azure_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install fakes of the packages of the extra ``azure``."""
    for name, code in (("identity", IDENTITY), ("keyvault/secrets", SECRETS)):
        folder = tmp_path / "site" / "azure" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(code)
    for loaded in [name for name in sys.modules if name == "azure" or name.startswith("azure.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield_names = ("azure", "azure.identity", "azure.keyvault", "azure.keyvault.secrets")
    for name in yield_names:
        monkeypatch.setitem(
            sys.modules, name, None
        )  # Register the module so that monkeypatch removes the fake after the test.
        del sys.modules[name]


@pytest.mark.covers("PRV-13", "PRV-14")
@pytest.mark.usefixtures("azure_package")
async def test_entra_id_returns_a_token() -> None:
    assert is_identity_package_installed()
    source = EntraIdCredential()

    assert await source() == {"authorization": "Bearer default-token"}
    await source()
    request = sys.modules["azure.identity"].asked
    assert request == [("default", ("https://cognitiveservices.azure.com/.default",))]
    assert ENTRA_SCOPE == "https://cognitiveservices.azure.com/.default"
    assert await EntraIdCredential(client_id="c")() == {"authorization": "Bearer managed-token"}
    assert await EntraIdCredential(managed=True)() == {"authorization": "Bearer managed-token"}


async def test_custom_credential_is_called_in_a_thread() -> None:
    import threading

    threads: list[bool] = []

    class Broken:
        def get_token(self, scope: str) -> None:
            threads.append(threading.current_thread() is threading.main_thread())
            raise RuntimeError(f"no {scope}")

    with pytest.raises(AuthenticationError, match="Entra ID returned no token: no my-scope"):
        await EntraIdCredential("my-scope", credential=Broken())()
    assert threads == [False]


@pytest.mark.covers("PRV-13")
@pytest.mark.usefixtures("azure_package")
async def test_key_vault_secret_returns_the_key() -> None:
    source = KeyVaultSecret("https://v.vault.azure.net", "openai-key", header="api-key")

    assert await source() == {"api-key": "the-key"}
    source.invalidate({"api-key": "the-key"})
    assert await source() == {"api-key": "the-key"}
    assert await KeyVaultSecret("https://v.vault.azure.net", "openai-key")() == "the-key"
    with pytest.raises(AuthenticationError, match="secret other of https://v"):
        await KeyVaultSecret("https://v.vault.azure.net", "other")()


async def test_missing_azure_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure", None)
    monkeypatch.delitem(sys.modules, "azure.identity", raising=False)

    with pytest.raises(ProviderConfigError, match=r"\[azure\]"):
        await EntraIdCredential()()
    assert not is_identity_package_installed()
