"""Tests that every implementation of a protocol must pass: subclass one in your tests, and pytest runs them. Requires pytest.

```python
from mainspring.testing.contracts import AsyncSessionStoreContract

class TestMyStore(AsyncSessionStoreContract):
    async def create_store(self, folder):
        return MyStore(folder / "sessions.db")
```

Asynchronous tests each run in a separate event loop, so no plugin of pytest is required.
"""

from mainspring.testing.contracts.environments import ExecutionEnvContract
from mainspring.testing.contracts.providers import ModelProviderContract
from mainspring.testing.contracts.session_stores import AsyncSessionStoreContract, SessionStoreContract
from mainspring.testing.contracts.transports import TransportContract

__all__ = [
    "AsyncSessionStoreContract",
    "ExecutionEnvContract",
    "ModelProviderContract",
    "SessionStoreContract",
    "TransportContract",
]


def __dir__() -> list[str]:
    return __all__
