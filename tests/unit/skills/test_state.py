"""State of skills: origin, enabled or disabled, and usage."""

import json
import stat
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from mainspring.errors import ConfigError
from mainspring.skills.state import STATE_FILE_NAME, InstallOrigin, SkillState, SkillStateFile, UsageRecord
from tests.requires import on_posix

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ORIGIN = InstallOrigin(
    url="https://example.org/x", ref="v1", path="a", commit="c" * 40, digest="d", installed=NOON, updated=NOON
)


@pytest.mark.covers("SKL-36")
def test_state_is_shared_between_instances(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    first = SkillStateFile(folder)
    assert first.entries() == {}
    first.record("a", ORIGIN)
    first.set_enabled("a", False)
    first.set_enabled("b", True)
    first.record_use("a", NOON)
    first.record_use("a", NOON - timedelta(days=1))

    second = SkillStateFile(folder)
    assert second.entries() == {
        "a": SkillState(origin=ORIGIN, enabled=False, usage=UsageRecord(2, NOON)),
        "b": SkillState(enabled=True),
    }
    assert second.enabled_and_disabled() == (("b",), ("a",))
    assert second.last_used() == {"a": NOON.timestamp()}
    second.set_enabled("b", None)
    second.forget("a")
    assert SkillStateFile(folder).entries() == {}


@pytest.mark.covers("SKL-36")
@on_posix
def test_only_the_owner_can_access_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    SkillStateFile(folder).record_use("a")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / STATE_FILE_NAME).stat().st_mode) == 0o600
    assert [p.name for p in folder.iterdir()] == [STATE_FILE_NAME]
    assert json.loads((folder / STATE_FILE_NAME).read_text())["version"] == 1


def test_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles" / "state.json"
    elsewhere.parent.mkdir()
    elsewhere.write_text('{"version": 1}')
    (tmp_path / STATE_FILE_NAME).symlink_to(elsewhere)
    SkillStateFile(tmp_path).set_enabled("a", False)
    assert (tmp_path / STATE_FILE_NAME).is_symlink()
    assert '"a"' in elsewhere.read_text()


@pytest.mark.covers("SKL-36")
def test_concurrent_writes_lose_nothing(tmp_path: Path) -> None:
    def write_state(number: int) -> None:
        for _ in range(5):
            SkillStateFile(tmp_path).record_use("a")
        SkillStateFile(tmp_path).set_enabled(f"s{number}", True)

    threads = [threading.Thread(target=write_state, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = SkillStateFile(tmp_path).entries()
    assert entries["a"].usage is not None
    assert entries["a"].usage.count == 20
    assert set(entries) == {"a", "s0", "s1", "s2", "s3"}


@pytest.mark.covers("SKL-36")
@pytest.mark.parametrize("text", ["{", "[]", '{"skills": {"a": {"enabled": 3}}}', '{"version": 2}', "\xff"])
def test_invalid_file_is_reported_and_unchanged(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE_FILE_NAME).write_bytes(text.encode("latin-1"))
    registry = SkillStateFile(tmp_path)
    for act in (
        registry.entries,
        registry.enabled_and_disabled,
        lambda: registry.set_enabled("a", True),
        lambda: registry.record("a", ORIGIN),
    ):
        with pytest.raises(ConfigError, match=r"\.registry\.json"):
            act()
    registry.record_use("a")  # usage is only a hint: errors are ignored
    assert registry.last_used() == {}
    assert (tmp_path / STATE_FILE_NAME).read_bytes() == text.encode("latin-1")


def test_state_without_a_folder_is_kept_in_memory() -> None:
    registry = SkillStateFile(None)
    registry.record_use("a", NOON.astimezone(timezone(timedelta(hours=5))))
    assert registry.entries() == {"a": SkillState(usage=UsageRecord(1, NOON))}


def test_write_error_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        SkillStateFile(tmp_path / "file").set_enabled("a", True)
    SkillStateFile(tmp_path / "file").record_use("a")


def test_oldest_usage_records_are_dropped(tmp_path: Path) -> None:
    skills: dict[str, dict[str, object]] = {
        f"s{n}": {"usage": {"count": 1, "last": (NOON + timedelta(days=n)).isoformat()}} for n in range(1_000)
    }
    skills["s0"]["enabled"] = True
    (tmp_path / STATE_FILE_NAME).write_text(json.dumps({"version": 1, "skills": skills}))
    SkillStateFile(tmp_path).record_use("new", NOON + timedelta(days=2_000))
    entries = SkillStateFile(tmp_path).entries()
    assert entries["s0"] == SkillState(enabled=True)
    assert len(entries) == 1_001
