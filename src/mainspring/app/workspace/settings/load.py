"""Load the settings of a run. Precedence: flags, environment, project, user, defaults."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from msgspec import Struct

from mainspring.app.workspace.paths import UserPaths, find_project_settings, find_user_paths, is_inaccessible_folder
from mainspring.app.workspace.settings.schema import (
    AppConfig,
    PermissionSettings,
    Providers,
    ProviderSettings,
    agent_key,
    iter_agent_settings,
)
from mainspring.app.workspace.settings.validation import (
    SettingKey,
    SettingsChecker,
    SettingsSource,
    convert_value,
    setting_type,
)
from mainspring.errors import ConfigError
from mainspring.lazy import lazy_function
from mainspring.lenient_json import JsonError, parse_jsonc
from mainspring.models.config import PROVIDER_SPECIFIC_SETTINGS

if TYPE_CHECKING:
    from mainspring.app.workspace.settings.provider_variables import apply_provider_variables
else:  # Only files with a section of a provider need it.
    apply_provider_variables = lazy_function(
        "mainspring.app.workspace.settings.provider_variables", "apply_provider_variables"
    )


_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})


def env_str(environ: Mapping[str, str], name: str) -> str | None:
    """Return a string."""
    return environ.get(name, "").strip() or None


def env_bool(environ: Mapping[str, str], name: str) -> bool | None:
    """Return a boolean: 1, true, yes, on, or 0, false, no, off.

    Raises:
        ConfigError: If the value is invalid.
    """
    value = env_str(environ, name)
    if value is None:
        return None
    word = value.lower()
    if word not in _YES | _NO:
        raise ConfigError(f"{name} must be true or false, not {value!r}")
    return word in _YES


def env_int(environ: Mapping[str, str], name: str) -> int | None:
    """Return an integer.

    Raises:
        ConfigError: If the value is invalid.
    """
    value = env_str(environ, name)
    try:
        return None if value is None else int(value)
    except ValueError:
        raise ConfigError(f"{name} must be an integer, not {value!r}") from None


def env_float(environ: Mapping[str, str], name: str) -> float | None:
    """Return a finite number.

    Raises:
        ConfigError: If the value is invalid.
    """
    value = env_str(environ, name)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{name} must be a number, not {value!r}")
    return number


def variable_name(key: str) -> str:
    """Return the environment variable of a setting of the agent."""
    return "MAINSPRING_" + "".join([f"_{letter}" if letter.isupper() else letter.upper() for letter in key])


_MAX_BYTES = 1 << 20


_READERS: dict[Any, Callable[[Mapping[str, str], str], Any]] = {
    bool: env_bool,
    int: env_int,
    float: env_float,
}
_AGENT_OPTIONS = [
    (("agent", agent_key(name, setting)), option, setting) for name, option, setting in iter_agent_settings()
]


ENVIRONMENT: dict[str, tuple[SettingKey, Callable[[Mapping[str, str], str], Any]]] = {
    "AGENT_MODEL": (("model",), env_str),
    "MAINSPRING_PROVIDER": (("providers", "default"), env_str),
    "MAINSPRING_SYSTEM_PROMPT": (("agent", "systemPrompt"), env_str),
    "MAINSPRING_SANDBOX": (("sandbox", "layer"), env_str),
    "OTEL_EXPORTER_OTLP_ENDPOINT": (("telemetry", "endpoint"), env_str),
    **{variable_name(path[1]): (path, _READERS.get(option.kind, env_str)) for path, option, _ in _AGENT_OPTIONS},
}
"""Environment variables for settings, and functions that read them. API keys and URLs of providers have their own variables."""


_ACCUMULATING_SECTIONS = frozenset({"permissions", "hooks", "extensions", "sandbox", "execution", "skills"})
"""Sections whose lists are concatenated over all files."""


_SERVERS = ("mcp", "servers")
_LIMIT_KEYS = {path for path, _, setting in _AGENT_OPTIONS if setting.untrusted == "lower"} | {
    ("execution", "maxProcesses")
}
_RESTRICTING_KEYS = {("permissions", "ask"), ("permissions", "deny"), ("sandbox", "hidden"), ("skills", "disabled")}
_ALLOWED_UNTRUSTED_KEYS = _RESTRICTING_KEYS | {
    path for path, _, setting in _AGENT_OPTIONS if setting.untrusted == "any"
}


class RuleFile(Struct, frozen=True):
    """The rules of one file.

    Attributes:
        kind: Owner of the file.
        place: File.
        rules: Rules.
        trusted: Whether the file may allow more.
    """

    kind: Literal["user", "project"]
    place: str
    rules: PermissionSettings
    trusted: bool = True


class Settings(Struct, frozen=True, kw_only=True):
    """Loaded settings and their origins.

    Attributes:
        config: Merged settings.
        rules: Rules of ``config.permissions``, by file.
        values: Values by path.
        origins: Origin of each value, by dotted path.
        warnings: Warnings for the user: unknown keys, ignored values, unreachable files.
        mcp_servers: MCP servers of each file with its path, the user's first.
        home: User's folder, if the home directory is found.
        project_file: Settings file of the project, if it exists.
    """

    config: AppConfig
    rules: tuple[RuleFile, ...] = ()
    values: dict[SettingKey, Any] = {}
    origins: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    mcp_servers: tuple[tuple[str, Any], ...] = ()
    home: UserPaths | None = None
    project_file: Path | None = None


def load_settings(
    cwd: str,
    *,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[SettingKey, Any] | None = None,
    trusted: bool = False,
    strict: bool = False,
) -> Settings:
    """Load, check, and merge all settings. Creates nothing.

    Args:
        cwd: Working folder.
        environ: Environment variables.
        flags: Values of the command line, by path.
        trusted: Whether the project's file applies completely; otherwise, it may only restrict.
        strict: Whether warnings are errors.

    Raises:
        ConfigError: If a file or value is invalid; the message contains file, line, and column.
    """
    home = find_user_paths(environ)
    user = (
        _read(home.settings)
        if home
        else SettingsSource(
            "user", warnings=["Cannot find your home directory, so default settings are used. Set MAINSPRING_HOME."]
        )
    )
    project_file = find_project_settings(cwd, home)
    project = _read(project_file, trusted=trusted) if project_file else SettingsSource("project")
    if not trusted:
        project = restrict_untrusted(project, user)
    layers = [user, project, read_environment(environ), SettingsSource("flags", dict(flags or {}))]
    warnings = tuple(w for layer in layers for w in layer.warnings)
    if strict and warnings:
        raise ConfigError("\n".join(warnings))
    values, origins = merge_sources(layers)
    if any(path[0] == "providers" and len(path) > 2 for path in values):
        apply_provider_variables(values, origins, environ)
    return Settings(
        config=build_config(values),
        rules=(
            RuleFile("user", user.origin, build_config(user.values).permissions),
            RuleFile("project", project.origin, build_config(project.values).permissions, trusted),
        ),
        values=values,
        origins=origins,
        warnings=warnings,
        mcp_servers=tuple([(x.origin, x.values[_SERVERS]) for x in layers if _SERVERS in x.values]),
        home=home,
        project_file=project_file,
    )


def _read(file: Path, *, trusted: bool = True) -> SettingsSource:
    """Read a settings file; an absent file, or one in an inaccessible folder, is empty."""
    try:
        text = _text(file)
    except (FileNotFoundError, NotADirectoryError):
        return SettingsSource(str(file))
    except OSError as error:
        if is_inaccessible_folder(file.parent):
            return SettingsSource(
                str(file), warnings=[f"Cannot read {file.parent} ({error.strerror}). Default settings are used."]
            )
        raise ConfigError(f"Cannot read {file}: {error.strerror or error}.") from error
    return parse_settings(text, str(file), trusted=trusted)


def _text(file: Path) -> str:
    found = file.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{file} is not a regular file.")
    if found.st_size > _MAX_BYTES:
        raise ConfigError(f"{file} is larger than 1 MiB.")
    data = file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ConfigError(f"{file}:{line}:{column}: Invalid UTF-8. Save the file as UTF-8.") from None


def parse_settings(text: str, origin: str, *, trusted: bool = True) -> SettingsSource:
    """Parse and check the text of a settings file.

    Args:
        text: Text.
        origin: File name.
        trusted: Whether it applies completely. In an untrusted file, an invalid value is a warning unless it may restrict
            something, so that a file by another author does not prevent runs.

    Raises:
        ConfigError: If it is invalid; the message contains all errors.
    """
    checker = SettingsChecker(origin, text)
    try:
        checker.check(parse_jsonc(text))
    except JsonError as error:
        raise ConfigError(f"{origin}:{error.line}:{error.column}: {error.reason}") from None
    wrong = [p for p in checker.problems if trusted or _is_restricting(p.path)]
    if wrong:
        raise ConfigError("\n".join(checker.with_position(p.position, p.text) for p in wrong))
    checker.layer.warnings += [
        f"{checker.with_position(p.position, p.text)} (ignored, because the project is not trusted)"
        for p in checker.problems
    ]
    return checker.layer


def _is_restricting(path: SettingKey) -> bool:
    """Return True if a setting, or one inside it, restricts something even in an untrusted file."""
    return any(path == each[: len(path)] or each == path[: len(each)] for each in _RESTRICTING_KEYS)


def read_environment(environ: Mapping[str, str]) -> SettingsSource:
    """Read the settings in environment variables.

    Raises:
        ConfigError: If a value is invalid; the message contains the variable.
    """
    layer = SettingsSource("environment")
    for name, (path, read) in ENVIRONMENT.items():
        value = read(environ, name)
        if value is None:
            continue
        try:
            layer.values[path] = convert_value(value, setting_type(path))
        except ValueError as error:
            raise ConfigError(f"{name} {error}") from None
    return layer


def restrict_untrusted(project: SettingsSource, user: SettingsSource) -> SettingsSource:
    """Return the values of an untrusted project that apply: ask and deny rules, lower limits, and the temperature."""
    restricted = SettingsSource(project.origin, warnings=list(project.warnings))
    ignored: list[str] = []
    for path, value in project.values.items():
        if path in _LIMIT_KEYS:
            restricted.values[path] = min(value, user.values.get(path, value))
        elif path in _ALLOWED_UNTRUSTED_KEYS:
            restricted.values[path] = value
        else:
            ignored.append(".".join(path))
    if ignored:
        restricted.warnings.append(
            f"{project.origin}: Ignored {', '.join(ignored)}, because the project is not trusted. To use these settings, trust the project, set "
            "them in your own settings, or use flags."
        )
    return restricted


def merge_sources(layers: list[SettingsSource]) -> tuple[dict[SettingKey, Any], dict[str, str]]:
    """Merge all values and return them with their origins. Later sources override earlier ones; lists of rules, hooks, and extensions are concatenated."""
    values: dict[SettingKey, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        for path, value in layer.values.items():
            name = ".".join(path)
            old = values.get(path)
            if path[0] in _ACCUMULATING_SECTIONS and isinstance(old, tuple | list) and isinstance(value, tuple | list):
                first, second = cast("list[Any]", old), cast("list[Any]", value)
                values[path] = type(first)([*first, *(v for v in second if v not in first)])
                origins[name] = f"{origins[name]}, {layer.origin}"
            else:
                values[path] = value
                origins[name] = layer.origin
    return values, origins


def build_config(values: Mapping[SettingKey, Any]) -> AppConfig:
    """Create typed settings from values."""
    tree: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    default: str | None = None
    for path, value in values.items():
        if path[0] != "providers":
            place = tree
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
        elif path[1] == "default":
            default = value
        else:
            section = sections.setdefault(path[1], {})
            (section.setdefault("extra", {}) if path[2] in PROVIDER_SPECIFIC_SETTINGS else section)[path[2]] = value
    config = msgspec.convert(tree, AppConfig) if tree else AppConfig()  # a conversion needs all sections to be imported
    providers = Providers(
        default=default, sections={n: msgspec.convert(s, ProviderSettings) for n, s in sections.items()}
    )
    return msgspec.structs.replace(config, providers=providers)
