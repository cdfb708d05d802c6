"""The settings as typed values. A file has the same shape, with its keys in camelCase."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from mainspring.app.workspace.settings.sections import (
    ExecutionSettings,
    InstructionSettings,
    LanguageServerSettings,
    McpSettings,
    NotificationSettings,
    SandboxSettings,
    SkillSettings,
    TelemetrySettings,
    UiSettings,
)
from mainspring.models.config import OWN_SETTINGS as OWN_SETTINGS
from mainspring.models.config import ModelFacts
from mainspring.redaction import masked_repr

Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(gt=0)]


class ProviderSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """One provider. What only this provider knows (`OWN_SETTINGS`) stands beside these.

    Attributes:
        api_key: Its key; without it that of the provider's variable is used, as ``OPENAI_API_KEY``.
        api_key_command: A command for the shell that prints the key; asked when it is needed, and again when it is refused.
        api_key_file: A file that holds the key, which only its owner may read (0600).
        api_key_keyring: Name of the entry of the system's keyring that holds the key (needs the extra ``keyring``).
        system_prompt: Instructions for the models of this provider, beside those for all.
        model: The model to use there.
        base_url: Where it is.
        headers: Further headers of each request.
        context_window: Tokens of prompt and answer together, for all models of it.
        max_output_tokens: Cap of one reply.
        vision: Whether its models take images.
        prices: US dollars per million tokens of all its models: input, output, and if they differ cache read, cache write,
            one-hour cache write.
        known_as: The name in the catalogue of the model that a deployment or an alias stands for.
        models: Facts about single models, by id: ``contextWindow``, ``maxOutputTokens``, ``vision``, ``tools``,
            ``reasoning``, ``prices``, ``label``.
        connect_timeout: Seconds until a connection must stand.
        first_byte_timeout: Seconds until an answer must begin; 0 waits for ever.
        idle_timeout: Seconds between two pieces of an answer; 0 waits for ever.
        dialect: Changes of what the host accepts.
        extra: What only this provider knows.
    """

    api_key: str | None = None
    api_key_command: str | None = None
    api_key_file: str | None = None
    api_key_keyring: str | None = None
    system_prompt: str | None = None
    model: str | None = None
    base_url: str | None = None
    headers: dict[str, str] = {}
    context_window: Count | None = None
    max_output_tokens: Count | None = None
    vision: bool | None = None
    prices: tuple[float, ...] | None = None
    known_as: str | None = None
    models: dict[str, ModelFacts] = {}
    connect_timeout: Annotated[float, Meta(ge=0)] | None = None
    first_byte_timeout: Annotated[float, Meta(ge=0)] | None = None
    idle_timeout: Annotated[float, Meta(ge=0)] | None = None
    dialect: dict[str, Any] = {}
    extra: dict[str, Any] = {}

    def __repr__(self) -> str:
        return masked_repr(self, "api_key", "headers")


class Providers(Struct, frozen=True, kw_only=True):
    """In the file one object: ``default``, and beside it a section for each provider.

    Attributes:
        default: Name of the provider to use where a model names none.
        sections: What is set for each provider, by name.
    """

    default: str | None = None
    sections: dict[str, ProviderSettings] = {}

    def get(self, name: str) -> ProviderSettings:
        """What is set for a provider; an empty section where nothing is."""
        return self.sections.get(name) or ProviderSettings()


class AgentSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the agent works.

    Attributes:
        system_prompt: Instructions in place of the built-in ones; the facts about the folder are added to it.
        max_tokens: Most tokens of one answer.
        temperature: 0 to 2.
        thinking: How much the model reasons before it answers.
        max_turns: Most model calls of a run.
        max_seconds: Most seconds of a run.
        max_cost: Most US dollars of a run.
        max_total_tokens: Most tokens of a run, prompts and answers together.
        repeat_hint: After how many turns in a row that brought nothing new the model is told so; 0 is never.
    """

    system_prompt: str | None = None
    max_tokens: Count | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    thinking: Literal["off", "minimal", "low", "medium", "high", "xhigh"] | None = None
    max_turns: Count | None = None
    max_seconds: Amount | None = None
    max_cost: Amount | None = None
    max_total_tokens: Count | None = None
    repeat_hint: Annotated[int, Meta(ge=0)] | None = None


class PermissionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Rules, as ``--allow``, ``--ask`` and ``--deny`` take them. Those of all files and flags add up; deny wins, then ask."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class RetrySettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """How failed model calls are tried again. ``None`` keeps the default.

    Attributes:
        enabled: Whether they are.
        max_retries: How often at most.
        base_delay_ms: First wait; it doubles from there.
        max_delay_ms: Longest wait.
        enable_jitter: Whether waits vary a little, so that many clients do not come back at once.
    """

    enabled: bool = True
    max_retries: Annotated[int, Meta(ge=0, le=100)] | None = None
    base_delay_ms: Count | None = None
    max_delay_ms: Count | None = None
    enable_jitter: bool | None = None


class CompactionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a long conversation is summed up. ``None`` keeps the default.

    Attributes:
        enabled: Whether it is, before it reaches the model's window.
        reserve_tokens: Tokens of the window to keep free.
        keep_recent_tokens: About how many tokens of the newest messages stay as they are.
        threshold: Tokens from which on it is summed up, or a share of the window; in place of ``reserveTokens``.
        prompt: What is asked of the model that sums up, in place of the built-in text.
        model: Who sums up, as ``provider:model``; the conversation's own model if not set.
    """

    enabled: bool = True
    reserve_tokens: Count | None = None
    keep_recent_tokens: Count | None = None
    threshold: Amount | None = None
    prompt: str | None = None
    model: str | None = None


class HookCommand(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A command of a hook in the form that other programs write: ``{"type": "command", "command": "...", "timeout": 60}``."""

    command: str
    type: Literal["command"] = "command"
    timeout: Amount | None = None
    on_failure: Literal["refuse", "continue"] | None = None


class HookEntry(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A command that is asked as a hook; or several of one matcher, in ``hooks``.

    Attributes:
        matcher: For which tools (or whatever else the event is about); empty is all.
        command: A script for the shell.
        timeout: Seconds it may take.
        on_failure: Whether what is to be decided is refused where it fails: ``refuse`` (the default) or ``continue``.
        hooks: Several commands.
    """

    matcher: str = ""
    command: str = ""
    timeout: Amount | None = None
    on_failure: Literal["refuse", "continue"] | None = None
    hooks: list[HookCommand] = []

    def __post_init__(self) -> None:
        if bool(self.command.strip()) == bool(self.hooks):
            raise ValueError("needs a command, or a list of them in hooks, and not both")


class HookSettings(Struct, frozen=True, kw_only=True, rename="pascal"):
    """Commands that are asked as hooks, by event; see the page on command hooks. Those of all files add up."""

    session_start: list[HookEntry] = []
    user_prompt_submit: list[HookEntry] = []
    pre_tool_use: list[HookEntry] = []
    post_tool_use: list[HookEntry] = []
    post_tool_use_failure: list[HookEntry] = []
    notification: list[HookEntry] = []
    stop: list[HookEntry] = []
    subagent_stop: list[HookEntry] = []
    post_compact: list[HookEntry] = []
    session_end: list[HookEntry] = []


class ExtensionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Extensions beside those in the folders. The lists of all files add up.

    Attributes:
        paths: Files and folders; absolute, or from ``~/`` on.
        disabled: Names of those that are not wanted.
        packages: Whether installed packages are asked.
    """

    paths: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    packages: bool = True


class AppConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that can be set.

    Attributes:
        model: ``provider:model``, or a model of the default provider.
        providers: The providers.
        agent: How the agent works.
        permissions: What tools may do.
        retry: How failed model calls are tried again.
        audit_log: File for a record of every decision and result, from the user's folder; none if not set.
        compaction: How a long conversation is summed up.
        hooks: Commands that are asked as hooks.
        extensions: Extensions beside those in the folders.
        telemetry: Spans and metrics by OpenTelemetry.
        sandbox: The sandbox that tools work in.
        execution: Limits of what tools start and reach.
        language_servers: Language servers that look at what is edited, by name.
        instructions: Which instruction files are read.
        notifications: How the terminal tells that a run is over.
        ui: What the terminal looks like.
        skills: Which skills there are.
        mcp: Servers of the Model Context Protocol.
    """

    model: str | None = None
    providers: Providers = Providers()
    agent: AgentSettings = AgentSettings()
    permissions: PermissionSettings = PermissionSettings()
    retry: RetrySettings = RetrySettings()
    audit_log: str | None = None
    compaction: CompactionSettings = CompactionSettings()
    hooks: HookSettings = HookSettings()
    extensions: ExtensionSettings = ExtensionSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    sandbox: SandboxSettings = SandboxSettings()
    execution: ExecutionSettings = ExecutionSettings()
    language_servers: dict[str, LanguageServerSettings] = {}
    instructions: InstructionSettings = InstructionSettings()
    notifications: NotificationSettings = NotificationSettings()
    ui: UiSettings = UiSettings()
    skills: SkillSettings = SkillSettings()
    mcp: McpSettings = McpSettings()
