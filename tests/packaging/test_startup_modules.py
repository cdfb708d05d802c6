"""Modules loaded at startup: a heavy package that slows the start fails here, by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.servers.chat import ChatServer

_PROBE = """
import sys
before = set(sys.modules)
{work}
for name in sorted(set(sys.modules) - before):
    file = getattr(sys.modules[name], "__file__", None) or ""
    if name.startswith("mainspring.") or ("site-packages" in file and "." not in name and not name.startswith("_")):
        print("loaded", name)
"""


def loaded_modules(work: str, cwd: Path | None = None, **variables: str) -> set[str]:
    """Return the mainspring modules and third-party packages that a piece of code loads."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE.format(work=work)],
        env={**os.environ, **variables},
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return {line.split()[1] for line in done.stdout.splitlines() if line.startswith("loaded ")}


def third_party(names: set[str]) -> set[str]:
    """Return the third-party packages."""
    return {name for name in names if not name.startswith("mainspring")}


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_version_and_help_load_no_third_party_package(flag: str) -> None:
    names = loaded_modules(
        f"from mainspring.app.cli.main import main\nsys.argv = ['mainspring', {flag!r}]\ntry:\n    main()\nexcept SystemExit:\n    pass"
    )
    assert third_party(names) == set()
    allowed = ("mainspring.app.cli.main",) if flag == "--version" else ("mainspring.app.cli", "mainspring.text")
    assert not [
        name
        for name in names
        - {"mainspring.app", "mainspring.app.cli", "mainspring.app.cli.startup_interrupt", "mainspring.lazy"}
        if not name.startswith(allowed)
    ]


def test_print_mode_loads_no_tui_and_no_unused_package(tmp_path: Path) -> None:
    with ChatServer("hello") as server:
        work = (
            "from mainspring.app.cli.main import main\nassert main(['-p', 'hi', '--model', 'openai:test-model']) == 0"
        )
        names = loaded_modules(
            work,
            tmp_path,
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="sk-test-0123456789abcdefghij",
            HOME=str(tmp_path),
        )
    assert "mainspring.loop" in names
    assert not [name for name in names if name.startswith("mainspring.app.tui")]
    # pathspec is loaded at startup and should be listed here as well
    heavy = {
        "rich", "pygments", "markdown_it", "prompt_toolkit", "wcwidth", "jsonschema",
        "jsonschema_rs", "json_repair", "charset_normalizer", "mcp", "opentelemetry", "PIL", "pypdf",
        "xllamacpp", "pydantic", "langchain_core", "keyring", "yaml", "numpy", "requests", "openai", "anthropic",
    }  # fmt: skip
    assert third_party(names) & heavy == set()


def test_library_run_loads_no_built_in_tools_and_no_secret_patterns() -> None:
    with ChatServer("hello") as server:
        names = loaded_modules(
            "import asyncio\nfrom mainspring import Agent\nfrom mainspring.models import create_model\n"
            f"model = create_model('openai:test-model', base_url={server.base_url!r}, api_key='sk-test-0123456789abcdefghij')\n"
            "assert asyncio.run(Agent(model).run('hi')).text == 'hello'"
        )
    unused = ("app", "tools.builtin", "redaction.", "permissions", "sessions", "models.errors", "models.auth.oauth",
              "models.langchain.m", "callbacks", "telemetry", "durable")  # fmt: skip
    assert "mainspring.loop" in names
    assert not [name for name in names for part in unused if name.startswith(f"mainspring.{part}")]


def test_first_prompt_needs_few_modules() -> None:
    names = loaded_modules("import mainspring.app.tui.start")
    assert third_party(names) <= {"msgspec", "typing_extensions"}
    assert names <= {
        "msgspec", "typing_extensions", "mainspring.lazy", "mainspring.app", "mainspring.app.cli", "mainspring.app.cli.startup_interrupt", "mainspring.app.tui", "mainspring.app.tui.start", "mainspring.app.tui.terminal_guard",
        "mainspring.app.tui.theme",
    }  # fmt: skip


@pytest.mark.covers("CLI-07")
def test_input_works_before_agent_and_renderer_are_loaded() -> None:
    names = loaded_modules("import mainspring.app.tui.launch")
    assert third_party(names) <= {"msgspec", "prompt_toolkit", "wcwidth", "typing_extensions"}
    assert "prompt_toolkit" in names
    late = (
        "mainspring.loop",
        "mainspring.models",
        "mainspring.tools",
        "mainspring.app.compose.conversation",
        "mainspring.sessions",
    )
    assert not [name for name in names if name.startswith(late)]
    assert "mainspring.app.tui.markdown" not in names
    assert "mainspring.app.chat.engine" not in names


def test_import_of_agent_loads_few_modules() -> None:
    names = loaded_modules("from mainspring import Agent")
    own = {name for name in names if name.startswith("mainspring.")}
    unused = (
        "extensions.", "subagents.", "env.local", "env.process", "env.memory", "tools.arguments", "tools.validation", "tools.builtin",
        "models.wrappers", "models.wire", "models.providers", "models.http_model", "mcp.plug", "sessions", "permissions", "skills.",
        "durable", "telemetry", "testing", "app", "memory",
    )  # fmt: skip
    assert not [name for name in own for part in unused if name.startswith(f"mainspring.{part}")]
    assert len(own) <= 106, "an agent needs few modules: import the others on use (mainspring.lazy)"
    assert third_party(names) == {"msgspec", "typing_extensions"}


def test_import_of_agent_loads_few_packages_of_python() -> None:
    code = "import asyncio, ssl, msgspec, sys\nbefore = set(sys.modules)\nfrom mainspring import Agent\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    others = {name for name in done.stdout.split() if not name.startswith("mainspring")}
    assert others <= {
        "copy",
        "fnmatch",
        "unicodedata",
        "posixpath",
        *[n for n in others if n.lstrip("_").startswith("json")],
    }
