"""Show, check, and change settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct

from mainspring.app.run.options import WorkspaceOptions
from mainspring.app.workspace.load import load_rules
from mainspring.app.workspace.model_problems import find_model_problems
from mainspring.app.workspace.paths import (
    PROJECT_FOLDER,
    SETTINGS_FILE,
    find_project_settings,
    find_user_paths,
    resolve_working_folder,
)
from mainspring.app.workspace.permissions import find_rule_problems
from mainspring.app.workspace.secrets import HIDDEN, redactor_of
from mainspring.app.workspace.settings import AppConfig, Settings, parse_settings, save_settings
from mainspring.app.workspace.settings.json_schema import settings_schema as schema
from mainspring.app.workspace.settings.schema import agent_key, iter_agent_settings
from mainspring.app.workspace.settings.validation import SettingKey, iter_settings, setting_type
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError, ProviderConfigError
from mainspring.locks import LockTimeoutError, lock_directory
from mainspring.mcp.plug import GRACE
from mainspring.models import RetryConfig
from mainspring.policies.compaction import Compaction
from mainspring.redaction import Redactor
from mainspring.state_files import write_text_atomically
from mainspring.text import to_camel_case


class Setting(Struct, frozen=True):
    """A setting: its name, its value (API keys are redacted), and its origin."""

    key: str
    value: Any
    origin: str


class SettingsView(Struct, frozen=True, kw_only=True):
    """The settings in effect.

    Attributes:
        settings: Settings.
        files: Settings files.
        warnings: Warnings about them.
    """

    settings: tuple[Setting, ...]
    files: tuple[str, ...]
    warnings: tuple[str, ...]


class SettingsIssue(Struct, frozen=True):
    """An ``error`` or ``warning`` about a settings file, or ``ok``."""

    file: str
    level: Literal["ok", "warning", "error"]
    text: str = ""


class SettingChange(Struct, frozen=True):
    """A saved change of a setting.

    Attributes:
        file: File that contains the setting.
        changed: Whether the file changed.
        problems: Likely mistakes in the value.
    """

    file: Path
    changed: bool
    problems: tuple[str, ...] = ()


def describe_settings(
    place: WorkspaceOptions, environ: Mapping[str, str] = os.environ, *, include_unset: bool = False, section: str = ""
) -> SettingsView:
    """Return the settings in effect.

    Args:
        place: Workspace options.
        environ: Environment variables.
        include_unset: Whether to include settings with default values.
        section: Name of a setting or section, for example, ``agent``, to which the result is limited.

    Raises:
        ConfigError: If a file is invalid, or the section is unknown.
    """
    _, settings = load_rules(place, environ=environ)
    redactor = redactor_of(settings, environ)
    shown = [
        Setting(name, _redacted(name, msgspec.to_builtins(value), redactor), settings.origins[name])
        for name, value in sorted((".".join(path), value) for path, value in settings.values.items())
    ]
    if include_unset:
        known = {s.key for s in shown}
        defaults = AppConfig()
        shown += [
            Setting(name, _default(defaults, path), "default")
            for path, _ in iter_settings()
            if (name := ".".join(path)) not in known and not any(key.startswith(f"{name}.") for key in known)
        ]
        shown.sort(key=lambda s: s.key)
    if section:
        name = ".".join(parse_setting_key(section))
        shown = [each for each in shown if f"{each.key}.".startswith(f"{name}.")]
        if not shown and not any(".".join(path).startswith(f"{name}.") for path, _ in iter_settings()):
            _check_known(name)
    files = [settings.home.settings] if settings.home else []
    files += [settings.project_file] if settings.project_file else []
    return SettingsView(settings=tuple(shown), files=tuple(map(str, files)), warnings=settings.warnings)


def find_setting(key: str, place: WorkspaceOptions, environ: Mapping[str, str] = os.environ) -> Setting:
    """Return one setting in effect; its value is ``None`` if nothing sets it and it has no default.

    Raises:
        ConfigError: If a file is invalid, or the setting is unknown or a section.
    """
    found = describe_settings(place, environ, include_unset=True, section=key).settings
    name = ".".join(parse_setting_key(key))
    setting = next((each for each in found if each.key == name), None)
    if setting is None and found:
        raise ConfigError(f"{key} is a section. Show its settings with `mainspring config show {key}`.")
    return setting or Setting(name, None, "default")


def _check_known(name: str) -> None:
    try:
        setting_type(parse_setting_key(name))
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _redacted(key: str, value: Any, redactor: Redactor) -> Any:
    """Redact secrets in a setting, by its name or its value."""
    name = key.rpartition(".")[2]
    return next(iter(redactor.value({name: value}, hide=HIDDEN).values()))


def _default(config: AppConfig, path: SettingKey) -> Any:
    """Return the value that a run uses if nothing sets one; None: no limit, or another part of Mainspring or the host decides."""
    if path in (effective := _effective_defaults()):
        return effective[path]
    plain: Any = msgspec.to_builtins(config)
    for part in path:
        plain = plain[part]
    return plain


@cache
def _effective_defaults() -> dict[SettingKey, Any]:
    """Return the defaults that are not in the settings, which have None for "not set"."""
    retry, compaction = RetryConfig(), Compaction()
    agent = {
        ("agent", agent_key(name, setting)): option.default if setting.default is UNSET else setting.default
        for name, option, setting in iter_agent_settings()
    }
    return {
        **{path: None if value is UNSET else value for path, value in agent.items()},
        ("retry", "maxRetries"): retry.max_retries,
        ("retry", "baseDelayMs"): int(retry.base_delay_seconds * 1000),
        ("retry", "maxDelayMs"): int(retry.max_delay_seconds * 1000),
        ("retry", "enableJitter"): retry.jitter > 0,
        ("retry", "midStream"): retry.mid_stream,
        ("compaction", "reserveTokens"): compaction.reserve,
        ("compaction", "keepRecentTokens"): compaction.keep_recent,
        ("mcp", "graceSeconds"): GRACE,
    }


def settings_file(cwd: str, settings: Settings, *, project: bool) -> Path:
    """Return the settings file to change: of the user or the project.

    Raises:
        ConfigError: If the home directory is not found.
    """
    if project:
        return settings.project_file or Path(cwd, PROJECT_FOLDER, SETTINGS_FILE)
    if settings.home is None:
        raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
    return settings.home.settings


def change_config(
    key: str,
    value: str | None,
    environ: Mapping[str, str] = os.environ,
    *,
    place: WorkspaceOptions | None = None,
    project: bool = False,
) -> SettingChange:
    """Set a setting, or remove it with None.

    Args:
        key: Name, for example, ``agent.maxTokens``.
        value: Value; a list as JSON or one item per line, an object as JSON. An object for the section of a provider, for example
            ``providers.azure``, sets each of its keys.
        environ: Environment variables.
        place: Workspace options, for the project's file.
        project: Whether to change the project's file instead of the user's.

    Raises:
        ConfigError: If the setting is unknown, the value is invalid, or the file cannot be written.
    """
    file = settings_file_to_change(place or WorkspaceOptions(), environ, project=project)
    path = parse_setting_key(key)
    if value is not None and not value.strip():
        raise ConfigError(f"The value of {key} is empty. To remove it, use `mainspring config unset {key}`.")
    is_section = len(path) == 2 and path[0] == "providers" and path[1] != "default"
    if value is not None and is_section:
        changes = _parse_section(path, value)
    else:
        changes = {path: None if value is None else _parse_value(path, value)}
    secret = next((".".join(p) for p, v in changes.items() if p[-1] in HIDDEN and v is not None), None)
    if project and secret:
        raise ConfigError(f"{secret} is not allowed in a project's settings, which others can read. Omit --project.")
    with TrustStore(find_user_paths(environ)).accept_own_changes(file.parent if project else None):
        changed = save_settings(file, changes, private=not project)
    return SettingChange(file, changed, () if value is None else _find_problems(path, place, environ))


def _find_problems(path: SettingKey, place: WorkspaceOptions | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return likely mistakes in a valid value of a setting: the name of a model, provider, or tool that does not exist."""
    try:
        cwd, settings = load_rules(place or WorkspaceOptions(), environ=environ)
        match path:
            case ("permissions", _):
                return find_rule_problems(settings, cwd)
            case ("model",) | ("compaction", "model") | ("providers", _, "model") | ("providers", "default"):
                return find_model_problems(settings.config)
            case _:
                return ()
    except ProviderConfigError as error:
        return (str(error),)
    except ConfigError:  # reported by every other command
        return ()


def _parse_section(path: SettingKey, text: str) -> dict[SettingKey, Any]:
    """Return the settings in the JSON object of a provider, by path."""
    name = ".".join(path)
    example = """must be a JSON object, for example, '{"model": "..."}'"""
    try:
        section = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"{name} {example}: {error}") from None
    return {(*path, to_camel_case(key)): value for key, value in section.items()}


def settings_file_to_change(place: WorkspaceOptions, environ: Mapping[str, str], *, project: bool) -> Path:
    """Return the file to change without reading it, because the user may want to fix an invalid file."""
    home = find_user_paths(environ)
    if not project:
        if home is None:
            raise ConfigError("Cannot find your home directory. Set MAINSPRING_HOME.")
        return home.settings
    cwd, _ = resolve_working_folder(place.cwd, environ)
    return find_project_settings(cwd, home) or Path(cwd, PROJECT_FOLDER, SETTINGS_FILE)


def parse_setting_key(key: str) -> SettingKey:
    """Parse the dotted name of a setting; names of providers and servers are unchanged."""
    parts = key.split(".")
    path = tuple(to_camel_case(part) for part in parts)
    if path[0] == "providers" and len(parts) > 2:
        return ("providers", ".".join(parts[1:-1]), path[-1])
    if path[0] == "languageServers" and len(parts) > 1:
        return ("languageServers", ".".join(parts[1:]))
    return path


def _parse_value(path: SettingKey, value: str) -> Any:
    """Parse a value as typed: JSON if the setting is a list or an object."""
    try:
        kind = setting_type(path)
    except ValueError:
        return value  # reported when the setting is saved
    text = value.strip()
    # A setting may be a list, an object, or something else: then JSON is one of them, and several lines are a list.
    origins = {get_origin(each) for each in get_args(kind)}
    takes_object = get_origin(kind) is dict or (dict in origins and text.startswith("{"))
    may_list = not takes_object and not origins.isdisjoint({tuple, list})
    takes_list = get_origin(kind) in {tuple, list} or (may_list and (text.startswith("[") or "\n" in text))
    structured = takes_list or takes_object or (isinstance(kind, type) and issubclass(kind, Struct))
    if takes_list and not text.startswith("["):
        return [line for line in text.splitlines() if line.strip()]
    if structured:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{'.'.join(path)} must be JSON, for example, '{{...}}': {error}") from None
    if int in get_args(kind) and text.lstrip("-").isdecimal():  # keepAlive: a duration, or seconds
        return int(text)
    return value


def settings_schema() -> str:
    """Return the JSON Schema of a settings file."""
    return schema()


def validate_config(place: WorkspaceOptions, *, strict: bool = False) -> list[SettingsIssue]:
    """Check each settings file, and the merged settings. Return all issues.

    Args:
        place: Workspace options.
        strict: Whether warnings are errors.
    """
    home = find_user_paths(os.environ)
    cwd, _ = resolve_working_folder(place.cwd, os.environ)
    files = [f for f in (home.settings if home else None, find_project_settings(cwd, home)) if f is not None]
    findings: list[SettingsIssue] = []
    for file in files:
        findings += _check_file(file)
    if not any(f.level == "error" for f in findings):
        findings += _check_merged(place)
    if strict:
        findings = [SettingsIssue(f.file, "error", f.text) if f.level == "warning" else f for f in findings]
    return findings or [SettingsIssue("", "ok", "No settings files yet. The defaults are used.")]


def _check_file(file: Path) -> list[SettingsIssue]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        return [SettingsIssue(str(file), "error", f"Cannot read {file}: {error}")]
    try:
        layer = parse_settings(text, str(file))
    except ConfigError as error:
        return [SettingsIssue(str(file), "error", line) for line in str(error).splitlines()]
    return [SettingsIssue(str(file), "warning", text) for text in layer.warnings] or [SettingsIssue(str(file), "ok")]


def _check_merged(place: WorkspaceOptions) -> list[SettingsIssue]:
    """Check the merged settings: rules, the default provider, and ignored values."""
    findings: list[SettingsIssue] = []
    try:
        cwd, settings = load_rules(place)
        texts = [text for text in settings.warnings if "Unknown setting" not in text]
        findings += [SettingsIssue("", "warning", text) for text in texts]
        checks: list[Callable[[], Sequence[str]]] = [
            lambda: find_rule_problems(settings, cwd),
            lambda: find_model_problems(settings.config),
        ]
        for check in checks:
            try:
                findings += [SettingsIssue("", "warning", text) for text in check()]
            except (ConfigError, ProviderConfigError) as error:
                findings.append(SettingsIssue("", "error", str(error)))
    except ConfigError as error:
        findings.append(SettingsIssue("", "error", str(error)))
    return findings


EMPTY_SETTINGS = """{
  // Settings of Mainspring; `mainspring config show --all` lists what can be set.
}
"""


def read_for_editing(place: WorkspaceOptions, *, project: bool = False) -> tuple[Path, str]:
    """Return a settings file and its text, or a template if it does not exist. The text may be invalid, so that the user can fix it.

    Raises:
        ConfigError: If the home directory is not found, or the file cannot be read.
    """
    file = settings_file_to_change(place, os.environ, project=project)
    try:
        return file, file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return file, EMPTY_SETTINGS
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {file}: {error}") from error


def validate_text(text: str, file: Path) -> list[str]:
    """Return the warnings about a text.

    Raises:
        ConfigError: If it is invalid.
    """
    return parse_settings(text, str(file)).warnings


def save_edited(file: Path, before: str, text: str, *, private: bool) -> None:
    """Replace the text of a file, if the file has not changed.

    Raises:
        ConfigError: If another program changed the file, or it cannot be written.
    """
    target = Path(os.path.realpath(file))
    try:
        target.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with lock_directory(target.parent):
            now = target.read_text(encoding="utf-8-sig") if target.exists() else EMPTY_SETTINGS
            if now != before:
                raise ConfigError(f"{file} changed on disk. Your changes were not saved.")
            write_text_atomically(target, text, private=private)
    except LockTimeoutError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"Cannot write {file}: {error.strerror or error}.") from error
