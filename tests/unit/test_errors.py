"""The exception tree: one type for each kind, with structured fields."""

import pickle

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
    ProviderError,
    RateLimitedError,
    ToolError,
    describe_failure,
    format_exception,
    model_error,
)
from mainspring.events import ErrorInfo
from mainspring.loop import LoopContext, agent_loop
from mainspring.loop.hooks import SessionEnd, TurnAfter
from mainspring.messages import Message
from mainspring.models import Failure, LLMClient, ModelCallbacks, RetryConfig, complete
from mainspring.run_options import RunOptions
from mainspring.testing.scripted_model import ScriptedModel
from mainspring.tools import ToolRegistry, tool
from mainspring.tools.execute import result_from_exception
from tests.unit.loop.harness import Script, as_message, fail, make_config, text_reply, tool_call_reply


@pytest.mark.covers("ERR-01")
@pytest.mark.parametrize("kind", [ProviderError, ConfigError, ToolError, PermissionDeniedError])
def test_agent_error_catches_each_kind_of_failure(kind: type[Exception]) -> None:
    assert issubclass(kind, AgentError)
    others = {ProviderError, ConfigError, ToolError, PermissionDeniedError} - {kind}
    assert not any(issubclass(kind, other) for other in others)


@pytest.mark.covers("ERR-01")
async def test_provider_error_catches_a_failed_call_and_the_run_it_ends() -> None:
    with pytest.raises(ProviderError, match="slow down"):
        await complete(ScriptedModel(RateLimitedError("slow down", retryable=False)), "go")
    script = Script(fail(RateLimitedError("slow down", retryable=False)))
    with pytest.raises(ProviderError, match="slow down"):
        await agent_loop("go", LoopContext(), make_config(script))


@pytest.mark.covers("ERR-01")
async def test_agent_error_catches_a_configuration_failure_of_a_run_with_its_result() -> None:
    def refuse(messages: object) -> list[Message]:
        raise ConfigError("no such folder")

    config = make_config(Script(text_reply("never")), convert_to_llm=refuse)
    with pytest.raises(AgentError, match="no such folder") as caught:
        await agent_loop("go", LoopContext(), config)
    assert caught.value.outcome is not None
    assert caught.value.outcome.status == "error"


@pytest.mark.covers("ERR-01")
def test_docstring_shows_the_whole_exception_tree() -> None:
    assert issubclass(AgentError, MainspringError)
    defined = {n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, Exception)}
    assert defined == {name for name in defined if name in str(errors.__doc__)}, (
        "the tree in the docstring is incomplete"
    )


@pytest.mark.covers("MOD-15", "MOD-06")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_each_code_has_a_class_a_category_and_a_retry_flag(code: ErrorCode) -> None:
    error = model_error("text", code=code)
    assert type(error) is MODEL_ERRORS[code]
    assert error.retryable == (code in {"RATE_LIMITED", "NETWORK_ERROR", "TIMEOUT"})
    expected = {"AUTHENTICATION_ERROR": "auth", "RATE_LIMITED": "rate_limit", "TIMEOUT": "timeout"}
    assert error.category == code.category == expected.get(code, "api_error")


@pytest.mark.covers("MOD-15")
def test_there_are_ten_error_codes() -> None:
    assert {str(code) for code in ErrorCode} == {
        "PROVIDER_NOT_CONFIGURED",
        "PROVIDER_NOT_SUPPORTED",
        "AUTHENTICATION_ERROR",
        "RATE_LIMITED",
        "MODEL_NOT_FOUND",
        "CONTEXT_LENGTH_EXCEEDED",
        "NETWORK_ERROR",
        "TIMEOUT",
        "INVALID_RESPONSE",
        "UNKNOWN",
    }


@pytest.mark.covers("ERR-02", "MOD-38")
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ContextExceededError("too long"), AgentContextExceededError),
        (NetworkError("down", retryable=False), AgentProviderError),
        (RateLimitedError("quota", reason="quota", retryable=False), AgentProviderError),
    ],
)
async def test_run_error_type_depends_on_the_model_error(raised: ModelError, kind: type[AgentError]) -> None:
    with pytest.raises(AgentError) as caught:
        await agent_loop("go", LoopContext(), make_config(Script(fail(raised))))
    assert type(caught.value) is kind
    assert isinstance(caught.value, AgentProviderError)
    assert caught.value.cause is raised
    assert not isinstance(caught.value, AgentAbortedError)
    assert not issubclass(AgentAbortedError, AgentProviderError)


@pytest.mark.covers("ERR-03")
@pytest.mark.parametrize("retry", [None, RetryConfig()])
async def test_unclassified_error_keeps_its_cause(retry: RetryConfig | None) -> None:
    native = ZeroDivisionError("in somebody's provider")
    setup = make_config(Script(fail(native)), behavior=RunOptions(retry=retry))
    with pytest.raises(AgentProviderError, match="in somebody's provider") as caught:
        await agent_loop("go", LoopContext(), setup)
    cause = caught.value.cause
    assert isinstance(cause, ModelError)
    assert cause.code == ErrorCode.UNKNOWN
    assert cause.__cause__ is native


@pytest.mark.covers("ERR-06")
async def test_on_error_receives_a_structured_failure() -> None:
    failures: list[tuple[ErrorCode, str]] = []
    error = RateLimitedError("slow down", status=429, provider="p", request_id="r1", retry_after=90.0)
    client = LLMClient(
        ScriptedModel(error), callbacks=ModelCallbacks(on_error=lambda code, text: failures.append((code, text)))
    )
    failure = await client.invoke("go")
    assert isinstance(failure, Failure)
    assert failures == [(ErrorCode.RATE_LIMITED, failure.message)]
    assert failure.retry_after == 90.0
    ended: list[BaseException | None] = []
    bus_config = make_config(Script(fail(NetworkError("down", retryable=False, status=503))))

    def done(ctx: SessionEnd) -> None:
        ended.append(ctx.error)

    bus_config.bus.on("agent:done", done)
    with pytest.raises(AgentProviderError):
        await agent_loop("go", LoopContext(), bus_config)
    (seen,) = ended
    assert isinstance(seen, AgentProviderError)
    assert isinstance(seen.cause, NetworkError)
    assert seen.cause.status == 503


@pytest.mark.covers("ERR-05", "PKG-09")
async def test_tool_error_goes_to_the_model_and_a_hook_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def broken() -> str:
        """Break."""
        raise ToolError("no such city")

    ctx = LoopContext(tools=ToolRegistry([broken]))
    setup = make_config(Script(tool_call_reply("broken"), text_reply("I see.")))

    def raise_in_hook(ctx: TurnAfter) -> None:
        raise ZeroDivisionError  # logged, and the run continues

    setup.bus.on(TurnAfter, raise_in_hook)
    result = await agent_loop("go", ctx, setup)
    assert result.status == "completed"
    assert as_message(ctx.messages[2]).tool_results[0].text == "no such city"
    assert "ZeroDivisionError" in caplog.text


def test_model_error_carries_the_partial_response() -> None:
    partial = Message.assistant("half")
    assert NetworkError("cut", partial=partial).partial is partial


def test_text_of_an_abort_contains_the_reason_and_the_next_step() -> None:
    error = AgentAbortedError("the user left.")
    advice = " The conversation keeps the messages so far. To continue it, run the agent again, with another prompt or without one."
    assert str(error) == f"The run was aborted: the user left.{advice}"
    assert str(AgentAbortedError()) == f"The run was aborted.{advice}"
    assert describe_failure(error) == ErrorInfo.from_exception(error).message == "the user left."
    assert format_exception(error) == "AgentAbortedError: the user left."
    assert describe_failure(ExceptionGroup("two", [error])) == "two: AgentAbortedError: the user left."
    assert result_from_exception("ask", error).output == "Error: AgentAbortedError: the user left."
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.reason) == (str(error), error.reason)
