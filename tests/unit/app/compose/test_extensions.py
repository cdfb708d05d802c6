"""Sources of extensions and hooks, and their settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.compose.extensions import command_hooks, extension_paths, hook_depth
from mainspring.app.workspace.paths import UserPaths
from mainspring.app.workspace.settings import load_settings
from mainspring.app.workspace.settings.schema import HookSettings
from mainspring.app.workspace.trust import TrustStore
from mainspring.errors import ConfigError
from mainspring.extensions.command_hooks import COMMAND_EVENTS, DEFAULT_SECONDS


def write_settings(folder: Path, value: Any) -> None:
    (folder / ".agent").mkdir(parents=True, exist_ok=True)
    (folder / ".agent" / "settings.json").write_text(json.dumps(value), encoding="utf-8")


def test_every_command_event_is_a_setting() -> None:
    assert sorted(HookSettings.__struct_encode_fields__) == sorted(COMMAND_EVENTS)


@pytest.mark.covers("BYD-01")
def test_hooks_of_user_and_trusted_project_are_combined(home: Path, tmp_path: Path) -> None:
    write_settings(home, {"hooks": {"PreToolUse": [{"command": "guard", "matcher": "Bash", "timeout": 5}]}})
    nested = {
        "matcher": "Edit",
        "timeout": 9,
        "onFailure": "continue",
        "hooks": [{"command": "one"}, {"type": "command", "command": "two", "timeout": 3, "onFailure": "refuse"}],
    }
    write_settings(tmp_path, {"hooks": {"PreToolUse": [nested], "Stop": [{"command": "guard"}]}})

    trusted = command_hooks(load_settings(str(tmp_path), trusted=True))
    assert [(h.event, h.command, h.matcher, h.timeout, h.on_failure) for h in trusted] == [
        ("PreToolUse", "guard", "Bash", 5, "refuse"),
        ("PreToolUse", "one", "Edit", 9, "continue"),
        ("PreToolUse", "two", "Edit", 3, "refuse"),
        ("Stop", "guard", "", DEFAULT_SECONDS, "refuse"),
    ]
    untrusted = load_settings(str(tmp_path), trusted=False)
    assert [h.command for h in command_hooks(untrusted)] == ["guard"]
    assert "Ignored hooks.PreToolUse, hooks.Stop" in untrusted.warnings[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"PreToolUse": [{"matcher": "x"}]}, "requires either a command"),
        ({"PreToolUse": [{"command": "x", "hooks": [{"command": "y"}]}]}, "not both"),
        ({"PreToolUse": [{"command": "true", "matcher": "("}]}, "is not a valid regular expression"),
        ({"PreToolUse": [{"command": "true", "timout": 3}]}, "timout"),
        ({"PreToolUse": [{"command": "true", "timeout": 0}]}, "timeout"),
        ({"PreToolUse": [{"command": "true", "onFailure": "maybe"}]}, "onFailure"),
        ({"PreToolUse": {"command": "true"}}, "hooks.PreToolUse must be"),
        ({"Stop": [{"hooks": [{"type": "prompt", "command": "x"}]}]}, "prompt"),
    ],
)
def test_invalid_hook_settings_are_errors(home: Path, tmp_path: Path, value: Any, text: str) -> None:
    write_settings(home, {"hooks": value})
    with pytest.raises(ConfigError, match=text.replace("(", "\\(")):
        command_hooks(load_settings(str(tmp_path)))


def test_unknown_hook_event_is_reported(home: Path, tmp_path: Path) -> None:
    write_settings(home, {"hooks": {"PreTool": [{"command": "true"}]}})
    assert "Did you mean 'PreToolUse'" in load_settings(str(tmp_path)).warnings[0]


@pytest.mark.covers("SEC-12")
def test_extension_paths_of_user_and_nearest_project(home: Path, tmp_path: Path) -> None:
    write_settings(home, {"extensions": {"paths": ["~/more", "/abs/one.py", "./near.py"], "disabled": ["a"]}})
    (tmp_path / ".git").mkdir()
    (tmp_path / ".agent" / "extensions").mkdir(parents=True)
    inner = tmp_path / "inner"
    inner.mkdir()

    places = extension_paths(str(inner), load_settings(str(inner)))
    assert places.user == (home / ".agent" / "extensions", home / "more", Path("/abs/one.py"))
    assert places.relative == ("./near.py",)
    assert (places.project, places.trusted) == (tmp_path / ".agent" / "extensions", False)

    TrustStore(UserPaths(home / ".agent")).add(inner)  # does not trust the parent folder
    assert not extension_paths(str(inner), load_settings(str(inner))).trusted
    TrustStore(UserPaths(home / ".agent")).add(tmp_path)
    assert extension_paths(str(inner), load_settings(str(inner))).trusted


def test_user_folder_is_not_a_project(home: Path) -> None:
    (home / ".agent" / "extensions").mkdir(parents=True)
    assert extension_paths(str(home), load_settings(str(home))).project is None


@pytest.mark.parametrize(("value", "depth"), [("", 0), ("2", 2), ("-1", 3), ("many", 3), ("999999999", 3)])
def test_invalid_hook_depth_counts_as_the_limit(value: str, depth: int) -> None:
    assert hook_depth({"MAINSPRING_HOOK_DEPTH": value}) == depth
