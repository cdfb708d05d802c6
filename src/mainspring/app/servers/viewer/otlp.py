"""Decode OTLP spans, in JSON or protobuf, for the viewer's page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mainspring.app.servers.viewer.model import SpanKind, ViewEvent, ViewSpan
from mainspring.telemetry import conventions

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_CONTENT = {
    conventions.INPUT_MESSAGES,
    conventions.OUTPUT_MESSAGES,
    conventions.TOOL_ARGUMENTS,
    conventions.TOOL_RESULT,
}
_KINDS: dict[str, SpanKind] = {
    conventions.INVOKE_AGENT: "agent", "create_agent": "agent", "invoke_workflow": "agent", conventions.CHAT: "model",
    "generate_content": "model", "text_completion": "model", conventions.EXECUTE_TOOL: "tool",
}  # fmt: skip
_ERROR = 2  # the OTLP status code for errors

JSON_TYPES = ("application/json",)
PROTOBUF_TYPES = ("application/x-protobuf", "application/protobuf")


class OtlpDecodeError(ValueError):
    """The request is not OTLP, or its encoding is not supported; the message contains the reason.

    Attributes:
        status: HTTP status of the error.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class ReceivedSpan:
    """A received span, with its trace and the service that sent it."""

    __slots__ = ("service", "span", "trace")

    def __init__(self, trace: str, service: str, span: ViewSpan) -> None:
        self.trace = trace
        self.service = service
        self.span = span


def decode_spans(data: bytes, content_type: str) -> list[ReceivedSpan]:
    """Return the spans of a request to ``/v1/traces``.

    Raises:
        OtlpDecodeError: If they cannot be decoded.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind in JSON_TYPES:
        try:
            request = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise OtlpDecodeError(f"The body is not valid JSON: {error}.") from error
    elif kind in PROTOBUF_TYPES:
        request = _decode_protobuf(data)
    else:
        raise OtlpDecodeError(
            f"Unsupported content type: {kind or '(none)'!r}. Send application/json or application/x-protobuf.", 415
        )
    try:
        return list(_spans(_mapping(request)))
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise OtlpDecodeError(f"The body is not valid OTLP: {error}.") from error


def _decode_protobuf(data: bytes) -> dict[str, Any]:
    """Decode protobuf to the same data as OTLP's JSON."""
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.proto") is None:
        raise OtlpDecodeError("Protobuf is not supported here. Install mainspring[otel], or send JSON.", 415)
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    try:
        request = ExportTraceServiceRequest.FromString(data)
    except Exception as error:  # protobuf's exception class, from an optional package
        raise OtlpDecodeError(f"The body is not valid protobuf: {error}.") from error
    resources = [
        {
            "resource": {"attributes": _pairs(resource.resource.attributes)},
            "scopeSpans": [{"spans": [_plain(s) for s in scope.spans]} for scope in resource.scope_spans],
        }
        for resource in request.resource_spans
    ]
    return {"resourceSpans": resources}


def _plain(span: Span) -> dict[str, Any]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "startTimeUnixNano": span.start_time_unix_nano,
        "endTimeUnixNano": span.end_time_unix_nano,
        "attributes": _pairs(span.attributes),
        "events": [
            {"name": e.name, "timeUnixNano": e.time_unix_nano, "attributes": _pairs(e.attributes)} for e in span.events
        ],
        "status": {"code": span.status.code, "message": span.status.message},
    }


def _pairs(attributes: Iterable[KeyValue]) -> list[dict[str, Any]]:
    return [{"key": a.key, "value": _any(a.value)} for a in attributes]


def _any(value: AnyValue) -> dict[str, Any]:
    match value.WhichOneof("value"):
        case "array_value":
            return {"arrayValue": {"values": [_any(v) for v in value.array_value.values]}}
        case "kvlist_value":
            return {"kvlistValue": {"values": _pairs(value.kvlist_value.values)}}
        case "int_value":
            return {"intValue": value.int_value}
        case "double_value":
            return {"doubleValue": value.double_value}
        case "bool_value":
            return {"boolValue": value.bool_value}
        case "bytes_value":
            return {"bytesValue": value.bytes_value.hex()}
        case _:
            return {"stringValue": value.string_value}


def _spans(request: Mapping[str, Any]) -> Iterator[ReceivedSpan]:
    for resource in _sequence(request.get("resourceSpans")):
        facts = _attributes(_mapping(_mapping(resource).get("resource")).get("attributes"))
        service = str(facts.get("service.name", ""))
        for scope in _sequence(_mapping(resource).get("scopeSpans")):
            for span in _sequence(_mapping(scope).get("spans")):
                given = _mapping(span)
                yield ReceivedSpan(_id(given, "traceId", 32), service, _span(given))


def _span(mapping: Mapping[str, Any]) -> ViewSpan:
    attributes = _attributes(mapping.get("attributes"))
    operation = str(attributes.get(conventions.OPERATION, ""))
    kind = _KINDS.get(operation) or (
        "mcp" if conventions.MCP_METHOD in attributes or "mcp" in str(mapping.get("name")) else "other"
    )
    status = _mapping(mapping.get("status"))
    failed = status.get("code") in {_ERROR, "STATUS_CODE_ERROR"}
    message = str(status.get("message") or attributes.get(conventions.ERROR_TYPE) or "failed")
    cost = attributes.get(conventions.COST)
    span = ViewSpan(
        id=_id(mapping, "spanId", 16),
        parent=str(mapping.get("parentSpanId") or "").lower(),
        name=str(mapping.get("name") or ""),
        kind=kind,
        start=_ms(mapping.get("startTimeUnixNano")),
        end=_ms(mapping.get("endTimeUnixNano")) or None,
        error=message if failed else "",
        model=str(attributes.get(conventions.RESPONSE_MODEL) or attributes.get(conventions.REQUEST_MODEL) or ""),
        input_tokens=_count(attributes.get(conventions.USAGE_INPUT)),
        output_tokens=_count(attributes.get(conventions.USAGE_OUTPUT)),
        cached_tokens=_count(attributes.get(conventions.USAGE_CACHE_READ)),
        cost=float(cost) if isinstance(cost, int | float) else None,
        call=str(attributes.get(conventions.TOOL_CALL_ID) or ""),
        input=_content(attributes.get(conventions.TOOL_ARGUMENTS) or attributes.get(conventions.INPUT_MESSAGES)),
        output=_content(attributes.get(conventions.TOOL_RESULT) or attributes.get(conventions.OUTPUT_MESSAGES)),
        attributes={k: v for k, v in attributes.items() if k not in _CONTENT},
    )
    span.events = [
        ViewEvent(
            name=str(e.get("name") or ""), time=_ms(e.get("timeUnixNano")), attributes=_attributes(e.get("attributes"))
        )
        for e in map(_mapping, _sequence(mapping.get("events")))
    ]
    return span


def _content(value: Any) -> Any:
    """Decode messages, which are JSON in a string attribute."""
    if isinstance(value, str) and value[:1] in {"[", "{"}:
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    return value


def _attributes(value: Any) -> dict[str, Any]:
    return {str(a["key"]): _value(_mapping(a).get("value")) for a in map(_mapping, _sequence(value)) if "key" in a}


def _value(given: Any) -> Any:
    for name, value in _mapping(given).items():
        match name:
            case "intValue":
                return int(value)
            case "doubleValue":
                return float(value)
            case "arrayValue":
                return [_value(v) for v in _sequence(_mapping(value).get("values"))]
            case "kvlistValue":
                return _attributes(_mapping(value).get("values"))
            case _:
                return value
    return None


def _id(mapping: Mapping[str, Any], name: str, length: int) -> str:
    text = str(mapping.get(name) or "").lower()
    if len(text) != length or not all(message in "0123456789abcdef" for message in text):
        raise ValueError(f"{name} is not {length} hexadecimal digits")
    return text


def _ms(nanoseconds: Any) -> float:
    return int(nanoseconds or 0) / 1e6


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, not {type(value).__name__}")
    return cast("Mapping[str, Any]", value)


def _sequence(value: Any) -> Sequence[Any]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError(f"expected a list, not {type(value).__name__}")
    return cast("list[Any]", value)
