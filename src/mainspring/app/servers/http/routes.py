"""Operations of the HTTP API: one table from which the routes and the OpenAPI document are built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from starlette.types import ASGIApp

from mainspring.app.run_service.schemas import (
    Abort,
    AgentList,
    AgentName,
    AgentView,
    Approve,
    Deny,
    Fork,
    ResultView,
    RunList,
    RunState,
    RunView,
    Say,
    StartRun,
)
from mainspring.app.run_service.service import ServiceError
from mainspring.app.servers.ag_ui.encoder import AgUiEncoder
from mainspring.app.servers.ag_ui.input import RunAgentInput
from mainspring.app.servers.http.responses import error_response, json_response
from mainspring.app.servers.http.sse import (
    ID_PATTERN,
    UI_MESSAGE_MARK,
    Format,
    encode_ag_ui_run,
    encode_foreign,
    encode_ui_messages,
    parse_id,
)
from mainspring.app.servers.http.state import ServerState as Service

_Count = Annotated[int, Meta(ge=1, le=500)]


class NoParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter of the list of runs."""

    state: Annotated[RunState | None, Meta(description="Only runs in this state.")] = None
    limit: Annotated[_Count, Meta(description="Maximum number of runs.")] = 50


class FollowQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Position from which to follow a run, and the event format."""

    after: Annotated[
        Annotated[str, Meta(pattern=f"^{ID_PATTERN}$")] | None,
        Meta(
            description="ID of the last event that the client has received; the header `Last-Event-ID` has the same effect."
        ),
    ] = None
    format: Annotated[
        Format | None,
        Meta(
            description="`ag-ui` for events of AG-UI (`Accept: application/vnd.ag-ui.event-stream` has the same effect), "
            "`ui-messages` for the UI message stream of the Vercel AI SDK."
        ),
    ] = None


class AgUiQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Agent to run, and the effect of a disconnect on the run."""

    agent: Annotated[AgentName | None, Meta(description="Name of the agent (default: the first one).")] = None
    on_disconnect: Annotated[
        Literal["stop", "continue"],
        Meta(description="What happens to the run if the client closes the stream before the run ends."),
    ] = "stop"


class ResultQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time to wait for the result."""

    wait: Annotated[
        Annotated[float, Meta(ge=0, le=60)], Meta(description="Maximum number of seconds to wait until the run ends.")
    ] = 0.0


class Accepted(Struct, frozen=True, kw_only=True):
    """The run received the request."""

    id: str


class Health(Struct, frozen=True, kw_only=True):
    """Health of the service."""

    status: Literal["ok", "closing", "unreachable"]


class ApiRequest(Struct, frozen=True, kw_only=True):
    """A request that passed authentication, with its parameters and body."""

    service: Service
    tenant: str
    run_id: str
    body: Any
    query: Any
    last_id: str
    accept: str


class Operation(Struct, frozen=True, kw_only=True):
    """An operation of the API.

    Attributes:
        body: Type of the request body; None for no body.
        answer: Type of the response; None for a stream or a text.
        media: Media type of a response that is not JSON.
        errors: Statuses of the operation, in addition to those of all operations.
        open: Whether it needs no token.
    """

    method: Literal["GET", "POST"]
    path: str
    name: str
    summary: str
    do: Callable[[ApiRequest], Awaitable[ASGIApp]]
    body: type[Struct] | None = None
    query: type[Struct] = NoParameters
    answer: type[Struct] | None = None
    media: str = "application/json"
    status: int = 200
    errors: Sequence[int] = ()
    open: bool = False


async def _agents(call: ApiRequest) -> ASGIApp:
    names = await call.service.service.agents()
    return json_response(AgentList(agents=tuple([AgentView(name=name) for name in names])))


async def _start(call: ApiRequest) -> ASGIApp:
    view, new = await call.service.service.start(call.tenant, call.body)
    return _started(call, view, new)


async def _fork(call: ApiRequest) -> ASGIApp:
    view, new = await call.service.service.fork(call.tenant, call.run_id, call.body)
    return _started(call, view, new)


def _started(call: ApiRequest, view: RunView, new: bool) -> ASGIApp:
    if new:
        call.service.metrics.add("runs_started")
    return json_response(view, 201 if new else 200, {"location": f"/v1/runs/{view.id}"})


async def _list(call: ApiRequest) -> ASGIApp:
    query: ListQuery = call.query
    return json_response(
        RunList(runs=await call.service.service.runs(call.tenant, state=query.state, limit=query.limit))
    )


async def _show(call: ApiRequest) -> ASGIApp:
    return json_response(await call.service.service.view(call.tenant, call.run_id))


async def _result(call: ApiRequest) -> ASGIApp:
    return json_response(await call.service.service.result(call.tenant, call.run_id, call.query.wait))


async def _steer(call: ApiRequest) -> ASGIApp:
    await call.service.service.send_message(call.tenant, call.run_id, call.body.text)
    return _accepted_response(call)


async def _follow_up(call: ApiRequest) -> ASGIApp:
    await call.service.service.send_message(call.tenant, call.run_id, call.body.text, as_follow_up=True)
    return _accepted_response(call)


async def _approve(call: ApiRequest) -> ASGIApp:
    await call.service.service.approve(call.tenant, call.run_id, call.body)
    return _accepted_response(call)


async def _deny(call: ApiRequest) -> ASGIApp:
    await call.service.service.deny(call.tenant, call.run_id, call.body)
    return _accepted_response(call)


async def _abort(call: ApiRequest) -> ASGIApp:
    await call.service.service.abort(call.tenant, call.run_id, call.body)
    return _accepted_response(call)


def _accepted_response(call: ApiRequest) -> ASGIApp:
    return json_response(Accepted(id=call.run_id), 202)


async def _events(call: ApiRequest) -> ASGIApp:
    query: FollowQuery = call.query
    service, tenant, run_id = call.service.service, call.tenant, call.run_id
    try:
        after = parse_id(call.last_id or query.after or "0")
    except ValueError as error:
        return error_response(422, "invalid", f"Last-Event-ID: {error}")
    kind = query.format or ("ag-ui" if "ag-ui" in call.accept else "native")
    if (call.last_id or query.after) and await service.is_fully_read(tenant, run_id, after[0]):
        return no_content()
    await service.view(tenant, run_id)
    if (full := call.service.reject_if_full(tenant)) is not None:
        return full
    if kind == "ag-ui":
        events = encode_foreign(AgUiEncoder(run_id), lambda number: service.follow(tenant, run_id, number), after)
    elif kind == "ui-messages":
        response = call.service.stream(
            tenant, encode_ui_messages(run_id, lambda number: service.follow(tenant, run_id, number), after)
        )
        response.headers += UI_MESSAGE_MARK
        return response
    else:
        events = call.service.event_encoder.encode_run(run_id, service.follow(tenant, run_id, after[0]))
    return call.service.stream(tenant, events)


async def _ag_ui(call: ApiRequest) -> ASGIApp:
    query: AgUiQuery = call.query
    state, tenant = call.service, call.tenant
    if (full := state.reject_if_full(tenant)) is not None:
        return full
    started = await state.ag_ui.begin(tenant, call.body, query.agent or "")
    if not started.after:
        state.metrics.add("runs_started")
    items = state.service.follow(tenant, started.id)
    events = encode_ag_ui_run(started, items, lambda: state.ag_ui.describe_end(tenant, started.id))

    async def stop() -> None:
        try:
            await state.service.abort(tenant, started.id, Abort(reason="the client closed the stream"))
        except ServiceError:
            pass  # the run has ended

    on_disconnect = stop if query.on_disconnect == "stop" else None
    return state.stream(tenant, events, on_disconnect=on_disconnect, location=f"/v1/runs/{started.id}")


def no_content() -> ASGIApp:
    """Return 204, which stops an EventSource from reconnecting after all events were sent."""
    from starlette.responses import Response

    return Response(status_code=204)


async def _health(call: ApiRequest) -> ASGIApp:
    return json_response(Health(status="ok"))


async def _ready(call: ApiRequest) -> ASGIApp:
    if call.service.service.closing:
        return json_response(Health(status="closing"), 503)
    there = await call.service.service.reachable(2.0)
    return json_response(Health(status="ok" if there else "unreachable"), 200 if there else 503)


async def _metrics(call: ApiRequest) -> ASGIApp:
    return await call.service.metrics_response()


async def _openapi(call: ApiRequest) -> ASGIApp:
    return json_response(call.service.document)


_RUN = "/v1/runs/{run_id}"
_RUN_ERRORS = (404, 409)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET", path="/v1/agents", name="listAgents", summary="List the available agents.",
        do=_agents, answer=AgentList,
    ),
    Operation(
        method="POST", path="/v1/runs", name="startRun", summary="Start a run.",
        do=_start, body=StartRun, answer=RunView, status=201, errors=(404, 409, 503),
    ),
    Operation(
        method="GET", path="/v1/runs", name="listRuns", summary="List the runs of the tenant, the newest first.",
        do=_list, query=ListQuery, answer=RunList,
    ),
    Operation(
        method="GET", path=_RUN, name="showRun", summary="Get the state of a run and the tool calls that need approval.",
        do=_show, answer=RunView, errors=(404,),
    ),
    Operation(
        method="GET", path=f"{_RUN}/events", name="followRun",
        summary="Stream the events of a run, from the beginning or after an event, until the run ends. 204 if all events were sent.",
        do=_events, query=FollowQuery, media="text/event-stream", errors=(404,),
    ),
    Operation(
        method="GET", path=f"{_RUN}/result", name="runResult", summary="Get the result of a run.",
        do=_result, query=ResultQuery, answer=ResultView, errors=_RUN_ERRORS,
    ),
    Operation(
        method="POST", path=f"{_RUN}/steer", name="steerRun", summary="Send a steering message, which joins the next turn.",
        do=_steer, body=Say, answer=Accepted, status=202, errors=_RUN_ERRORS,
    ),
    Operation(
        method="POST", path=f"{_RUN}/follow-up", name="followUpRun",
        summary="Send a follow-up message, which continues the run when it would end.",
        do=_follow_up, body=Say, answer=Accepted, status=202, errors=_RUN_ERRORS,
    ),
    Operation(
        method="POST", path=f"{_RUN}/approve", name="approveCall", summary="Allow a tool call that needs approval.",
        do=_approve, body=Approve, answer=Accepted, status=202, errors=_RUN_ERRORS,
    ),
    Operation(
        method="POST", path=f"{_RUN}/deny", name="denyCall", summary="Deny a tool call that needs approval.",
        do=_deny, body=Deny, answer=Accepted, status=202, errors=_RUN_ERRORS,
    ),
    Operation(
        method="POST", path=f"{_RUN}/abort", name="abortRun", summary="Stop a run.",
        do=_abort, body=Abort, answer=Accepted, status=202, errors=_RUN_ERRORS,
    ),
    Operation(
        method="POST", path=f"{_RUN}/fork", name="forkRun",
        summary="Fork a run: start another run from its conversation.",
        do=_fork, body=Fork, answer=RunView, status=201, errors=(404, 409, 503),
    ),
    Operation(
        method="POST", path="/v1/ag-ui", name="runAgent",
        summary="Start a run as an AG-UI client, or resume the run whose interrupts are answered; stream its events.",
        do=_ag_ui, body=RunAgentInput, query=AgUiQuery, media="text/event-stream", errors=(404, 409, 503),
    ),
    Operation(
        method="GET", path="/health", name="health", summary="Check that the process is alive.",
        do=_health, answer=Health, open=True,
    ),
    Operation(
        method="GET", path="/ready", name="ready", summary="Check that the service accepts runs.",
        do=_ready, answer=Health, open=True, errors=(503,),
    ),
    Operation(
        method="GET", path="/metrics", name="metrics", summary="Get the Prometheus metrics of all tenants.",
        do=_metrics, media="text/plain",
    ),
    Operation(
        method="GET", path="/openapi.json", name="openapi", summary="Get this document.",
        do=_openapi, open=True,
    ),
)  # fmt: skip
"""All operations of the API; the web page is separate."""
