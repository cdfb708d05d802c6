"""Calls and reasoning that a server without a parser leaves in the text of a response."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mainspring.events import Done, StreamEvent, TextDelta, TextEnd
from mainspring.messages import Message, ToolDefinition
from mainspring.models import HttpModel, create_model
from mainspring.models.codec.response_reader import ResponseReader
from mainspring.models.codec.text_calls import has_unread_calls
from mainspring.models.port import ModelRequest
from mainspring.models.profile import ChatCapabilities, ModelProfile, OllamaCapabilities
from mainspring.models.transport.recording import MemoryResponse, MemoryTransport
from mainspring.models.wire.ollama import OllamaDecoder, OllamaProtocol
from mainspring.models.wire.openai_chat import ChatCompletionsProtocol, ChatDecoder
from tests.unit.models.wire import call, chunk, profile, sse

LOCAL = profile(ChatCapabilities(text_markup=True))
READ = ToolDefinition(
    "read_file",
    "Reads.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "integer"},
            "all": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "names": {"type": "array"},
        },
    },
)
WRITE = ToolDefinition("write_file", "Writes.", {"type": "object", "properties": {"content": {"type": "string"}}})
TOOLS = (READ, WRITE)
PATH = {"path": "a.txt"}


def decode(*pieces: str, finish: str = "stop", tools: Any = TOOLS) -> tuple[Message, list[StreamEvent], bool]:
    """Return the message, the events, and whether markup of calls could not be read."""
    reader = ResponseReader(ChatDecoder(LOCAL))
    reader.decoder.tools = tools
    events = reader.feed(sse(*[chunk({"content": piece}) for piece in pieces], chunk({}, finish)))
    events += reader.finish()
    assert reader.error is None
    assert isinstance(events[-1], Done)
    return events[-1].message, events, reader.decoder.has_unparsed_calls


def summarize(message: Message) -> tuple[str, str, list[tuple[str, Any]]]:
    return message.text, message.thinking, [(use.name, use.input) for use in message.tool_uses]


XML = "<tool_call>\n<function=read_file>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"
JSON = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>'
INVOKE = '<function_calls>\n<invoke name="read_file">\n<parameter name="path">a.txt</parameter>\n</invoke>\n</function_calls>'
ONE_CALL = [("read_file", PATH)]

CALLS: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "xml": (XML, ONE_CALL),
    "xml without an opening tag": (XML.removeprefix("<tool_call>\n"), ONE_CALL),
    "xml without wrapper": (XML.removeprefix("<tool_call>\n").removesuffix("\n</tool_call>"), ONE_CALL),
    "xml in one line": ("<function=read_file><parameter=path>a.txt</parameter></function>", ONE_CALL),
    "xml with json": ('<function=read_file>{"path": "a.txt"}</function>', ONE_CALL),
    "xml without arguments": ("<tool_call><function=read_file></function></tool_call>", [("read_file", {})]),
    "json": (JSON, ONE_CALL),
    "json without an end tag": (JSON.removesuffix("</tool_call>"), ONE_CALL),
    "json with arguments as text": (
        '<tool_call>{"name": "read_file", "arguments": "{\\"path\\": \\"a.txt\\"}"}</tool_call>',
        ONE_CALL,
    ),
    "json with parameters": ('<tool_call>{"name": "read_file", "parameters": {"path": "a.txt"}}</tool_call>', ONE_CALL),
    "json list": ('<tool_calls>[{"name": "read_file", "arguments": {"path": "a.txt"}}]</tool_calls>', ONE_CALL),
    "json of the protocol": (
        '<tool_call>{"type": "function", "function": {"name": "read_file", "arguments": {"path": "a.txt"}}}</tool_call>',
        ONE_CALL,
    ),
    "invoke": (INVOKE, ONE_CALL),
    "invoke alone": ('<invoke name="read_file"><parameter name="path">a.txt</parameter></invoke>', ONE_CALL),
    "invoke of minimax": (
        '<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">a.txt</parameter>\n</invoke>\n</minimax:tool_call>',
        ONE_CALL,
    ),
    "keys and values": (
        "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>",
        ONE_CALL,
    ),
    "two calls": (f"{JSON}\n{XML}", ONE_CALL * 2),
    "prefix of functions": (JSON.replace("read_file", "functions.read_file"), ONE_CALL),
    "prefix of an API": (
        '<|tool_call_start|>[default_api.read_file(path="a.txt")]<|tool_call_end|>',
        ONE_CALL,
    ),
    "types of the schema": (
        "<function=read_file><parameter=path>7</parameter><parameter=lines>7</parameter><parameter=all>true</parameter>"
        '<parameter=names>["a"]</parameter></function>',
        [("read_file", {"path": "7", "lines": 7, "all": True, "names": ["a"]})],
    ),
    "kimi": (
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{"path": "a.txt"}'
        "<|tool_call_end|><|tool_calls_section_end|>",
        ONE_CALL,
    ),
    "kimi k3": (
        '<|open|>tools<|sep|><|open|>call tool="read_file" index="1"<|sep|><|open|>argument key="path" type="string"<|sep|>a.txt'
        '<|close|>argument<|sep|><|open|>argument key="lines" type="number"<|sep|>7<|close|>argument<|sep|><|close|>call<|sep|>'
        '<|open|>call tool="write_file" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|end_of_msg|>',
        [("read_file", {"path": "a.txt", "lines": 7}), ("write_file", {})],
    ),
    "kimi, two calls without sections": (
        '<|tool_call_begin|>read_file:0<|tool_call_argument_begin|>{"path": "a.txt"}<|tool_call_end|>\n'
        '<|tool_call_begin|> functions.read_file:1 <|tool_call_argument_begin|> {"path": "a.txt"} <|tool_call_end|>',
        ONE_CALL * 2,
    ),
    "kimi, json": (
        '<|tool_call_begin|>{"name": "read_file", "arguments": {"path": "a.txt"}}<|tool_call_end|>',
        ONE_CALL,
    ),
    "deepseek v3": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{"path": "a.txt"}\n```'
        "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>write_file\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        [*ONE_CALL, ("write_file", {})],
    ),
    "deepseek v3.1": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": "a.txt"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        ONE_CALL,
    ),
    "deepseek dsml": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n<｜DSML｜parameter name="path" string="true">a.txt'
        '</｜DSML｜parameter>\n<｜DSML｜parameter name="lines" string="false">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>",
        [("read_file", {"path": "a.txt", "lines": 7})],
    ),
    "deepseek dsml without the first tag": (
        '<|DSML|invoke name="read_file">\n<|DSML|parameter name="path" string="true">a.txt</|DSML|parameter>\n</|DSML|invoke>\n'
        "</|DSML|tool_calls>",
        ONE_CALL,
    ),
    "step": (
        "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
        '<steptml:invoke name="read_file"><steptml:parameter name="path">a.txt</steptml:parameter></steptml:invoke>'
        "<｜tool_call_end｜><｜tool_calls_end｜>",
        ONE_CALL,
    ),
    "llama": ('<|python_tag|>{"name": "read_file", "parameters": {"path": "a.txt"}}<|eom_id|>', ONE_CALL),
    "llama, two calls": (
        '<|python_tag|>{"name": "read_file", "parameters": {"path": "a.txt"}}; {"name": "read_file", "parameters": {"path": "a.txt"}}',
        ONE_CALL * 2,
    ),
    "llama, python": (
        '<|python_start|>[read_file(path="a.txt"), read_file(lines=7)]<|python_end|>',
        [*ONE_CALL, ("read_file", {"lines": 7})],
    ),
    "lfm": (
        r'<|tool_call_start|>[read_file(path="\d a.txt", names=["a"], all=None)]<|tool_call_end|>',
        [("read_file", {"path": r"\d a.txt", "names": ["a"], "all": None})],
    ),
    "olmo": ('<function_calls>\nread_file(path="a.txt")\nread_file(path="a.txt")\n</function_calls>', ONE_CALL * 2),
    "mistral": ('[TOOL_CALLS][{"name": "read_file", "arguments": {"path": "a.txt"}}]', ONE_CALL),
    "mistral v11": (
        '[TOOL_CALLS]read_file[ARGS]{"path": "a.txt"}[TOOL_CALLS]read_file[CALL_ID]x1[ARGS]{"path": "a.txt"}</s>',
        ONE_CALL * 2,
    ),
    "mistral without marks": ('[TOOL_CALLS]read_file{"path": "a.txt"}', ONE_CALL),
    "gemma": (
        '<|tool_call>call:read_file{path:<|"|>a, "b": {<|"|>,lines:7,all:true,names:[<|"|>x<|"|>]}<tool_call|>',
        [("read_file", {"path": 'a, "b": {', "lines": 7, "all": True, "names": ["x"]})],
    ),
    "gemma, json": (
        '<|tool_call|>call:read_file{"path": "a: b", "lines": 7}<|tool_call|>',
        [("read_file", {"path": "a: b", "lines": 7})],
    ),
    "function gemma": ("<start_function_call>call:read_file{path:<escape>a.txt<escape>}<end_function_call>", ONE_CALL),
    "granite": ('<|tool_call|>[{"name": "read_file", "arguments": {"path": "a.txt"}}]', ONE_CALL),
    "granite 20b": ('<function_call> {"name": "read_file", "arguments": {"path": "a.txt"}}', ONE_CALL),
    "phi": ('<|tool_call|>[{"name": "read_file", "arguments": {"path": "a.txt"}}]<|/tool_call|>', ONE_CALL),
    "internlm": (
        '<|action_start|><|plugin|>\n{"name": "read_file", "parameters": {"path": "a.txt"}}<|action_end|>',
        ONE_CALL,
    ),
    "cohere": (
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "read_file", "parameters": {"path": "a.txt"}}\n]<|END_ACTION|>',
        ONE_CALL,
    ),
    "nemotron": ('<TOOLCALL>[{"name": "read_file", "arguments": {"path": "a.txt"}}]</TOOLCALL>', ONE_CALL),
    "seed": (
        "<seed:tool_call><function=read_file><parameter=path>a.txt</parameter></function></seed:tool_call>",
        ONE_CALL,
    ),
    "longcat": (
        "<longcat_tool_call>read_file\n<longcat_arg_key>path</longcat_arg_key>\n<longcat_arg_value>a.txt</longcat_arg_value>\n</longcat_tool_call>",
        ONE_CALL,
    ),
    "qwen, name before json": ('<tool_call>\nread_file\n{"path": "a.txt"}\n</tool_call>', ONE_CALL),
    "calls list with json": (
        '<function_calls>[{"name": "read_file", "arguments": {"path": "a.txt"}}]</function_calls>',
        ONE_CALL,
    ),
    "stop token after the call": (f"{JSON}<|im_end|>", ONE_CALL),
    "markup in an argument": (
        "<function=write_file>\n<parameter=content>\n<p>\n</parameter> & </function> too\n\n</parameter>\n</function>",
        [("write_file", {"content": "<p>\n</parameter> & </function> too\n"})],
    ),
    "markup in a json argument": (
        '<tool_call>{"name": "write_file", "arguments": {"content": "<tool_call>{}</tool_call> and more"}}</tool_call>',
        [("write_file", {"content": "<tool_call>{}</tool_call> and more"})],
    ),
}
THOUGHTS: dict[str, tuple[str, tuple[str, str, list[tuple[str, Any]]]]] = {
    "think": ("<think>\nHm.\n</think>\n\nYes.", ("Yes.", "Hm.", [])),
    "think after whitespace": ("\n <think>Hm.</think>Yes.", ("Yes.", "Hm.", [])),
    "thinking": ("<thinking>Hm.</thinking>Yes.", ("Yes.", "Hm.", [])),
    "thought": ("<thought>Hm. </think></thought>Yes.", ("Yes.", "Hm. </think>", [])),
    "think of seed": ("<seed:think>Hm.</seed:think>Yes.", ("Yes.", "Hm.", [])),
    "think of magistral": ("[THINK]Hm. [a]</think>[/THINK]Yes.", ("Yes.", "Hm. [a]</think>", [])),
    "think of kimi": ("◁think▷Hm.◁/think▷Yes [a] <b>.", ("Yes [a] <b>.", "Hm.", [])),
    "think of gemma": ("<|channel>thought\nHm.\n<channel|>Yes.", ("Yes.", "Hm.", [])),
    "empty think": ("<think>\n\n</think>\n\nYes.", ("Yes.", "", [])),
    "think with other tags": (
        "<think>a < b, <b>, </thin, <tool_call></think>Yes.",
        ("Yes.", "a < b, <b>, </thin, <tool_call>", []),
    ),
    "think and call": (f"<think>Hm.</think>\n\n{XML}", ("", "Hm.", ONE_CALL)),
    "think, text, and call": (f"<think>Hm.</think>\nI read.\n{JSON}", ("I read.\n", "Hm.", ONE_CALL)),
    "lone end": ("Hm.\n</think>\n\nYes.", ("Yes.", "Hm.", [])),
    "lone end and call": (f"Hm.\n</think>\n\n{JSON}", ("", "Hm.", ONE_CALL)),
    "end without reasoning": ("</think>\n\nYes.", ("Yes.", "", [])),
    "unclosed think": ("<think>Hm.", ("", "Hm.", [])),
    "think of cohere": (
        "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Yes.<|END_RESPONSE|>",
        ("Yes.", "Hm.", []),
    ),
    "think of kimi k3": (
        "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|end_of_msg|>",
        ("Yes.", "Hm.", []),
    ),
    "harmony": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
        ("Yes.", "Hm.", []),
    ),
    "harmony without the last mark": (
        "<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|>\n<|start|>assistant<|channel|>final<|message|>Yes.",
        ("Yes.", "Hm.", []),
    ),
    "harmony that began in the prompt": (
        "Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
        ("Yes.", "Hm.", []),
    ),
    "harmony call": (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.read_file "
        '<|constrain|>json<|message|>{"path": "a.txt"}<|call|>',
        ("", "Hm.", ONE_CALL),
    ),
    "harmony call without the last mark": (
        '<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{"path": "a.txt"}',
        ("", "", ONE_CALL),
    ),
    "harmony call with the recipient in the role": (
        '<|start|>assistant to=functions.read_file<|channel|>commentary json<|message|>{"path": "a.txt"}<|call|>',
        ("", "", ONE_CALL),
    ),
    "harmony text before a call": (
        "<|channel|>commentary<|message|>I read.<|end|><|start|>assistant<|channel|>commentary "
        'to=functions.read_file<|message|>{"path": "a.txt"}<|call|>',
        ("I read.", "", ONE_CALL),
    ),
}
TEXTS = {
    "prose": "Is 1 < 2 and a<b> or <think? Yes, <tool_cal or </thinking",
    "native markup in a fence": "Kimi writes:\n```\n<|tool_calls_section_begin|>\n```\n",
    "native markup in a sentence": "Kimi writes <|tool_calls_section_begin|> first.",
    "special tokens in code": "Write `<|tool_call_begin|>`, `[TOOL_CALLS]`, and `<｜tool▁sep｜>`.",
    "example of special tokens before prose": "See <|tool_call_begin|>read_file:0<|tool_call_argument_begin|>{}<|tool_call_end|> and wait.",
    "example of braces": "Write <tool_call> {x} </tool_call> or <|tool_call|> {x}",
    "example of json before prose": 'The call:\n{"name": "read_file", "arguments": {"path": "a.txt"}}\nreads it.',
    "example of gemma before prose": 'See <|tool_call>call:read_file{path:<|"|>a<|"|>}<tool_call|> and wait.',
    "example of mistral before prose": 'See [TOOL_CALLS]read_file[ARGS]{"path": "a.txt"} and wait.',
    "list of texts": "[x] done, [TOOL] open, [a](b), [TOOL_CALLS",
    "quoted": "Write `<tool_call>` and `<think>`, or `</think>` after it.",
    "think in prose": "The tag <think> begins it.",
    "example before prose": f"Write this:\n{JSON}\nand wait.",
    "example in a fence": f"```\n{XML}\n```",
    "example at the end of a fence": f"```\n{XML}",
    "html": "<div>\n<p>Hi</p></div>\n",
    "harmony in prose": "The mark <|channel|> begins it, <|end|> ends it.",
    "name in prose": "Use <tool_call> tags for calls.",
    "whitespace": " \n Hi \n ",
    "name of a tool in prose": "The call: use read_file (it is a <function> of `read_file`), see [read_file](a.txt)",
    "type with a similar name": "Fixed `Promise<CallResult>`; see read_file(path)",
    "json of another kind": '{"name": "Anna", "parameters": {"age": 3}}',
    "json in a fence after prose": 'Use this:\n```json\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n```',
    "code": "```python\nread_file(path=1)\n```",
    "links": "See [THIN and ◁thin: [a](b)",
    "definition of a tool": '{"name": "read_file", "description": "Reads.", "parameters": {"type": "object", "properties": {"path": {}}}}',
    "definition in a fence": '```json\n[{"name": "read_file", "parameters": {"properties": {"path": {}}}}]\n```',
    "json with a file name": '{"name": "read_file", "input": "data.csv", "output": "out.csv"}',
    "list in python": "[read_file(x=1) for x in y]",
    "xml of another kind": "<read_file>\n<temperature>3</temperature>\n</read_file>",
    "component": '<ToolButton name="read_file" onClick={run}/>',
    "generic type": "const f: Array<Function<read_file>>",
    "manifest": '<intent-filter>\n<action android:name="read_file"/>\n</intent-filter>',
    "log": "[TOOL] read_file: exit 0 (ok)",
    "calls described by the user": "Action: read_file\nResult: (none)",
    "native markup before prose": "[TOOL_CALLS] is the mark of Mistral, <|python_tag|> that of Llama (see its docs).",
    "native markup in a list": "The marks:\n<|tool_call|>\n<|tool_response|>",
}
UNREAD = {
    "kimi without the first token": 'read_file:0<|tool_call_argument_begin|>{"path": "a.txt"}<|tool_calls_section_end|>',
    "kimi, broken json after prose": 'I see. <|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{"path": "a.t',
    "kimi, unknown tool after prose": "I see. <|tool_call_begin|>functions.remove_all:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "broken xml after prose": "I see. <function=read_file>\n<parameter=path>\na.t",
    "json after prose": 'I read it.\n\n{\n  "name": "read_file",\n  "arguments": {\n    "path": "a.txt"\n  }\n}',
    "kimi, broken json": '<|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{"path": "a.t',
    "kimi, unknown tool": "I see.\n<|tool_call_begin|>functions.remove_all:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "kimi k3, cut off": '<|open|>tools<|sep|><|open|>call tool="read_file" index="1"<|sep|><|open|>argument key="path" type="string"<|sep|>a',
    "deepseek, one unknown tool of two": (
        "<｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>remove<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
    ),
    "mistral, broken json": '[TOOL_CALLS]read_file[ARGS]{"path": ',
    "gemma, text without marks": "<|tool_call>call:read_file{path:a.txt}<tool_call|>",
    "lfm, positional argument": '<|tool_call_start|>[read_file("a.txt")]<|tool_call_end|>',
    "lfm, expression": '<|tool_call_start|>[read_file(path=open("a.txt").read())]<|tool_call_end|>',
    "gemma without special tokens": "call:read_file{path:a.txt}",
    "gemma, python": '```tool_code\nread_file(path="a.txt")\n```',
    "phi": 'functools[{"name": "read_file", "arguments": {"path": "a.txt"}}]',
    "llama, json": '{"name": "read_file", "parameters": {"path": "a.txt"}}',
    "qwen, json": '```json\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n```',
    "llama, python": '[read_file(path="a.txt")]',
    "functionary": '>>>read_file\n{"path": "a.txt"}',
    "tag with the name": "I read.\n<read_file>\n<path>a.txt</path>\n</read_file>",
    "name in an attribute": '<tool_call name="read_file">{"path": "a.txt"}</tool_call>',
    "harmony without special tokens": 'assistantcommentary to=functions.read_file json{"path": "a.txt"}',
    "unknown tool": JSON.replace("read_file", "remove_all"),
    "unknown tool in xml": f"I remove.\n{XML.replace('read_file', 'remove_all')}",
    "unknown tool in harmony": '<|channel|>commentary to=functions.remove_all<|message|>{"path": "a.txt"}<|call|>',
    "one unknown tool of two": f"{JSON}\n{JSON.replace('read_file', 'remove_all')}",
    "broken json": '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.t',
    "broken harmony json": '<|channel|>commentary to=functions.read_file<|message|>{"path": ',
    "no end": XML.partition("</function>")[0],
    "no name": '<tool_call>{"arguments": {}}</tool_call>',
    "arguments that are not an object": '<tool_call>{"name": "read_file", "arguments": [1]}</tool_call>',
}


def splits(text: str) -> list[list[str]]:
    """Return the text split at each place, and into single characters."""
    return [[text[:at], text[at:]] for at in range(len(text))] + [list(text)]


@pytest.mark.parametrize(("text", "calls"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("before", ["", "Let me look.\n\n", "Let me look."])
def test_calls_in_the_text_are_read_as_calls(text: str, calls: list[tuple[str, Any]], before: str) -> None:
    for pieces in splits(before + text):
        message, _, is_unread = decode(*pieces)
        assert summarize(message) == (before, "", calls)
        assert (message.stop_reason, is_unread) == ("tool_use", False)
        assert len({use.id for use in message.tool_uses}) == len(calls)


@pytest.mark.parametrize(("text", "expected"), THOUGHTS.values(), ids=THOUGHTS)
def test_reasoning_in_the_text_is_read_as_reasoning(text: str, expected: tuple[str, str, Any]) -> None:
    for pieces in splits(text):
        message, _, is_unread = decode(*pieces)
        assert summarize(message) == expected
        assert not is_unread


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_that_is_not_markup_stays_unchanged(text: str) -> None:
    for pieces in splits(text):
        message, _, is_unread = decode(*pieces)
        assert summarize(message) == (text, "", [])
        assert not is_unread


@pytest.mark.parametrize("text", UNREAD.values(), ids=UNREAD)
def test_markup_that_cannot_be_read_stays_text_and_is_reported(text: str) -> None:
    for pieces in splits(text):
        message, _, is_unread = decode(*pieces)
        assert summarize(message) == (text, "", [])
        assert (message.stop_reason, is_unread) == ("end_turn", True)


@pytest.mark.parametrize("text", [XML, JSON, INVOKE])
def test_truncated_response_and_request_without_tools_have_no_calls(text: str) -> None:
    for finish, tools in (("length", TOOLS), ("stop", ())):
        message, _, is_unread = decode(text, finish=finish, tools=tools)
        assert summarize(message) == (text, "", [])
        assert not is_unread


def test_call_in_reasoning_without_an_end_is_reported() -> None:
    for pieces in splits(f"<think>Hm.\n{JSON}"):
        message, _, is_unread = decode(*pieces)
        assert summarize(message) == ("", f"Hm.\n{JSON}", [])
        assert is_unread
    assert not decode(f"<think>Hm.\n{JSON}</think>Yes.")[2]


def test_search_for_calls_takes_linear_time() -> None:
    started = time.process_time()
    for text in (
        "<tool" * 10_000 + ">",
        "<|" + "tool" * 10_000,
        '{"name": "a",' * 10_000 + "}",
        "``` <tool " * 10_000 + ">",
        '\n{"name": "read_file", "arguments": {"path": ' * 10_000 + "}",
    ):
        has_unread_calls(text, TOOLS)
    assert time.process_time() - started < 9


def test_calls_that_the_server_parsed_are_not_repeated() -> None:
    reader = ResponseReader(ChatDecoder(LOCAL))
    reader.decoder.tools = TOOLS
    parsed = chunk({"tool_calls": [call("read_file", '{"path": "a.txt"}', index=0, id="c1")]}, "tool_calls")
    events = reader.feed(sse(chunk({"content": JSON}), parsed)) + reader.finish()

    assert isinstance(events[-1], Done)
    assert summarize(events[-1].message) == (JSON, "", ONE_CALL)


def test_reasoning_that_the_server_parsed_is_not_repeated() -> None:
    reader = ResponseReader(ChatDecoder(LOCAL))
    events = reader.feed(sse(chunk({"reasoning_content": "Hm."}), chunk({"content": "</think>\n\nYes."}, "stop")))
    events += reader.finish()

    assert isinstance(events[-1], Done)
    assert summarize(events[-1].message) == ("Yes.", "Hm.", [])


@pytest.mark.parametrize("text", [*TEXTS.values(), "Hello, this is a long text. " * 5])
def test_text_streams_as_it_arrives(text: str) -> None:
    examples = [text for name, text in TEXTS.items() if name.startswith("example")]
    reader = ResponseReader(ChatDecoder(LOCAL))
    reader.decoder.tools = TOOLS
    arrived = shown = 0
    for character in text:
        arrived += 1
        events = reader.feed(sse(chunk({"content": character}), done=False))
        shown += sum(len(event.text) for event in events if isinstance(event, TextDelta))
        if text[:arrived].strip() and "<" not in text[:arrived] and "[" not in text[:arrived]:
            assert shown == arrived
        assert arrived - shown < 40 or text in examples


@given(
    st.lists(
        st.sampled_from(
            [
                *"<>|/`{}\n a",
                "think>",
                "<tool_call>",
                "</tool_call>",
                XML,
                "<|channel|>",
                "<|message|>",
                "</think>",
                '{"name": "x"}',
                "function=",
            ]
        )
    )
)
def test_no_text_is_lost_and_chunks_change_nothing(parts: list[str]) -> None:
    text = "".join(parts)
    message, events, _ = decode(text)

    assert summarize(decode(*text)[0]) == summarize(message)
    ends = [event.text for event in events if isinstance(event, TextEnd)]
    assert "".join(ends) == message.text
    if not message.thinking and not message.tool_uses and "|>" not in text and "think>" not in text:
        assert message.text.lstrip() == text.lstrip()


@pytest.mark.parametrize(
    ("using", "text"), [(LOCAL, UNREAD["unknown tool"]), (profile(), XML), (profile(), f"I read.\n{JSON}\n")]
)
async def test_note_is_sent_once(using: ModelProfile, text: str) -> None:
    body = sse(chunk({"content": text}, "stop"))
    http_model = HttpModel(using, ChatCompletionsProtocol(), transport=MemoryTransport(MemoryResponse(body)))
    notes: list[str] = []

    for _ in range(2):
        await http_model.complete(ModelRequest([Message.user("Hi")], tools=TOOLS, warn=notes.append))

    [note] = notes
    assert note.startswith("host:m1 wrote a tool call as text")
    assert "--tool-call-parser" in note


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_other_text_of_a_host_with_a_parser_has_no_note(text: str) -> None:
    body = sse(chunk({"content": text}, "stop"))
    http_model = HttpModel(profile(), ChatCompletionsProtocol(), transport=MemoryTransport(MemoryResponse(body)))
    notes: list[str] = []

    response = await http_model.complete(ModelRequest([Message.user("Hi")], tools=TOOLS, warn=notes.append))

    assert (response.text, notes) == (text, [])


async def test_ollama_reads_markup_too() -> None:
    lines = [{"message": {"content": piece}} for piece in f"<think>Hm.</think>{XML}"]
    body = "".join([json.dumps(line) + "\n" for line in [*lines, {"done": True, "done_reason": "stop"}]]).encode()
    http_model = HttpModel(profile(), OllamaProtocol(), transport=MemoryTransport(MemoryResponse(body)))

    response = await http_model.complete(ModelRequest([Message.user("Hi")], tools=TOOLS))

    assert summarize(response.message) == ("", "Hm.", ONE_CALL)
    off = ModelProfile(LOCAL.info, "http://host", ollama=OllamaCapabilities(text_markup=False))
    reader = ResponseReader(OllamaDecoder(off))
    done = (reader.feed(body) + reader.finish())[-1]
    assert isinstance(done, Done)
    assert done.message.text == f"<think>Hm.</think>{XML}"


@pytest.mark.parametrize(
    ("spec", "settings", "expected"),
    [
        ("local", {}, True),
        ("compatible:m", {"base_url": "http://host/v1"}, True),
        ("openai", {"base_url": "http://host/v1"}, True),
        ("openai", {}, False),
        ("groq", {}, False),
        ("local", {"dialect": {"text_markup": False}}, False),
    ],
)
def test_markup_is_read_for_local_and_compatible_hosts(spec: str, settings: dict[str, Any], expected: bool) -> None:
    model = create_model(spec, api_key="k", **settings)
    assert isinstance(model, HttpModel)
    assert model.profile.dialect.text_markup is expected
