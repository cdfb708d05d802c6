"""Modules that are loaded when the model layer is imported in a new process."""

import subprocess
import sys
from types import ModuleType

import pytest

HEAVY = (
    "httptools",
    "httpx2",
    "aiohttp",
    "jsonschema_rs",
    "pydantic",
    "requests",
    "xllamacpp",
    "rich",
    "azure.identity",
    "foundry_local_sdk",
)


def find_loaded_modules(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(process.stdout.split())


@pytest.mark.covers("PKG-08")
@pytest.mark.parametrize(
    "code",
    [
        "import mainspring.models",
        "from mainspring.models import *",
        "from mainspring.models import create_model\ncreate_model('openai:gpt-5-mini', api_key='k')",
        "from mainspring.models import create_model\ncreate_model('azure:x', endpoint='https://r.azure.com', api_key='k')",
        "from mainspring.models import create_model\ncreate_model('codex', tokenFile='x'), create_model('foundry')",
        "from mainspring.models.auth import *",
        "from mainspring.models import classify_error, decode_exchange_to_dict as replay_exchange, LLMClient, detect_local_servers; from mainspring.testing.scripted_model import ScriptedModel",
    ],
)
def test_creating_a_model_imports_no_http_library(code: str) -> None:
    assert find_loaded_modules(code) == set()


def test_every_exported_name_exists() -> None:
    import mainspring.models as models

    names = dir(models)
    assert names == sorted(names)
    for name in names:
        assert not isinstance(getattr(models, name), ModuleType)
    unknown = "nothing"
    with pytest.raises(AttributeError, match=unknown):
        getattr(models, unknown)
