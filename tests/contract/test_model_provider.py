"""The common behavior of model providers; users run the same tests on theirs."""

from pathlib import Path

from mainspring.models import FallbackModel, MemoryResponse, MemoryTransport, ModelProvider, create_model
from mainspring.testing import ScriptedModel
from mainspring.testing.contracts import ModelProviderContract

ANSWER = b'{"choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]}'


def http_model() -> ModelProvider:
    host = MemoryTransport(MemoryResponse(body=ANSWER, headers={"content-type": "application/json"}))
    return create_model("compatible:acme", base_url="https://host.example/v1", api_key="k", transport=host)


class TestHttpModel(ModelProviderContract):
    def create_model(self, folder: Path) -> ModelProvider:
        return http_model()


class TestFallbackModel(ModelProviderContract):
    def create_model(self, folder: Path) -> ModelProvider:
        return FallbackModel([http_model(), http_model()])


class TestScriptedModel(ModelProviderContract):
    def create_model(self, folder: Path) -> ModelProvider:
        return ScriptedModel("Hello.", loop=True)
