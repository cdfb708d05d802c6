"""Public names of `mainspring.agent`."""

import pytest

from mainspring import agent as runtime


def test_names_resolve() -> None:
    assert {"Agent", "create_agent"} <= set(runtime.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = runtime.no_such_name
