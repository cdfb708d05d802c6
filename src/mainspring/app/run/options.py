"""Options of a command, before settings provide the missing values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Surface = Literal["command", "chat"]
"""Where an error is shown: by a command that ends, or in a chat that continues."""


class WorkspaceOptions(Struct, frozen=True, kw_only=True):
    """Workspace of a command.

    Attributes:
        cwd: The folder (default: the current folder).
        offline: Whether downloads are forbidden.
    """

    cwd: str | None = None
    offline: bool = False


class PermissionFlags(Struct, frozen=True, kw_only=True):
    """Permission rules from the command line."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class SandboxOptions(Struct, frozen=True, kw_only=True):
    """Sandbox for tools.

    Attributes:
        layer: ``auto`` for the strongest available layer, ``none``, or a name; ``None`` uses the settings.
        network: Whether programs in the sandbox can use the network; ``None`` uses the settings.
    """

    layer: str | None = None
    network: bool = False


class LaunchOptions(Struct, frozen=True, kw_only=True):
    """Options of a run from the command line. ``None`` uses settings and defaults.

    Attributes:
        prompt: The prompt; ``@file`` attaches a file.
        piped: Input from stdin, in addition to the prompt.
        place: The workspace.
        model: ``provider:model``.
        provider: Name of the provider, if ``model`` does not contain it; without a model, its default model is used.
        schema: JSON Schema of the response.
        system: System prompt instead of the built-in one.
        tools: Names of the only tools to offer; ``None`` offers all.
        continued: Whether to continue the most recent session in the folder.
        session: The session to resume: its ID, title, or file.
        session_id: ID of the session to create, or to resume if it exists.
        fork: Whether to fork the session instead of continuing it.
        save: Whether the session is saved.
        agent: Settings of the agent, by key; None for those that are not set.
        rules: Permission rules.
        on_deny: Whether a denied call ends the run.
        sandbox: Sandbox for tools.
        plan: Whether the run is in plan mode.
        accept_edits: Whether the agent can edit the project's files without approval.
        execute: The plan to execute, empty for the last one; ``None`` for no plan.
        require_mcp: Whether the run fails if an MCP server does not start.
    """

    prompt: str
    piped: str = ""
    place: WorkspaceOptions = WorkspaceOptions()
    model: str | None = None
    provider: str | None = None
    schema: Mapping[str, Any] | None = None
    system: str | None = None
    tools: tuple[str, ...] | None = None
    continued: bool = False
    session: str | None = None
    session_id: str | None = None
    fork: bool = False
    save: bool = True
    agent: Mapping[str, Any] = {}
    rules: PermissionFlags = PermissionFlags()
    on_deny: Literal["continue", "stop"] = "continue"
    sandbox: SandboxOptions = SandboxOptions()
    plan: bool = False
    accept_edits: bool = False
    execute: str | None = None
    require_mcp: bool = False

    @property
    def spec(self) -> str | None:
        """Return the requested model, with its provider."""
        if not self.provider or (self.model and self.model.startswith(f"{self.provider}:")):
            return self.model
        return f"{self.provider}:{self.model or ''}"

    def setting_overrides(self) -> Mapping[tuple[str, ...], Any]:
        """Return the options that override settings, by setting."""
        given = {
            ("model",): self.spec,
            ("providers", "default"): self.provider,
            ("agent", "systemPrompt"): self.system,
            ("mcp", "required"): self.require_mcp or None,
            **{("agent", key): value for key, value in self.agent.items()},
            ("sandbox", "layer"): self.sandbox.layer,
            ("sandbox", "network"): self.sandbox.network or None,
        }
        return {path: value for path, value in given.items() if value is not None and value != ""}
