"""Each namespace works alone: imported in a fresh interpreter, without packages that it does not need."""

import subprocess
import sys

import pytest

HEAVY = (
    "aiohttp",
    "httpx2",
    "opentelemetry",
    "rich",
    "prompt_toolkit",
    "mcp",
    "PIL",
    "pypdf",
    "keyring",
    "langchain_core",
)

USES = {
    "models": "from mainspring.models import create_model; assert create_model('openai:x', api_key='k').model == 'x'",
    "tools": "from mainspring.tools import ToolRegistry, tool; assert tool(lambda: 'x', name='a', description='b').name == 'a'",
    "env": "from mainspring.env import LocalEnv, MemoryEnv; assert LocalEnv('.').cwd",
    "sessions": "from mainspring.sessions import MemorySessionStore as MemoryStore, Session; assert MemoryStore()",
    "skills": (
        "from mainspring.skills import discover_skills as find_skills, parse_skill; assert len(find_skills()); "
        "assert parse_skill('---\\nname: a\\ndescription: b\\n---\\nc').name == 'a'"
    ),
    "mcp": (
        "from mainspring.mcp import parse_mcp_config, tool_names; "
        "assert parse_mcp_config({'a': {'command': 'x'}}).servers[0].name == 'a'"
    ),
    "presets": (
        "from mainspring.presets import Preset, merge_presets as compose_presets; "
        "assert compose_presets(Preset(system='a'), Preset(system='b')).system == 'b'"
    ),
    "app.chat": (
        "from mainspring.app.chat import Chat, ChatOptions, parse_line as command_of; assert Chat.open; assert ChatOptions(); "
        "assert command_of('do it').text == 'do it'"
    ),
    "app.tui": (
        "from mainspring.app.tui.transcript_view import TranscriptView as Transcript; from mainspring.app.tui.theme import Theme as Look; "
        "from mainspring.events import MessageEnd; from mainspring.messages import Message; "
        "assert 'hi' in str(Transcript(Look(), 40, 9).add_event(MessageEnd(Message.assistant('hi')), 0.0))"
    ),
}
"""A small use of each namespace (providers is `models`, contexts is `env`, session is `sessions`)."""

ALLOWED = {"app.tui": {"rich", "prompt_toolkit"}}
"""Heavy packages that a namespace may load: the TUI draws with these."""

LOADED = "import sys; print(*sorted(m for m in sys.modules if m.split('.')[0] in {heavy!r}))"


@pytest.mark.covers("PKG-18")
@pytest.mark.parametrize("name", USES)
def test_each_namespace_is_usable_alone(name: str) -> None:
    code = f"import mainspring.{name}\n{USES[name]}\n{LOADED.format(heavy=set(HEAVY) - ALLOWED.get(name, set()))}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("namespace", "others"),
    [
        ("models", ("tools.builtin", "sessions", "loop", "policies", "runtime")),
        ("tools", ("models", "sessions", "loop", "policies", "runtime", "mcp", "skills")),
        ("env", ("models", "tools", "sessions", "loop", "policies", "runtime")),
        ("sessions", ("runtime", "skills", "mcp", "extensions", "app")),
    ],
)
def test_namespace_does_not_import_the_others(namespace: str, others: tuple[str, ...]) -> None:
    code = f"{USES[namespace]}\nimport sys; print(*sorted(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    loaded = done.stdout.split()
    assert [
        m for m in loaded for other in others if m == f"mainspring.{other}" or m.startswith(f"mainspring.{other}.")
    ] == []
