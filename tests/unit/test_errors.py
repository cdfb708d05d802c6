"""The exception tree: matched by type, with everything that a program needs to know in its fields."""

import pytest

from mainspring import errors
from mainspring.errors import (
    MODEL_ERRORS,
    AgentAbortedError,
    AgentContextExceededError,
    AgentError,
    AgentProviderError,
    ConfigError,
    ContextExceededError,
    ErrorCode,
    MainspringError,
    ModelError,
    NetworkError,
    PermissionDeniedError,
    RateLimitedError,
    ToolError,
    model_error,
)
from mainspring.loop import LoopContext, RunOptions, agent_loop
from mainspring.loop.hooks import RunDone, TurnAfter
from mainspring.messages import Message
from mainspring.models import LLMClient, RetryConfig
from mainspring.models.client import Failure, ModelCallbacks
from mainspring.testing.scripted_model import ScriptedModel
from mainspring.tools import ToolRegistry, tool
from tests.unit.loop.harness import Script, as_message, fail, make_config, text_reply, tool_call_reply


@pytest.mark.covers("ERR-01")
def test_one_tree_with_a_class_for_each_kind() -> None:
    for kind in (AgentError, ConfigError, ToolError, PermissionDeniedError, ModelError):
        assert issubclass(kind, MainspringError)
    assert issubclass(AgentProviderError, AgentError)
    assert not issubclass(ConfigError, AgentError)
    defined = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, Exception)}
    assert defined == {name for name in defined if name in str(errors.__doc__)}, "the drawing shows all of the tree"


@pytest.mark.covers("MOD-15", "MOD-06")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_each_code_has_its_class_its_category_and_its_hope(code: ErrorCode) -> None:
    error = model_error("text", code=code)
    assert type(error) is MODEL_ERRORS[code]
    assert error.retryable == (code in {"RATE_LIMITED", "NETWORK_ERROR", "TIMEOUT"})
    expected = {"AUTHENTICATION_ERROR": "auth", "RATE_LIMITED": "rate_limit", "TIMEOUT": "timeout"}
    assert error.category == expected.get(code, "api_error")
    assert len(ErrorCode) == 10


@pytest.mark.covers("ERR-02", "MOD-38")
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ContextExceededError("too long"), AgentContextExceededError),
        (NetworkError("down", retryable=False), AgentProviderError),
        (RateLimitedError("quota", reason="quota", retryable=False), AgentProviderError),
    ],
)
async def test_what_ends_a_run_is_told_apart_by_type(raised: ModelError, kind: type[AgentError]) -> None:
    with pytest.raises(AgentError) as caught:
        await agent_loop("go", LoopContext(), make_config(Script(fail(raised))))
    assert type(caught.value) is kind
    assert isinstance(caught.value, AgentProviderError)
    assert caught.value.cause is raised
    assert not isinstance(caught.value, AgentAbortedError)


@pytest.mark.covers("ERR-03")
@pytest.mark.parametrize("retry", [None, RetryConfig()])
async def test_an_error_nobody_classified_keeps_its_cause(retry: RetryConfig | None) -> None:
    native = ZeroDivisionError("in somebody's provider")
    setup = make_config(Script(fail(native)), behavior=RunOptions(retry=retry))
    with pytest.raises(AgentProviderError, match="in somebody's provider") as caught:
        await agent_loop("go", LoopContext(), setup)
    cause = caught.value.cause
    assert isinstance(cause, ModelError)
    assert cause.code == ErrorCode.UNKNOWN
    assert cause.__cause__ is native


@pytest.mark.covers("ERR-06")
async def test_what_on_error_gets_is_structured() -> None:
    told: list[Failure] = []
    error = RateLimitedError("slow down", status=429, provider="p", request_id="r1", retry_after=90.0)
    client = LLMClient(ScriptedModel(error), callbacks=ModelCallbacks(on_error=told.append))
    await client.invoke("go")
    (failure,) = told
    assert failure.error == "RATE_LIMITED"
    assert failure.message
    assert failure.retry_after == 90.0
    ended: list[BaseException | None] = []
    bus_config = make_config(Script(fail(NetworkError("down", retryable=False, status=503))))
    bus_config.bus.on(RunDone, lambda ctx: ended.append(ctx.error))
    with pytest.raises(AgentProviderError):
        await agent_loop("go", LoopContext(), bus_config)
    (seen,) = ended
    assert isinstance(seen, AgentProviderError)
    assert isinstance(seen.cause, NetworkError)
    assert seen.cause.status == 503


@pytest.mark.covers("ERR-05", "PKG-09")
async def test_a_tool_error_goes_to_the_model_and_a_fatal_one_ends_the_run(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def broken() -> str:
        """Break."""
        raise ToolError("no such city")

    ctx = LoopContext(tools=ToolRegistry([broken]))
    setup = make_config(Script(tool_call_reply("broken"), text_reply("I see.")))

    def observe(ctx: TurnAfter) -> None:
        raise ZeroDivisionError  # logged, and the run goes on

    setup.bus.on(TurnAfter, observe)
    result = await agent_loop("go", ctx, setup)
    assert result.status == "completed"
    assert as_message(ctx.messages[2]).tool_results[0].text == "no such city"
    assert "ZeroDivisionError" in caplog.text


def test_partial_answers_travel_with_the_error() -> None:
    partial = Message.assistant("half")
    assert NetworkError("cut", partial=partial).partial is partial
