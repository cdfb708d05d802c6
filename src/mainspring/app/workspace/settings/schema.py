"""The sections for what surrounds an agent: where its tools work, what is read for it, whom to tell, what it looks like.

The settings as typed values. A file has the same shape, with its keys in camelCase.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from mainspring.models.config import ModelFacts
from mainspring.redaction import redacted_repr

_Count = Annotated[int, Meta(ge=1)]


SandboxLayer = Literal["none", "auto", "bubblewrap", "landlock", "seatbelt"]


class TelemetrySettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Spans and metrics by OpenTelemetry. Off unless switched on; a project's file cannot switch it on before it is trusted.

    Attributes:
        enabled: Whether they are made and sent.
        endpoint: Where to, as ``http://localhost:4318``; that of OpenTelemetry's own variables, or its default, if not set.
        enable_sensitive_data: Whether prompts, answers, arguments and results go along.
        span_names: ``genai`` for the names of the GenAI conventions, ``classic`` for ``agent.run``, ``gen_ai.chat``, ``tool.execute``.
    """

    enabled: bool = False
    endpoint: str | None = None
    enable_sensitive_data: bool = False
    span_names: Literal["genai", "classic"] = "genai"


class SandboxSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """The sandbox that tools work in where ``--sandbox`` does not say otherwise. The lists of all files add up.

    Attributes:
        layer: ``none``, ``auto`` for the strongest that works here, or the name of one.
        network: Whether programs in it reach the network.
        writable: Folders that may be changed beside the project's.
        readable: Folders and files that may be read beside the usual ones.
        hidden: Folders and files that may not be read.
    """

    layer: SandboxLayer = "none"
    network: bool = False
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class ExecutionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits of what tools start and reach.

    Attributes:
        max_processes: Processes that a command may have at the same time; one that starts more is ended. Any number if not set.
        reachable: Hosts (``name`` or ``name:port``) that `fetch` may ask though their address is private.
    """

    max_processes: _Count | None = None
    reachable: tuple[str, ...] = ()


class LanguageServerSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A language server: after each edit of a file of its languages the agent is told which problems are new.

    Attributes:
        command: Program and arguments; it talks on standard input and output.
        languages: Language ids by the endings of file names, as in ``{".py": "python"}``.
        options: What it is given when it starts (``initializationOptions``).
        settings: What it is given when it asks for its settings, by section.
        enabled: Whether it is started.
    """

    command: tuple[str, ...]
    languages: dict[str, str]
    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    enabled: bool = True

    def __post_init__(self) -> None:
        if not self.command or not self.command[0].strip():
            raise ValueError('needs a command, as in ["pyright-langserver", "--stdio"]')


class InstructionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Instruction files: `AGENTS.md` of the project, of its subfolders and of the user.

    Attributes:
        enabled: Whether they are read.
        files: Names to look for in a folder; the first that is there counts.
        max_bytes: Bytes that are taken of all of them together; what is cut is said.
    """

    enabled: bool = True
    files: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md")
    max_bytes: Annotated[int, Meta(ge=1, le=1 << 20)] = 64 << 10


class NotificationSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the terminal tells that a run is over or that something is asked.

    Attributes:
        when: ``unfocused``: only while the terminal has no focus (or does not tell whether it has); ``always``; ``never``.
        ways: ``bell`` rings; ``osc9`` and ``osc777`` ask the terminal to show a message.
        command: A command of your own; it gets the message in ``$MAINSPRING_MESSAGE`` and what happened (``done``, ``asking``,
            ``failed``) in ``$MAINSPRING_EVENT``. Only from your own settings.
        after_seconds: Runs that are shorter are not told of.
    """

    when: Literal["unfocused", "always", "never"] = "unfocused"
    ways: tuple[Literal["bell", "osc9", "osc777"], ...] = ("bell",)
    command: str | None = None
    after_seconds: Annotated[float, Meta(ge=0)] = 10.0


class UiSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the terminal looks like.

    Attributes:
        theme: Name of the colours: ``auto``, ``dark``, ``light``, ``plain``.
        keys: Keys by action, where they are not the usual ones.
    """

    theme: Literal["auto", "dark", "light", "plain"] = "auto"
    keys: dict[str, str] = {}


class SkillSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Skills. The lists of all files add up.

    Attributes:
        enabled: Whether there are any.
        plugin_dir: Folders of skills beside the usual ones: absolute or from ``~/`` on, or within the project.
        disabled: Names of those that are not wanted.
        builtin: Whether the bundled ones count.
        trust_project_skills: Whether those of a project that you trust count; ``false`` leaves them out all the same.
        max_skills: How many that fit a prompt are put before the model at most.
        max_active: How many may be active at the same time; any number if not set.
    """

    enabled: bool = True
    plugin_dir: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    builtin: bool = True
    trust_project_skills: bool = True
    max_skills: Annotated[int, Meta(ge=0)] = 3
    max_active: _Count | None = None


class McpSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Servers of the Model Context Protocol. Those of all files add up; of one name the project's counts, once it is trusted.

    Attributes:
        enabled: Whether any are used.
        servers: By name, or as a list; see the page on MCP for what stands in an entry.
        grace_seconds: How long the first prompt waits for servers that are still on their way, at most.
        disclosure: Whether the model is told of tools at once (``eager``) or finds them by search (``lazy``), where a server does not say.
    """

    enabled: bool = True
    servers: Any = None
    grace_seconds: Annotated[float, Meta(ge=0)] | None = None
    disclosure: Literal["eager", "lazy"] = "eager"


PositiveInt = Annotated[int, Meta(ge=1)]
PositiveFloat = Annotated[float, Meta(gt=0)]


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
    context_window: PositiveInt | None = None
    max_output_tokens: PositiveInt | None = None
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
        return redacted_repr(self, "api_key", "headers")


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
    max_tokens: PositiveInt | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    thinking: Literal["off", "minimal", "low", "medium", "high", "xhigh"] | None = None
    max_turns: PositiveInt | None = None
    max_seconds: PositiveFloat | None = None
    max_cost: PositiveFloat | None = None
    max_total_tokens: PositiveInt | None = None
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
    base_delay_ms: PositiveInt | None = None
    max_delay_ms: PositiveInt | None = None
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
    reserve_tokens: PositiveInt | None = None
    keep_recent_tokens: PositiveInt | None = None
    threshold: PositiveFloat | None = None
    prompt: str | None = None
    model: str | None = None


class HookCommand(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A command of a hook in the form that other programs write: ``{"type": "command", "command": "...", "timeout": 60}``."""

    command: str
    type: Literal["command"] = "command"
    timeout: PositiveFloat | None = None
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
    timeout: PositiveFloat | None = None
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
