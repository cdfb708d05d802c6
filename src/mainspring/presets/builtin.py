"""The presets that come with the program."""

from __future__ import annotations

from mainspring.loop import RunOptions
from mainspring.presets.preset import Preset
from mainspring.tools.builtin import builtin_tools

_READ_TOOLS = ("read_file", "glob", "grep", "list_files")

_PLAN_SYSTEM_PROMPT = """You are planning, not doing. Read and search as much as you need; you have no tool that changes anything.
End with a plan: what to change, file by file, in the order of the steps, with what could go wrong and how to check that it worked.
Ask where the task leaves a choice that the user would want to make."""

basic = Preset(name="basic", tools=builtin_tools())
"""The built-in tools: files, search, shell."""

BUILD_AGENT = Preset(
    name="build",
    tools=builtin_tools(),
    behavior=RunOptions(
        max_turns=200,  # a person watches and can say go on, but a loop that nobody sees must end
        require_read_before_edit=True,  # a long conversation is where files change under the model
        compact_strategy="tail",
    ),
)
"""The chat profile that works: all built-in tools. Over the defaults of `Behavior`: at most 200 turns, files are read before they
are changed, and old results of tools are left out once they fill 128 KiB."""

PLAN_AGENT = Preset(
    name="plan",
    system=_PLAN_SYSTEM_PROMPT,
    tools=[t for t in builtin_tools() if t.name in _READ_TOOLS],
    behavior=RunOptions(max_turns=50, thinking="medium", compact_strategy="tail"),
)
"""The chat profile that plans: tools that read, and a system prompt that asks for a plan. Over the defaults of `Behavior`: at most
50 turns, reasoning at ``medium``, and old results of tools left out as for `BUILD_AGENT`."""
