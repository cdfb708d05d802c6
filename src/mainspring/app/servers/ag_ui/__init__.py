"""The AG-UI protocol, and the stream of UI messages of the Vercel AI SDK."""

from __future__ import annotations

from mainspring.lazy import TYPE_CHECKING, lazy_exports

if TYPE_CHECKING:
    from mainspring.app.servers.ag_ui.ui_messages import (
        DONE as DONE,
        UI_MESSAGE_HEADERS as UI_MESSAGE_HEADERS,
        UiMessageEncoder as UiMessageEncoder,
    )

lazy_exports(
    __name__,
    {
        "ui_messages": "DONE UI_MESSAGE_HEADERS UiMessageEncoder",
    },
)
