"""The versions of interfaces that requests are written for, in one place. A setting overrides each.

They are pinned so that a change at a host does not change what is sent. What a host does not take any more in one of them is
left out after its refusal (`WireProtocol.without`), a version it does not know included.
"""

from __future__ import annotations

ANTHROPIC = "2023-06-01"
"""Header ``anthropic-version``."""

AZURE_CHAT = "2024-06-01"
"""Query ``api-version`` of a deployment's Chat Completions."""

AZURE_RESPONSES = "2024-12-01-preview"
"""Query ``api-version`` of Azure's Responses. Hosts of the ``v1`` interface that want none get none after their refusal."""

GEMINI = "v1beta"
"""In the path: ``v1`` lacks thinking, tools in JSON Schema and the previews."""

GITHUB = "2022-11-28"
"""Header ``x-github-api-version``."""
