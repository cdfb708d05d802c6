"""Find the part of a request that a host refuses, by sending the request again without parts.

Hosts refuse images, tools, and options in many words, or in none that name the part. So the request decides: only a part that it
contains is tried, and the words only decide which part is tried first. Loaded only after a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mainspring.errors import ErrorCode, ModelError
from mainspring.lazy import lazy_re
from mainspring.messages import ContentBlock, Message, TextBlock, ToolResultBlock, ToolUseBlock
from mainspring.models.codec.normalize import arguments_object
from mainspring.models.codec.protocol import WireProtocol
from mainspring.models.codec.unsupported import (
    CAPABILITY_FIELDS,
    has_seen_images,
    with_capabilities,
    without_newest_images,
)
from mainspring.models.json_values import to_json
from mainspring.models.port import ModelRequest, Sampling
from mainspring.models.profile import LeftOutPart, ModelProfile

_MAX_TRIALS = 18
_MAX_FITS = 4  # lower output limits
_MAX_HINTED = 3  # parts that a refusal names
_MAX_REPEATS = 2  # of a request after a call that the model wrote wrong


class _Part(Struct, frozen=True):
    """A part of requests.

    Attributes:
        label: What the user reads.
        hint: Pattern of words that make this part the most likely one.
        changes: Capabilities without the part, by protocol; names in ``unsupported`` are added to those that are there.
        left_out: Its name, if it is left out of the request and not by a capability.
        missed: The changes that a user misses; empty for all.
    """

    label: str
    hint: str
    changes: Mapping[str, Mapping[str, Any]] = {}
    left_out: LeftOutPart | None = None
    missed: frozenset[str] = frozenset()


_PARALLEL_OPTION = "parallel_tool_calls"
_SAMPLING = tuple([name for name in Sampling.__struct_fields__ if name != _PARALLEL_OPTION])
_OPTIONS = {"temperature": False, "stop": False, "unsupported": _SAMPLING}
_PARALLEL = {"unsupported": (_PARALLEL_OPTION,)}
_LIMIT_HINT = r"max.?(completion.?|output.?|new.?)?tokens|output limit"
_IMAGES = _Part(
    "images",
    r"image|vision|visual|multi-?modal|modalit|picture|mmproj|content.{0,9}type|valid string|must be (?:a )?string|base64|图[片像]",
)
_TOOLS = _Part("tools", r"tool|function|jinja", left_out="tools")
_SYSTEM = _Part("the system prompt in its own role", r"system|role|alternat", left_out="system")
_JOINED_CALLS = _Part(
    "several tool calls in one message", r"parallel|single tool|multiple tool|one tool", left_out="joined_calls"
)
_SCHEMA = _Part(
    "the schema of the response",
    r"schema|response.?format|structured|json|grammar",
    {
        "chat_completions": {"json_schema": False},
        "messages": {"json_schema": False},
        "responses": {"json_schema": False},
        "gemini": {"json_schema": False},
        "ollama": {"json_schema": False},
    },
)
_PARTS = (
    _IMAGES,
    _Part("messages without text", r"content", {"chat_completions": {"empty_content": True}}),
    _Part("stream_options", r"stream|usage", {"chat_completions": {"stream_usage": False}}),
    _Part(
        "parallel tool calls",
        r"parallel|several tool|multiple tool",
        {
            "chat_completions": _PARALLEL,
            "messages": _PARALLEL,
            "responses": {**_PARALLEL, "parallel_calls": None},
        },
    ),
    _JOINED_CALLS,
    _Part("a forced tool call", r"tool.?choice|forced?\b|\brequired\b", left_out="tool_choice"),
    _SCHEMA,
    _Part(
        "reasoning",
        r"reason|think|effort",
        {
            "chat_completions": {"efforts": (), "reasoning": "none"},
            "messages": {"thinking": "none", "thinking_off": "omit", "drop_unbound": False, "reasoning": False},
            "responses": {"efforts": (), "encrypted": False, "reasoning": "none"},
            "gemini": {"thinking": "none"},
            "ollama": {"think": "none", "echo": False},
        },
        missed=frozenset({"efforts", "thinking", "think"}),
    ),
    _Part(
        "sampling options and stop sequences",
        r"temperature|top_|penalt|seed|\bstop|sampl",
        {
            "chat_completions": _OPTIONS,
            "messages": _OPTIONS,
            "responses": {"temperature": False, "unsupported": _SAMPLING},
            "gemini": _OPTIONS,
            "ollama": {"unsupported": _SAMPLING},
        },
    ),
    _Part("the field max_tokens", _LIMIT_HINT, {"chat_completions": {"max_tokens_field": "max_completion_tokens"}}),
    _Part("the field max_completion_tokens", _LIMIT_HINT, {"chat_completions": {"max_tokens_field": "max_tokens"}}),
    _Part(
        "the output limit",
        _LIMIT_HINT,
        {"chat_completions": {"max_tokens_field": ""}, "responses": {"max_output_tokens": False}},
    ),
    _Part(
        "prompt cache options",
        r"cache",
        {
            "chat_completions": {"prompt_cache_key": False, "cache_breakpoints": False},
            "messages": {"cache": False},
            "responses": {"prompt_cache_key": False, "store": None},
        },
    ),
    _Part(
        "other options",
        r"param|propert|field|argument|strict|store",
        {
            "chat_completions": {"strict_schema": False},
            "messages": {"context_management": None, "efforts": ()},
            "responses": {"store": None, "strict_tools": None, "strict_schema": False},
        },
    ),
    _Part(
        "the role developer",
        r"developer|role",
        {"chat_completions": {"developer_role": False}, "responses": {"system_role": "system"}},
    ),
    _SYSTEM,
    _TOOLS,
)
"""The parts in the order in which they are tried, if the words of the refusal do not decide it."""

_MISSING = lazy_re(
    r"not (be )?found|no such|n't exist|not exist|unknown (model|url|path|route|endpoint)|invalid (model|url)|not (be )?available|"
    r"no longer|deprecat|decommission|retired|not a valid|(no|not have) access|cannot (get|post)\b|no endpoints found for"
)
_UNSUPPORTED = lazy_re(
    r"support|capab|cannot|can't|can not|unable|not (possible|allowed|implemented|permitted)|match|request|不支持|無法|无法|"
    + "|".join([part.hint for part in _PARTS if part.label in ("images", "tools", "reasoning")])
)
"""Matches a text that may be about a part of the request; routers refuse parts with the status 404, too."""
_UNCLEAR_STATUSES = frozenset({400, 404, 410, 422})
_GUESSED_REASONS = frozenset({"not_found", "content_filter", "quota", "unauthorized"})
"""Reasons that only the words suggest if the status is unclear: a refused image may be "not found" or "not authorized", too."""
_GENERATED_CALL = lazy_re(
    r"(?:pars|decod)\w+ (?:\w+ )?(?:tool|function)[ _-]?call|fail\w* to call a (?:tool|function)|failed_generation|"
    r"malformed.?(?:tool|function).?call"
)
"""Matches a text about a call that the model wrote wrong: the host accepts tools, and the next response is another one."""
_SIZE = lazy_re(r"token|context|too (long|large|big|many)|length|window|\bsize\b|exceed")
"""Matches a text about the size of the request, which any part makes smaller: leaving out unrelated parts is not the solution."""
_TEXT_SIZE = lazy_re(r"token|context|prompt|window")
_ROLE = lazy_re(r"\brole|alternat")
_QUOTED = lazy_re(r"[`'\"][\w./:-]+[`'\"]")
"""Matches a name in quotes, which may contain words such as "vision"."""
_VARIABLE = lazy_re(r"\S*\d\S*")


def without_parts(request: ModelRequest, parts: frozenset[LeftOutPart]) -> ModelRequest:
    """Return the request without the parts that the host refuses."""
    messages = request.messages
    changes: dict[str, Any] = {}
    if "tools" in parts:
        changes |= {"tools": (), "tool_choice": "auto"}
        messages = [_without_calls(message) for message in messages]
    elif "tool_choice" in parts:
        changes["tool_choice"] = "auto"
    if "joined_calls" in parts:
        messages = list(_with_separate_calls(messages))
    if "system" in parts:
        messages = [replace(message, role="user") if message.role == "system" else message for message in messages]
        if (
            request.system and not request.system.isspace()
        ):  # Roles alternate, so that every chat template accepts them.
            messages = [Message.user(request.system), Message.assistant("Understood."), *messages]
            changes["system"] = ""
    if messages is not request.messages:
        changes["messages"] = messages
    return replace(request, **changes)


def _with_separate_calls(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages with at most one call in each, which its result follows: some chat templates accept no other history."""
    calls: Sequence[ToolUseBlock] = ()
    held: Message | None = None  # a message with several calls, until its results are known
    for message in messages:
        if held is not None:
            results = {block.tool_use_id: block for block in message.content if isinstance(block, ToolResultBlock)}
            rest = [block for block in message.content if not isinstance(block, ToolResultBlock)]
            before = [block for block in held.content if not isinstance(block, ToolUseBlock)]
            if any(call.id not in results for call in calls):
                yield held
                yield message
            else:
                for at, call in enumerate(calls):
                    yield replace(held, content=(*(before if at == 0 else ()), call))
                    yield replace(message, content=(results[call.id], *(rest if at == len(calls) - 1 else ())))
            held = None
        elif len(calls := message.tool_uses) > 1:
            held = message
        else:
            yield message
    if held is not None:
        yield held


def _without_calls(message: Message) -> Message:
    """Return the message with its calls and results as text."""
    if not any(isinstance(block, ToolUseBlock | ToolResultBlock) for block in message.content):
        return message
    content: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolUseBlock):
            content.append(TextBlock(f"[called {block.name} with {to_json(arguments_object(block)).decode()}]"))
        elif isinstance(block, ToolResultBlock):
            parts = (TextBlock(block.content),) if isinstance(block.content, str) else block.content
            content += [TextBlock(f"[result of {block.name}]"), *parts]
        else:
            content.append(block)
    return replace(message, content=tuple(content))


def comparable_text(refusal: ModelError) -> str:
    """Return the text of a refusal without what differs from request to request: numbers, IDs, the host."""
    text = refusal.message.rpartition(" (HTTP ")[0] or refusal.message
    return _VARIABLE.sub("#", text.lower())


def describe_left_out_parts(protocol: str, before: ModelProfile, after: ModelProfile, refusal: ModelError) -> str:
    """Return a note about the parts that are no longer sent; empty if nothing changed that a user would miss."""
    labels = [
        part.label
        for part in _PARTS
        if not _is_applied(protocol, part, applied := _without(protocol, before, part), before)
        and _is_applied(protocol, part, applied, after)
    ]
    if after.unreadable != before.unreadable and after.info.vision:
        labels.append("the newest images")
    if not labels:
        return ""
    text = refusal.message.rpartition(" (HTTP ")[0] or refusal.message
    return (
        f"{after.provider}:{after.model} refused {' and '.join(labels)} ({text[:300].rstrip('.')}). The request was sent again "
        "without them, and later requests of this run leave them out too."
    )


def _without(protocol: str, profile: ModelProfile, part: _Part) -> ModelProfile:
    """Return the profile of a model without a part; an equal profile if the protocol does not have the part."""
    if part is _IMAGES:
        return replace(profile, info=replace(profile.info, vision=False))
    if part.left_out is not None:
        return replace(profile, left_out=profile.left_out | {part.left_out})
    changes = dict(part.changes.get(protocol, {}))
    if not changes:
        return profile
    if "unsupported" in changes:
        before = getattr(profile, CAPABILITY_FIELDS[protocol]).unsupported
        changes["unsupported"] = tuple(dict.fromkeys((*before, *changes["unsupported"])))
    return with_capabilities(profile, protocol, changes)


def _is_applied(protocol: str, part: _Part, applied: ModelProfile, after: ModelProfile) -> bool:
    """Return True if ``after`` has the changes of a part."""
    if part is _IMAGES:
        return not after.info.vision
    if part.left_out is not None:
        return part.left_out in after.left_out
    field = CAPABILITY_FIELDS[protocol]
    one, other = getattr(applied, field), getattr(after, field)
    return all(
        set(getattr(one, name)) <= set(getattr(other, name))
        if name == "unsupported"
        else getattr(one, name) == getattr(other, name)
        for name in part.changes.get(protocol, ())
        if not part.missed or name in part.missed
    )


class _Trial(Struct, frozen=True):
    """A changed profile to try.

    Attributes:
        profile: The profile.
        part: The part that it leaves out, if it is a single one.
        is_probe: Whether only the acceptance of the request matters, and not the response.
        is_repeat: Whether the request was sent before.
    """

    profile: ModelProfile
    part: _Part | None = None
    is_probe: bool = False
    is_repeat: bool = False


class PartTrials:
    """The trials of one request after a refusal.

    A trial with the same refusal did not leave out the cause; one with another refusal did, and the search continues from it. If no
    part that the refusal names is the cause, a request without all parts shows whether any part is: a lasting refusal costs a
    handful of requests.

    Args:
        protocol: Wire protocol.
        request: The request.
        profile: Profile with which it was refused.
        refusal: The refusal.
        fit: Function that returns the profile and the request with a lower output limit, if a refusal contains one.
        is_repeated: Whether the same request failed in the same way before.
    """

    def __init__(
        self,
        protocol: WireProtocol,
        request: ModelRequest,
        profile: ModelProfile,
        refusal: ModelError,
        fit: Callable[[ModelRequest, ModelProfile, bytes, ModelError], tuple[ModelProfile, bytes] | None],
        *,
        is_repeated: bool,
    ) -> None:
        self._fit_request = fit
        self._protocol = protocol
        self._request = request
        self._refusal = refusal
        self._is_repeated = is_repeated
        self._body = self._encode(profile)
        self._bodies = {self._body: False}  # and whether the host accepted them
        self._trials_left = _MAX_TRIALS
        self._fits_left = _MAX_FITS
        self._last = _Trial(profile)
        self._is_accepted = False
        self._next = self._candidates(profile, refusal)

    @property
    def is_probing(self) -> bool:
        """True if only the acceptance of the last trial matters: its response is closed, and the search continues."""
        return self._last.is_probe

    def next(self, refusal: ModelError | None) -> tuple[ModelProfile, bytes]:
        """Return the next profile to try, and the request for it.

        Args:
            refusal: The last refusal; ``None`` if the host accepted the last trial.

        Raises:
            ModelError: The refusal to report, if nothing is left to try.
        """
        self._is_accepted = self._bodies[self._body] = refusal is None
        if refusal is not None and refusal is not self._refusal:
            fitted = self._fit(refusal)
            if fitted is not None:
                return fitted
            if not _may_refuse_part(refusal):
                raise refusal
            if self._is_progress(refusal):
                self._refusal = refusal
                self._next = self._candidates(self._last.profile, refusal)
        for trial in self._next:
            body = self._encode(trial.profile)
            self._is_accepted = self._bodies.get(body, False)
            if self._trials_left and (trial.is_repeat or body not in self._bodies):
                self._trials_left -= 1
                self._last, self._body = trial, body
                return trial.profile, body
        raise self._refusal

    def _fit(self, refusal: ModelError) -> tuple[ModelProfile, bytes] | None:
        """Return the last trial with a lower output limit, if its refusal contains one."""
        profile = self._last.profile
        request = without_parts(self._request, profile.left_out) if profile.left_out else self._request
        fitted = self._fit_request(request, profile, self._body, refusal) if self._fits_left else None
        if fitted is not None:
            self._fits_left -= 1
            self._last, self._body = replace(self._last, profile=fitted[0]), fitted[1]
        return fitted

    def _is_progress(self, refusal: ModelError) -> bool:
        if self._last.is_probe or comparable_text(refusal) == comparable_text(self._refusal):
            return False
        return self._last.part is None or not re.search(self._last.part.hint, refusal.message.lower())

    def _encode(self, profile: ModelProfile) -> bytes:
        request = without_parts(self._request, profile.left_out) if profile.left_out else self._request
        return self._protocol.encode(request, profile)

    def _candidates(self, profile: ModelProfile, refusal: ModelError) -> Iterator[_Trial]:
        """Return the trials after a refusal."""
        text = refusal.message.lower()
        is_generated = _GENERATED_CALL.search(text) is not None
        has_tools = is_generated or _has_called_tools(self._request, profile)
        parts = [part for part in _PARTS if not (part is _TOOLS and has_tools)]
        hinted = [part for part in parts if re.search(part.hint, text)]
        if refusal.status == 413:
            return self._trials_of_large_request(profile, text)
        if refusal.status == 500 and refusal.reason == "server_error":
            # A failure of the server is more likely than a refusal, unless it mentions the part or repeats.
            possible = [part for part in hinted if part in (_IMAGES, _JOINED_CALLS, _SCHEMA, _TOOLS)]
            if _ROLE.search(text):  # "System error" is the most common text of a failure.
                possible.insert(0, _SYSTEM)
            return self._one_by_one(profile, possible or ([_IMAGES] if self._is_repeated else []))
        if (refusal.status or 0) >= 500 and refusal.reason != "not_implemented":
            return iter(())
        if not _may_refuse_any_part(refusal):
            named = [part for part in hinted if part in (_IMAGES, _TOOLS)] if _may_refuse_part(refusal) else []
            return self._one_by_one(profile, named)
        if _SIZE.search(text):
            parts = [part for part in parts if part in hinted or part not in (_IMAGES, _TOOLS)]
        found = self._trials_of_refusal(profile, refusal, parts, hinted)
        return chain([_Trial(profile, is_repeat=True)] * _MAX_REPEATS, found) if is_generated else found

    def _trials_of_large_request(self, profile: ModelProfile, text: str) -> Iterator[_Trial]:
        """Yield trials without images, which are most of the bytes of a request; a conversation that is too long is compacted."""
        if not _TEXT_SIZE.search(text):
            for changed in without_newest_images(profile, self._request.messages):
                yield _Trial(changed, _IMAGES)
            yield from self._one_by_one(profile, [_IMAGES])

    def _one_by_one(
        self, profile: ModelProfile, parts: Sequence[_Part], *, is_repeated: bool = False
    ) -> Iterator[_Trial]:
        """Yield a trial without each part; a run loses its tools only if the same request failed twice."""
        for part in parts:
            if part is _TOOLS and self._request.tools and not (self._is_repeated or is_repeated):
                yield _Trial(profile, is_repeat=True)
            yield _Trial(_without(self._protocol.name, profile, part), part)

    def _trials_of_refusal(
        self, profile: ModelProfile, refusal: ModelError, parts: Sequence[_Part], hinted: Sequence[_Part]
    ) -> Iterator[_Trial]:
        """Yield the trials: without a part that the refusal names, then, if any part is the cause, without one part each."""
        if refusal is not self._refusal or self._trials_left < _MAX_TRIALS:
            yield from map(_Trial, self._protocol.without_rejected(profile, refusal.message))
        yield from self._single_parts(profile, hinted[:_MAX_HINTED])
        if refusal.status is None:  # In a response, a failure is more likely than a refusal that names no part.
            return
        accepted: ModelProfile | None = None
        for last in (_TOOLS, None):
            changed = profile
            for part in parts:
                changed = changed if part is last else _without(self._protocol.name, changed, part)
            yield _Trial(changed, is_probe=True)
            if self._is_accepted:
                accepted = changed
                break
        if accepted is not None:  # A refusal of a single part is not billed, and one of them is the cause.
            yield _Trial(profile, is_repeat=True)  # A failure may pass, and the words do not refuse anything.
            yield from self._single_parts(
                profile, [part for part in parts if part not in hinted[:_MAX_HINTED]], is_repeated=True
            )
            yield _Trial(accepted, is_repeat=True)

    def _single_parts(
        self, profile: ModelProfile, parts: Sequence[_Part], *, is_repeated: bool = False
    ) -> Iterator[_Trial]:
        """Yield a trial without each of these parts."""
        for part in parts:
            if part is _IMAGES and has_seen_images(profile, self._request.messages):
                newest = without_newest_images(profile, self._request.messages)
                yield from (_Trial(changed, part) for changed in newest)
            yield from self._one_by_one(profile, [part], is_repeated=is_repeated)


def _may_refuse_part(refusal: ModelError) -> bool:
    """Return True if the cause may be a part of the request: any part, or images or tools that the text names."""
    if _may_refuse_any_part(refusal):
        return True
    text = _QUOTED.sub(" ", refusal.message.lower().replace((refusal.model or " ").lower(), " "))
    is_guess = refusal.status in _UNCLEAR_STATUSES and refusal.reason in _GUESSED_REASONS
    return is_guess and any(re.search(part.hint, text) for part in (_IMAGES, _TOOLS))


def _may_refuse_any_part(refusal: ModelError) -> bool:
    """Return True if the cause may be any part of the request: not the key, the model, a limit, the length, or the content."""
    status, reason = refusal.status, refusal.reason
    if reason in ("bad_request", "not_implemented") or status == 413 or (status == 500 and reason == "server_error"):
        return True
    if status is None and not reason:  # An error without a code, in a response.
        return True
    is_unclear = status in (404, 410) and refusal.code in (ErrorCode.UNKNOWN, ErrorCode.MODEL_NOT_FOUND)
    text = refusal.message.lower()
    return is_unclear and reason == "not_found" and not _MISSING.search(text) and _UNSUPPORTED.search(text) is not None


def _has_called_tools(request: ModelRequest, profile: ModelProfile) -> bool:
    """Return True if the model has called tools in this conversation: then its host accepts tools."""
    return any(
        message.tool_uses and message.provider == profile.provider and message.model == profile.model
        for message in request.messages
        if message.role == "assistant"
    )
