"""What `mainspring.runtime` offers."""

import pytest

from mainspring import runtime
from mainspring.runtime import AppConfig, load_settings


def test_names_resolve() -> None:
    assert AppConfig().model is None
    assert callable(load_settings)
    assert {"Agent", "AppConfig"} <= set(runtime.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = runtime.no_such_name
