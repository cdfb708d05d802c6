"""The viewer: a page on this machine that shows runs as they happen, from what is received and what is stored."""

from mainspring.app.servers.viewer.model import Detail, RunSource, Summary, ViewEvent, ViewSpan
from mainspring.app.servers.viewer.server import Viewer

__all__ = ["Detail", "RunSource", "Summary", "ViewEvent", "ViewSpan", "Viewer"]
