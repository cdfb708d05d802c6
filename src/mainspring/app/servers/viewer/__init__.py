"""The telemetry viewer: a local web page that shows runs live, from received spans and from saved sessions."""

from mainspring.app.servers.viewer.model import RunDetail, RunSource, Summary, ViewEvent, ViewSpan
from mainspring.app.servers.viewer.server import Viewer

__all__ = ["RunDetail", "RunSource", "Summary", "ViewEvent", "ViewSpan", "Viewer"]
