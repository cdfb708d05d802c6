"""How a chat is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from mainspring.app.run.options import LaunchOptions
from mainspring.env import EditorBuffers, TerminalProvider
from mainspring.models import ModelProvider
from mainspring.sessions import Transcript


class ChatOptions(Struct, frozen=True, kw_only=True):
    """How a chat is opened.

    Attributes:
        ask: Model, session, rules, limits and place, as for a run; its prompt is the first thing said, if there is one.
        environ: The environment.
        attended: Whether somebody can answer. Otherwise what needs an answer is denied, with a reason.
        replay: Whether a session that is gone on with is told from its beginning.
        model: A model in place of the one that would be chosen; for tests and applications.
        make_model: Makes another model by its name, in place of the settings; likewise.
        exporters: By the ending of a file how ``/export`` writes a conversation there; ``jsonl`` is always known.
        buffers: The files that an editor has open, with what is not saved there yet; tools read and write through it.
        terminals: Terminals of the editor of ``buffers``, in which commands run, where neither a sandbox nor a limit is to hold them.
        mcp_servers: Further MCP servers, as decoded JSON of an ``mcp.json``; they go before those of the settings.
        sources: Further prompts by name, each a `PromptSource`.
    """

    ask: LaunchOptions = LaunchOptions(prompt="")
    environ: Mapping[str, str] = os.environ
    attended: bool = True
    replay: bool = True
    model: ModelProvider | None = None
    make_model: Callable[[str], ModelProvider] | None = None
    exporters: Mapping[str, Callable[[Transcript], str]] = {}
    buffers: EditorBuffers | None = None
    terminals: TerminalProvider | None = None
    mcp_servers: Any = None
    sources: tuple[Any, ...] = ()
