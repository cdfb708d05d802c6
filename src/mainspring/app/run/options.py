"""What a command is asked to do, before settings fill in the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct


class WorkspaceOptions(Struct, frozen=True, kw_only=True):
    """Where a command works.

    Attributes:
        cwd: The folder; the current one if not given.
        offline: Whether nothing may be fetched.
    """

    cwd: str | None = None
    offline: bool = False


class PermissionFlags(Struct, frozen=True, kw_only=True):
    """Permission rules of the command line."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class SandboxOptions(Struct, frozen=True, kw_only=True):
    """The sandbox that tools work in.

    Attributes:
        layer: ``auto`` for the strongest that works here, ``none``, or the name of one; ``None`` leaves it to the settings.
        network: Whether programs in it reach the network; otherwise the settings say.
    """

    layer: str | None = None
    network: bool = False


class LaunchOptions(Struct, frozen=True, kw_only=True):
    """A run, as the command line asks for it. ``None`` leaves a value to settings and defaults.

    Attributes:
        prompt: What to do; ``@file`` attaches a file.
        piped: What came on stdin beside it.
        place: Where.
        model: ``provider:model``.
        provider: Name of the provider, where ``model`` does not name it; alone, its default model answers.
        thinking: How much the model reasons.
        schema: What the answer must be, as a JSON Schema.
        system: Instructions in place of the built-in ones.
        tools: Names of the only tools to offer; ``None`` offers all.
        continued: Whether to go on with the folder's last session.
        session: The session to go on with: its id, its title or its file.
        session_id: Id of the session to begin, or to go on with if there is one.
        fork: Whether to go on in a copy of it.
        save: Whether the conversation is kept.
        max_turns: Most model calls.
        max_seconds: Most seconds.
        max_cost: Most US dollars.
        max_total_tokens: Most tokens, prompts and answers together.
        max_output_tokens: Most tokens of one answer.
        rules: Permission rules.
        on_deny: Whether a denied call ends the run.
        sandbox: The sandbox that tools work in.
        plan: Whether it may only look and plan.
        accept_edits: Whether it may edit the project's files without approval.
        execute: The plan to carry out, empty for the last one; ``None`` if there is none.
    """

    prompt: str
    piped: str = ""
    place: WorkspaceOptions = WorkspaceOptions()
    model: str | None = None
    provider: str | None = None
    thinking: str | None = None
    schema: Mapping[str, Any] | None = None
    system: str | None = None
    tools: tuple[str, ...] | None = None
    continued: bool = False
    session: str | None = None
    session_id: str | None = None
    fork: bool = False
    save: bool = True
    max_turns: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    max_total_tokens: int | None = None
    max_output_tokens: int | None = None
    rules: PermissionFlags = PermissionFlags()
    on_deny: Literal["continue", "stop"] = "continue"
    sandbox: SandboxOptions = SandboxOptions()
    plan: bool = False
    accept_edits: bool = False
    execute: str | None = None

    @property
    def spec(self) -> str | None:
        """The model that is asked for, with its provider if that is named apart."""
        if not self.provider or (self.model and self.model.startswith(f"{self.provider}:")):
            return self.model
        return f"{self.provider}:{self.model or ''}"

    def setting_overrides(self) -> Mapping[tuple[str, ...], Any]:
        """What of it has a place in the settings, by path."""
        given = {
            ("model",): self.spec,
            ("providers", "default"): self.provider,
            ("agent", "systemPrompt"): self.system,
            ("agent", "maxTurns"): self.max_turns,
            ("agent", "maxSeconds"): self.max_seconds,
            ("agent", "maxCost"): self.max_cost,
            ("agent", "maxTotalTokens"): self.max_total_tokens,
            ("agent", "maxTokens"): self.max_output_tokens,
            ("agent", "thinking"): self.thinking,
            ("sandbox", "layer"): self.sandbox.layer,
            ("sandbox", "network"): self.sandbox.network or None,
        }
        return {path: value for path, value in given.items() if value is not None and value != ""}
