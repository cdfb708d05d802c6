"""The sections for what surrounds an agent: where its tools work, what is read for it, whom to tell, what it looks like."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

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
