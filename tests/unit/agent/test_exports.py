"""Public names of `mainspring.agent`."""

import pytest

from mainspring import agent as runtime


def test_names_resolve() -> None:
    assert {"Agent", "create_agent"} <= set(dir(runtime))
    unknown = "no_such_name"
    with pytest.raises(AttributeError, match=unknown):
        getattr(runtime, unknown)
