"""The typed settings. A file has the same structure, with its keys in camelCase."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from msgspec import Meta, Struct, defstruct

from mainspring.models.config import ModelFacts
from mainspring.options import DOC_INDENT, AgentSetting, OptionSpec
from mainspring.redaction import redacted_repr
from mainspring.run_options import RunOptions

_Count = Annotated[int, Meta(ge=1)]


SandboxLayer = Literal["none", "auto", "bubblewrap", "landlock", "seatbelt"]


class TelemetrySettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """OpenTelemetry traces and metrics. Off by default; an untrusted project cannot enable them.

    Attributes:
        enabled: Whether to record and send them.
        endpoint: Endpoint, for example ``http://localhost:4318`` (default: from OpenTelemetry's own variables).
        enable_sensitive_data: Whether to include prompts, responses, arguments, and results.
        span_names: ``genai`` for the names of the GenAI conventions, ``classic`` for ``agent.run``, ``gen_ai.chat``, ``tool.execute``.
    """

    enabled: bool = False
    endpoint: str | None = None
    enable_sensitive_data: bool = False
    span_names: Literal["genai", "classic"] = "genai"


class SandboxSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """The sandbox for tools, unless ``--sandbox`` overrides it. The lists of all files are concatenated.

    Attributes:
        layer: ``none``, ``auto`` for the strongest available layer, or the name of a layer.
        network: Whether to allow network access in the sandbox.
        writable: Folders outside the project that may be changed.
        readable: Additional folders and files that may be read.
        hidden: Folders and files that may not be read.
    """

    layer: SandboxLayer = "none"
    network: bool = False
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


class ExecutionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits for programs and requests of tools.

    Attributes:
        max_processes: Maximum number of processes of a command; a command that starts more is stopped. No limit by default.
        reachable: Hosts (``name`` or ``name:port``) that `fetch` may access even if their address is private.
    """

    max_processes: _Count | None = None
    reachable: tuple[str, ...] = ()


class LanguageServerSettings(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A language server, which reports new problems to the agent after each edit of a file in its languages.

    Attributes:
        command: Program and arguments; it uses standard input and output.
        languages: Language IDs by file extension, for example ``{".py": "python"}``.
        options: Initialization options (``initializationOptions``).
        settings: Settings by section, which the server can request.
        enabled: Whether to start it.
    """

    command: tuple[str, ...]
    languages: dict[str, str]
    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    enabled: bool = True

    def __post_init__(self) -> None:
        if not self.command or not self.command[0].strip():
            raise ValueError('requires a command, for example, ["pyright-langserver", "--stdio"]')


class LargeOutputSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Large outputs of tools, which are moved out of the conversation.

    Attributes:
        select: What selects the earlier outputs that a prompt is about, to restore them for its run: ``keywords`` (words that both
            contain), ``model`` (a call of the model for each prompt with earlier outputs), or ``off``.
    """

    select: Literal["keywords", "model", "off"] = "keywords"


class InstructionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Instruction files: `AGENTS.md` of the project, of its subfolders, and of the user.

    Attributes:
        enabled: Whether to read them.
        files: File names; the first one that exists in a folder is used.
        max_bytes: Maximum total size in bytes; truncation is reported.
    """

    enabled: bool = True
    files: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md")
    max_bytes: Annotated[int, Meta(ge=1, le=1 << 20)] = 64 << 10


class NotificationSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Terminal notifications when a run ends or needs approval.

    Attributes:
        when: ``unfocused``: only if the terminal has no focus or does not report it; ``always``; ``never``.
        ways: ``bell`` rings the terminal bell; ``osc9`` and ``osc777`` show a desktop notification.
        command: Command to run, with the message in ``$MAINSPRING_MESSAGE`` and the event (``done``, ``asking``, ``failed``) in
            ``$MAINSPRING_EVENT``. Only from your own settings.
        after_seconds: Minimum duration of a run for a notification.
    """

    when: Literal["unfocused", "always", "never"] = "unfocused"
    ways: tuple[Literal["bell", "osc9", "osc777"], ...] = ("bell",)
    command: str | None = None
    after_seconds: Annotated[float, Meta(ge=0)] = 10.0


ThemeName = Literal["auto", "dark", "light", "high-contrast", "color-blind", "plain"]
"""A color theme of the terminal."""


class UiSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """The appearance of the terminal.

    Attributes:
        theme: Color theme: ``auto``, ``dark``, ``light``, ``high-contrast``, ``color-blind``, ``plain``.
        keys: Key bindings by action, to override the defaults.
        editing: Keys of the input: ``emacs`` or ``vim``.
        screen_reader: Whether the chat prints plain lines for a screen reader, without redrawing. Only from your own settings.
    """

    theme: ThemeName = "auto"
    keys: dict[str, str] = {}
    editing: Literal["emacs", "vim"] = "emacs"
    screen_reader: bool = False


StatusLinePart = Literal[
    "model",
    "thinking",
    "mode",
    "sandbox",
    "context",
    "folder",
    "cost",
    "branch",
    "subagents",
    "queue",
    "title",
]
"""A part of the status line."""


class StatusLineSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """The status line of the terminal.

    Attributes:
        parts: The parts to show, in this order: ``model``, ``thinking``, ``mode``, ``sandbox``, ``context``, ``folder``, ``cost``, ``branch``,
            ``subagents``, ``queue``, ``title``. The mode and the queue are always shown.
        command: Command that receives the status as JSON on its standard input; the first line of its output replaces the other parts.
        timeout_seconds: Seconds until the command is killed and the parts are shown.
    """

    parts: tuple[StatusLinePart, ...] = get_args(StatusLinePart)
    command: str | None = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=60)] = 2.0


class SkillSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Skills. The lists of all files are concatenated.

    Attributes:
        enabled: Whether to enable skills, or the names of the only enabled ones.
        plugin_dir: Additional folders of skills: absolute, relative to ``~/``, or within the project.
        disabled: Names of disabled skills.
        builtin: Whether to enable bundled skills.
        catalog_mode: What the system prompt has of them: ``catalog`` for a list, ``breadcrumb`` for their number, with the list after a
            prompt that asks for it, or ``none``.
        trust_project_skills: Whether to enable skills of trusted projects.
        max_skills: Maximum number of skills to list in the prompt.
        max_active: Maximum number of active skills (default: no limit).
    """

    enabled: bool | tuple[str, ...] = True
    plugin_dir: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    builtin: bool = True
    catalog_mode: Literal["catalog", "breadcrumb", "none"] = "catalog"
    trust_project_skills: bool = True
    max_skills: Annotated[int, Meta(ge=0)] = 3
    max_active: _Count | None = None


class McpSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """MCP servers (Model Context Protocol). The servers of all files are merged; a trusted project's server overrides one with the same name.

    Attributes:
        enabled: Whether to enable servers.
        servers: Servers by name, or as a list; see the page on MCP for their settings.
        grace_seconds: Maximum number of seconds that the first prompt waits for servers that are connecting.
        disclosure: Whether the model receives tools immediately (``eager``), finds them by search (``lazy``), or finds them by search
            if their schemas exceed a budget (``auto``), unless a server sets it.
        schema_budget: Budget of ``auto`` in tokens; by default 12000, or a tenth of the model's window if that is lower.
        required: Whether a run fails if a server does not start (``--require-mcp``).
    """

    enabled: bool = True
    servers: dict[str, Any] | list[Any] | None = None
    grace_seconds: Annotated[float, Meta(ge=0)] | None = None
    disclosure: Literal["eager", "lazy", "auto"] = "auto"
    schema_budget: Annotated[int, Meta(ge=0)] | None = None
    required: bool = False


PositiveInt = Annotated[int, Meta(ge=1)]
PositiveFloat = Annotated[float, Meta(gt=0)]
Url: Any = Annotated[
    str,
    Meta(pattern=r"^\s*(https?://([^\s/?#@]*@)?(\[[0-9A-Fa-f:.%]+\]|[^\s/?#@:\[\]]+)(:[0-9]*)?([/?#].*)?)?\s*$"),
]
"""An address with a scheme and a host; empty or blank sets nothing, like any text."""


class ProviderSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """A model provider. Settings that only this provider supports are set in the same section.

    Attributes:
        api_key: API key (default: from the provider's variable, for example ``OPENAI_API_KEY``).
        api_key_command: Shell command that prints the API key; it runs when the key is needed, and again when the key is rejected.
        api_key_file: File with the API key, which only its owner may read (0600).
        api_key_keyring: Name of the entry in the system keyring with the API key (requires the extra ``keyring``).
        system_prompt: Additional instructions for the models of this provider.
        model: Default model.
        base_url: Base URL.
        headers: Additional request headers.
        context_window: Context window in tokens, for all models.
        max_output_tokens: Maximum number of tokens in one response.
        vision: Whether its models accept images.
        prices: US dollars per million tokens for all models: input, output, and if they differ, cache read, cache write, and
            one-hour cache write.
        known_as: Catalog name of the model that a deployment or an alias refers to.
        models: Properties of single models, by ID: ``contextWindow``, ``maxOutputTokens``, ``vision``, ``tools``,
            ``reasoning``, ``prices``, ``label``.
        connect_timeout: Timeout of the connection in seconds.
        first_byte_timeout: Timeout of the first byte of a response in seconds; 0 waits forever.
        idle_timeout: Timeout between two pieces of a response in seconds; 0 waits forever.
        dialect: Differences in the requests that the host accepts.
        extra: Settings that only this provider supports.
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
        return redacted_repr(self, "api_key", "headers", "extra")


class Providers(Struct, frozen=True, kw_only=True):
    """The object ``providers`` of a file: ``default``, and a section for each provider.

    Attributes:
        default: Provider of models without a provider prefix.
        sections: Settings of each provider, by name.
    """

    default: str | None = None
    sections: dict[str, ProviderSettings] = {}

    def get(self, name: str) -> ProviderSettings:
        """Return the settings of a provider, or an empty section."""
        return self.sections.get(name) or ProviderSettings()


class AgentSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """The behavior of the agent.

    Further settings are the options of a run that declare one.

    Attributes:
        system_prompt: System prompt that replaces the built-in one; facts about the folder are appended.
    """

    system_prompt: str | None = None

    def run_options(self) -> RunOptions:
        """Return the options of a run that are set."""
        given: dict[str, Any] = {}
        for name, _, setting in iter_agent_settings():
            value = getattr(self, name)
            if value is not None:
                given[name] = None if value == setting.off else value
        return RunOptions(**given)


def iter_agent_settings() -> Iterator[tuple[str, OptionSpec, AgentSetting]]:
    """Iterate over the options of a run that have a setting, with their names."""
    for name, option in RunOptions.declared.items():
        if option.setting is not None:
            yield name, option, option.setting


def agent_key(name: str, setting: AgentSetting) -> str:
    """Return the key of the setting of an option."""
    head, *rest = name.split("_")
    return setting.key or head + "".join([part.capitalize() for part in rest])


def _derive_agent_settings() -> type[AgentSettings]:
    """Create the settings with a field for each option that has a setting, of its type and with its limits."""
    members: list[tuple[str, Any, None]] = []
    docs = [(AgentSettings.__doc__ or "").rstrip()]
    for name, option, setting in iter_agent_settings():
        limits = setting.limits or Meta(ge=option.ge, le=option.le)
        kind: Any = Annotated[option.kind, limits] if option.kind in (int, float) else option.kind
        members.append((name, kind | None, None))
        docs.append(f"{DOC_INDENT}    {name}: {setting.doc or option.doc.rstrip('.')}.")
    keys = {name: agent_key(name, setting) for name, _, setting in iter_agent_settings()}
    derived: Any = defstruct(
        "AgentSettings", members, bases=(AgentSettings,), namespace={"__doc__": "\n".join(docs)}, module=__name__,
        frozen=True, kw_only=True, rename=keys,
    )  # fmt: skip
    return derived


if not TYPE_CHECKING:
    AgentSettings = _derive_agent_settings()


class PermissionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Permission rules in the syntax of ``--allow``, ``--ask``, and ``--deny``. Rules of all files and flags apply; deny overrides ask, and ask overrides allow."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class RetrySettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Retries of failed model calls. None keeps the default.

    Attributes:
        enabled: Whether to retry.
        max_retries: Maximum number of retries.
        base_delay_ms: Delay before the first retry, in milliseconds; it doubles with each retry.
        max_delay_ms: Maximum delay, in milliseconds.
        enable_jitter: Whether to vary delays randomly, so that many clients do not retry at the same time.
        mid_stream: Whether to continue a response that was cut off after its first content, at most twice in a call.
    """

    enabled: bool = True
    max_retries: Annotated[int, Meta(ge=0, le=100)] | None = None
    base_delay_ms: PositiveInt | None = None
    max_delay_ms: PositiveInt | None = None
    enable_jitter: bool | None = None
    mid_stream: bool | None = None


class SessionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Saved sessions.

    Attributes:
        store: Where to store sessions: ``files``, one for each session in ``~/.agent/sessions``, or ``sqlite``, all in the database
            ``~/.agent/sessions.db``. Sessions of the other store are not listed; ``mainspring sessions import`` copies one.
    """

    store: Literal["files", "sqlite"] = "files"


class CompactionSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """Compaction of long conversations. None keeps the default.

    Attributes:
        enabled: Whether to compact before the context window is full.
        reserve_tokens: Number of tokens in the context window to keep free.
        keep_recent_tokens: Approximate number of tokens of the newest messages to keep.
        threshold: Number of tokens, or fraction of the context window, at which to compact; replaces ``reserveTokens``.
        prompt: Prompt for the summary, instead of the built-in one.
        model: Model for the summary as ``provider:model`` (default: the model of the session).
    """

    enabled: bool = True
    reserve_tokens: PositiveInt | None = None
    keep_recent_tokens: PositiveInt | None = None
    threshold: PositiveFloat | None = None
    prompt: str | None = None
    model: str | None = None


class HookCommand(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A command of a hook in the format of other programs: ``{"type": "command", "command": "...", "timeout": 60}``."""

    command: str
    type: Literal["command"] = "command"
    timeout: PositiveFloat | None = None
    on_failure: Literal["refuse", "continue"] | None = None


class HookEntry(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A command hook, or several with one matcher, in ``hooks``.

    Attributes:
        matcher: Tools that it applies to, or other values of the event; empty for all.
        command: Shell script.
        timeout: Timeout in seconds.
        on_failure: Effect of a failed hook on the decision: ``refuse`` (the default) or ``continue``.
        hooks: Several commands.
    """

    matcher: str = ""
    command: str = ""
    timeout: PositiveFloat | None = None
    on_failure: Literal["refuse", "continue"] | None = None
    hooks: list[HookCommand] = []

    def __post_init__(self) -> None:
        if bool(self.command.strip()) == bool(self.hooks):
            raise ValueError("requires either a command or a list of commands in hooks, not both")


class HookSettings(Struct, frozen=True, kw_only=True, rename="pascal"):
    """Command hooks, by event; see the page on command hooks. The hooks of all files are combined."""

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
    """Additional extensions. The lists of all files are concatenated.

    Attributes:
        paths: Files and folders, absolute or relative to ``~/``.
        disabled: Names of disabled extensions.
        packages: Whether to load extensions from installed packages.
    """

    paths: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    packages: bool = True


class AppConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """All settings.

    Attributes:
        model: ``provider:model``, or a model of the default provider.
        providers: Model providers.
        agent: Behavior of the agent.
        permissions: Permission rules for tools.
        retry: Retries of failed model calls.
        audit_log: File for a log of all decisions and results, relative to the user's folder (default: none).
        compaction: Compaction of long conversations.
        hooks: Command hooks.
        extensions: Additional extensions.
        telemetry: OpenTelemetry traces and metrics.
        sandbox: Sandbox for tools.
        execution: Limits for programs and requests of tools.
        language_servers: Language servers that check edits, by name.
        large_outputs: Large outputs of tools.
        instructions: Instruction files.
        notifications: Terminal notifications.
        ui: Appearance of the terminal.
        status_line: Status line of the terminal.
        skills: Skills.
        mcp: MCP servers.
        sessions: Saved sessions.
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
    large_outputs: LargeOutputSettings = LargeOutputSettings()
    instructions: InstructionSettings = InstructionSettings()
    notifications: NotificationSettings = NotificationSettings()
    ui: UiSettings = UiSettings()
    status_line: StatusLineSettings = StatusLineSettings()
    skills: SkillSettings = SkillSettings()
    mcp: McpSettings = McpSettings()
    sessions: SessionSettings = SessionSettings()
