"""Built-in extensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from mainspring.extensions.api import ExtensionAPI
from mainspring.extensions.events import InputEvent
from mainspring.extensions.registry import normalize_command_name
from mainspring.lazy import lazy_re
from mainspring.loop.hooks import PermissionCheck
from mainspring.policies.guardrails import HOOK_ORDER, FlaggedCall, Guardrails

_ARGUMENTS = lazy_re(r"\$ARGUMENTS|\$([1-9])")


def help_command(api: ExtensionAPI) -> None:
    """Add ``/help``, which lists the commands of extensions."""

    def show_help(arguments: str) -> str:
        requested = arguments.strip().removeprefix("/").lower()
        shown = [c for c in api.commands if requested in ("", c.name)]
        if not shown:
            return f"Unknown command: /{requested}. Type /help to list the commands."
        width = max(len(c.name) for c in shown)
        return "\n".join(f"/{c.name:<{width}}  {c.description}".rstrip() for c in shown)

    api.register_command("help", show_help, description="the commands")


def guardrails(api: ExtensionAPI) -> None:
    """Ask the user to confirm destructive calls; without a user, deny them.

    See `mainspring.policies.guardrails.DEFAULT_GUARDRAILS`.
    """

    async def confirm(danger: FlaggedCall) -> bool:
        return await api.ctx.ui.confirm(f"{danger.tool}: {danger.guardrail.why}. Continue?", danger.text)

    api.on(PermissionCheck, Guardrails(confirm=confirm).on_tool_permit, order=HOOK_ORDER)


def aliases(texts: Mapping[str, str]) -> Callable[[ExtensionAPI], None]:
    """Create an extension that replaces a prompt that begins with ``/name`` with another text.

    In the text ``$ARGUMENTS`` is replaced with the arguments after the name, and ``$1`` to ``$9`` with single arguments; other
    dollar signs stay, and the arguments are not expanded again. Without placeholders the arguments are appended to the text.

    Args:
        texts: The texts by name, without the slash.

    Raises:
        ConfigError: If a name is invalid.
    """
    known = {normalize_command_name(name): text for name, text in texts.items()}

    def extension(api: ExtensionAPI) -> None:
        def expand(event: InputEvent) -> None:
            name, _, typed = event.text.strip().partition(" ")
            text = known.get(name[1:].lower()) if name.startswith("/") else None
            if text is not None:
                event.action, event.text = "transform", substitute_arguments(text, typed.strip())

        api.on("input", expand)

    extension.__name__ = "aliases"
    return extension


def substitute_arguments(text: str, typed: str) -> str:
    """Replace the placeholders in the text with the arguments, in one pass."""
    words = typed.split()

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return typed
        number = int(match[1])
        return words[number - 1] if number <= len(words) else ""

    expanded, count = _ARGUMENTS.subn(value, text)
    return expanded if count or not typed else f"{expanded} {typed}"
