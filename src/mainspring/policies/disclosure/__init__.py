"""Tools of MCP servers that are named to the model first, and shown when it looks for them."""

from mainspring.policies.disclosure.plug import SEARCH, Disclosure, DisclosureMode

__all__ = ["SEARCH", "Disclosure", "DisclosureMode"]
