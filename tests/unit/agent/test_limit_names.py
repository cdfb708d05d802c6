"""A limit has one name: as an option, a status, a flag, a setting, and a budget."""

from typing import get_args

from mainspring import Budget
from mainspring.app.cli.agent_flags import AGENT_FLAGS
from mainspring.app.workspace.settings.schema import agent_key, iter_agent_settings
from mainspring.events import RunStatus

LIMITS = {name for name in get_args(RunStatus) if name.startswith("max_")}


def test_limits_have_the_same_name_everywhere() -> None:
    settings = {name: (agent_key(name, setting), setting.flag) for name, _, setting in iter_agent_settings()}
    flags = {flag.flag for flag in AGENT_FLAGS}

    assert set(Budget.__struct_fields__) == LIMITS
    assert len(LIMITS) == 4
    for name in LIMITS:
        flag = "--" + name.replace("_", "-")
        head, *rest = name.split("_")
        assert settings[name] == (head + "".join(word.capitalize() for word in rest), flag)
        assert flag in flags
