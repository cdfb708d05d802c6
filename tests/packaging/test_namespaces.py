"""Each part can be used by itself: imported alone in a fresh interpreter, and without what it does not need."""

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
    "sessions": "from mainspring.sessions import MemoryStore, Session; assert MemoryStore()",
    "skills": "import mainspring.skills as s; assert s.__all__",
    "mcp": "import mainspring.mcp as m; assert m.__all__",
    "presets": "from mainspring.presets import Preset; assert Preset",
    "runtime.chat": "import mainspring.runtime.chat as c; assert c.__all__",
    "app.tui": "import mainspring.app.tui as t; assert t is not None",
}
"""By namespace (providers is `models`, contexts is `env`, session is `sessions`), what uses a little of it."""

LOADED = "import sys; print(*sorted(m for m in sys.modules if m.split('.')[0] in {heavy!r}))"


@pytest.mark.covers("PKG-18")
@pytest.mark.parametrize("name", USES)
def test_each_namespace_is_usable_alone(name: str) -> None:
    code = f"import mainspring.{name}\n{USES[name]}\n{LOADED.format(heavy=set(HEAVY))}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("one", "others"),
    [
        ("models", ("tools.builtin", "sessions", "loop", "policies", "runtime")),
        ("tools", ("models", "sessions", "loop", "policies", "runtime", "mcp", "skills")),
        ("env", ("models", "tools", "sessions", "loop", "policies", "runtime")),
        ("sessions", ("runtime", "skills", "mcp", "extensions", "app")),
    ],
)
def test_it_does_not_bring_the_others(one: str, others: tuple[str, ...]) -> None:
    code = f"{USES[one]}\nimport sys; print(*sorted(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    loaded = done.stdout.split()
    assert [
        m for m in loaded for other in others if m == f"mainspring.{other}" or m.startswith(f"mainspring.{other}.")
    ] == []
