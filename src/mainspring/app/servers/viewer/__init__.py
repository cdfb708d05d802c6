"""The viewer: a page on this machine that shows runs as they happen, from what is received and what is stored."""

from mainspring.app.servers.viewer.model import RunDetail, RunSource, Summary, ViewEvent, ViewSpan
from mainspring.app.servers.viewer.server import Viewer

__all__ = ["RunDetail", "RunSource", "Summary", "ViewEvent", "ViewSpan", "Viewer"]
