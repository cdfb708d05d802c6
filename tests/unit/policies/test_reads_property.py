"""For any changes of files and requests, the model has the current lines of each file it reads."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring import define_tool
from mainspring.env import MemoryEnv
from mainspring.testing import ScriptedCall
from mainspring.tools import ToolContext, to_tool_result
from tests.unit.policies.harness import TOOLS, edit, make_agent, read, requests, results, write

FILES = ("a.txt", "b.txt")
_path = st.sampled_from(FILES)
_text = st.sampled_from(["one\n", "two\n", "one\ntwo\n", "one\none\n"])
_step = st.one_of(
    st.tuples(st.just("read"), _path, st.sampled_from([{}, {"offset": 1}, {"limit": 1}, {"line_numbers": False}])),
    st.tuples(st.just("write"), _path, _text),
    st.tuples(st.just("edit"), _path, st.just(None)),
    st.tuples(st.just("outside"), _path, _text),
)


def _call(step: tuple[str, str, Any]) -> ScriptedCall:
    kind, path, value = step
    if kind == "read":
        return read(path, **value)
    if kind == "write":
        return write(path, value)
    if kind == "edit":
        return edit(path, "one", "1")
    return ScriptedCall("outside", {"path": path, "text": value})


@given(
    st.lists(st.lists(_step, min_size=1, max_size=3), min_size=1, max_size=7),
    st.fixed_dictionaries(
        {
            "elide_stale_reads": st.booleans(),
            "require_read_before_edit": st.booleans(),
            "compact_strategy": st.sampled_from(["off", "tail"]),
            "compact_threshold": st.sampled_from([0, 200]),
            "compact_keep_turns": st.integers(0, 2),
        }
    ),
    st.integers(1, 8),
)
@settings(max_examples=40)
@pytest.mark.covers("GRD-01", "GRD-02", "GRD-03")
async def test_model_always_has_the_lines_of_each_read(steps: Any, options: Any, window: int) -> None:
    env = MemoryEnv(dict.fromkeys(FILES, "one\n" * 40))
    expected: list[tuple[str, str]] = []

    async def write_outside(args: dict[str, Any], ctx: ToolContext) -> str:
        await env.write_bytes(args["path"], args["text"].encode())
        return "done"

    async def recording_read(args: dict[str, Any], ctx: ToolContext) -> Any:
        result = to_tool_result(await TOOLS["read_file"].execute(args, ctx))
        expected.append((ctx.call_id, result.text))
        return result

    schema = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}
    reader = TOOLS["read_file"]
    tools = [
        TOOLS["edit"],
        TOOLS["write_file"],
        type(reader)(
            name="read_file",
            description="Read.",
            input_schema=reader.input_schema,
            execute=recording_read,
            path_params=("path",),
        ),
        define_tool(
            "outside",
            {"description": "Change.", "parameters": schema, "execute": write_outside, "concurrency_safe": False},
        ),
    ]
    agent = make_agent(
        *[[_call(s) for s in batch] for batch in steps],
        "done",
        env=env,
        tools=tools,
        tool_execution="sequential",
        transform=lambda messages, signal: messages[:1] + messages[1:][-2 * window :],
        **options,
    )

    await agent.run("go")

    results_by_id = {b.tool_use_id: b for b in results(agent.messages)}
    sent = {c.id: r.messages for r, m in zip(requests(agent), _responses(agent), strict=True) for c in m.tool_uses}
    for call_id, text in expected:
        block = results_by_id[call_id]
        if block.content != text:
            assert block.text.startswith("Unchanged: ")
            assert text in [b.content for b in results(sent[call_id])]


def _responses(agent: Any) -> list[Any]:
    return [m for m in agent.messages if m.role == "assistant"]
