"""The environment variables that programs get: the user's, without those that are only for this program.

Also the variables for commands without an interactive user.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_PROVIDERS = (
    "ANTHROPIC",
    "AZURE_FOUNDRY",
    "AZURE_OPENAI",
    "CEREBRAS",
    "CODEX",
    "DEEPSEEK",
    "FIREWORKS",
    "FOUNDRY",
    "GEMINI",
    "GOOGLE",
    "GROQ",
    "MISTRAL",
    "OLLAMA",
    "OPENAI",
    "OPENROUTER",
    "TOGETHER",
    "XAI",
)
_SECRET_ENDINGS = ("_API_KEY", "_AUTH_TOKEN", "_ACCESS_TOKEN", "_TOKEN", "_KEY", "_API_KEYS")
_BUNDLER_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LIBPATH")


def child_environment(user: Mapping[str, str], hidden: Iterable[str] = ()) -> dict[str, str]:
    """Return the user's variables without model providers' keys, our own ``MAINSPRING_`` settings, and a bundler's library paths.

    Keys of other programs stay: ``gh`` and ``git`` need ``GITHUB_TOKEN`` to work.

    Args:
        user: The variables of this process.
        hidden: More names to remove.
    """
    left_out = set(hidden)
    found = {k: v for k, v in user.items() if k not in left_out and not _is_internal(k)}
    for name in _BUNDLER_VARIABLES:  # A bundled program saves the user's value under this name.
        if f"{name}_ORIG" in found:
            found[name] = found.pop(f"{name}_ORIG")
    return found


def _is_internal(name: str) -> bool:
    upper = name.upper()
    if upper.startswith(("MAINSPRING_", "_MEIPASS", "_PYI_")):
        return True
    return upper.endswith(_SECRET_ENDINGS) and upper.startswith(tuple(f"{p}_" for p in _PROVIDERS))


NONINTERACTIVE_VARIABLES = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GH_PROMPT_DISABLED": "1",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
"""Variables that keep programs from prompting, paging, and coloring. An environment's own variables override them."""
