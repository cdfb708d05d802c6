"""What a traffic test needs to know about a wire protocol: a reference reader of its bodies, written without the decoders."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mainspring.messages import Message
from mainspring.models.codec.protocol import WireDecoder
from mainspring.models.port import ModelInfo
from mainspring.models.profile import ModelProfile
from mainspring.models.replay import decode_exchange

FIXTURES = Path(__file__).parent.parent / "fixtures"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def decode_arguments(arguments: Any) -> Any:
    """Return the arguments of a call: an object, or the text if it is not one."""
    if not isinstance(arguments, str):
        return arguments
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


def decoded_calls(message: Message) -> list[tuple[str, str, Any]]:
    return [(c.id, c.name, c.input if c.raw_input is None else c.raw_input) for c in message.tool_uses]


def unequal(pairs: Iterable[tuple[str, Any, Any]]) -> list[str]:
    return [f"{what}: {ours!r} is not {theirs!r}" for what, ours, theirs in pairs if ours != theirs]


@dataclass(frozen=True)
class Reading:
    """A wire protocol from the side of recorded traffic.

    Attributes:
        name: Name of the protocol.
        apis: Values of ``api`` of its recordings.
        folder: Folder of its fixtures.
        decoder: Creates a decoder.
        covers: Requirements that decoding its recordings shows.
        recorded: Number of recordings that the material contains at least.
        expected_error: Returns the expected error of a successful response: its reason, "" for any, ``None`` for no error.
        differences: Compares the message of a response with the reference reader.
        is_stream: Returns True if a body is streamed.
        is_complete: Returns True if the beginning of a stream contains its end.
        objects: Splits a body into its events.
        frame: Joins events to the body of a stream.
        compares_partial: Whether the content before an expected error is compared too.
        ends_calls_early: Whether calls may end before the response.
        compare_request: Encodes the conversation of a recorded request again; yields a label for each compared part, and
            ``unlike`` labels for differences.
        request_minimums: Number of parts by label that the material contains at least.
        request_maximums: Number of parts by label that it contains at most.
    """

    name: str
    apis: tuple[str, ...]
    folder: str
    decoder: Callable[[ModelProfile], WireDecoder]
    covers: tuple[str, ...]
    recorded: int
    expected_error: Callable[[dict[str, Any]], str | None]
    differences: Callable[[dict[str, Any], Message], list[str]]
    is_stream: Callable[[dict[str, Any]], bool]
    is_complete: Callable[[bytes], bool]
    objects: Callable[[str], list[dict[str, Any]]]
    frame: Callable[[Sequence[Any]], bytes]
    compares_partial: bool = False
    ends_calls_early: bool = False
    compare_request: Callable[[dict[str, Any]], Iterable[str]] | None = None
    request_minimums: Mapping[str, int] = field(default_factory=dict[str, int])
    request_maximums: Mapping[str, int] = field(default_factory=dict[str, int])

    def fixtures(self) -> list[Path]:
        return sorted((FIXTURES / self.folder).glob("*.json"))

    def find_differences(self, exchange: dict[str, Any]) -> list[str]:
        """Return where decoding differs from the reference reader."""
        message, error = decode_exchange(exchange)
        status = exchange["response"]["status"]
        if status != 200:
            return [] if error is not None and error.status == status else [f"error: {error}"]
        reason = self.expected_error(exchange)
        if reason is not None:
            if error is None or (reason and error.reason != reason):
                return [f"error {reason!r} expected, not {error}"]
            if not self.compares_partial:
                return []
            message = error.partial
        elif error is not None:
            return [f"error: {error}"]
        return ["no message"] if message is None else self.differences(exchange, message)

    def new_decoder(self) -> WireDecoder:
        return self.decoder(ModelProfile(ModelInfo("m", "host"), "http://host/v1"))


def is_event_stream(exchange: dict[str, Any]) -> bool:
    return exchange["response"]["body_text"].lstrip()[:1] not in ("{", "[")


def frame_events(objects: Sequence[Any]) -> bytes:
    return "".join(f"data: {json.dumps(value)}\r\n\r\n" for value in objects).encode()
