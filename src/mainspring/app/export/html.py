"""A session as one HTML page, which works from disk, loads nothing, and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from mainspring.app.export.format import (
    KIND_LABELS,
    call_headline,
    edit_diff,
    format_arguments,
    format_time,
    format_token_usage,
    format_usage_cost,
    message_origin,
)
from mainspring.app.workspace.saved_sessions import Transcript, TranscriptCall
from mainspring.lazy import lazy_function
from mainspring.messages import ImageBlock
from mainspring.sessions.transcript import TranscriptItem
from mainspring.text import escape_invisible

if TYPE_CHECKING:
    from html import escape
else:  # import on use, because listing sessions needs no page
    escape = lazy_function("html", "escape")

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1`*[ \t]*$\n?", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_TITLE = 80


def render_html(transcript: Transcript) -> str:
    """Render a session as an HTML page.

    Args:
        transcript: The session, with secrets redacted.
    """
    style, script = _read_asset("page.css"), _read_asset("page.js")
    policy = f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    title = " ".join(transcript.title.split()) or _first_words(transcript.items) or "Session"
    usage = transcript.usage
    facts = [
        transcript.cwd,
        format_time(transcript.created),
        format_token_usage(usage),
        format_usage_cost(usage),
        transcript.id,
    ]
    leaves = _branch_ends(transcript.items)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">',
        f"<title>{_text(title)}</title><style>{style}</style></head><body>",
        f'<header><h1>{_text(title)}</h1><p class="facts">{" · ".join(_text(f) for f in facts if f)}</p>',
        *[f'<p class="problem">{_text(problem)}</p>' for problem in transcript.problems],
        *_toolbar(leaves),
        '</header><main id="items">',
        *[_item(item) for item in transcript.items],
        "</main><footer>Made with Mainspring. Keys and passwords were redacted.</footer>",
        f"<script>{script}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _toolbar(leaves: Sequence[tuple[TranscriptItem, str]]) -> Iterator[str]:
    """Return the toolbar for search, folding, and branches; it is visible if scripts run."""
    yield '<div class="tools" hidden><input id="search" type="search" placeholder="Search" aria-label="Search">'
    yield '<output id="found"></output><button id="open" type="button">Expand All</button><button id="close" type="button">Collapse All</button>'
    if len(leaves) > 1:
        yield '<label>Branch <select id="branch"><option value="">All branches</option>'
        for leaf, name in leaves:
            chosen = " selected" if leaf.active else ""
            yield f'<option value="{escape(leaf.id)}"{chosen}>{_text(name)}</option>'
        yield "</select></label>"
    yield "</div>"


def _branch_ends(items: Sequence[TranscriptItem]) -> list[tuple[TranscriptItem, str]]:
    """Return the last item of each branch, with a display name; the current branch first."""
    parents = {item.parent for item in items}
    by_id = {item.id: item for item in items}
    found: list[tuple[TranscriptItem, str]] = []
    for leaf in items:
        if leaf.id in parents:
            continue
        words, at = leaf.label or leaf.text, leaf
        while not words and at.parent:
            at = by_id[at.parent]
            words = at.label or at.text
        name = " ".join(words.split())[:60] or leaf.id
        found.append((leaf, f"{name} (current)" if leaf.active else name))
    return sorted(found, key=lambda pair: not pair[0].active)


def _item(item: TranscriptItem) -> str:
    classes = f"item {item.kind}" + ("" if item.active else " left")
    facts = (
        message_origin(item),
        item.model,
        format_time(item.when),
        format_token_usage(item.usage),
        format_usage_cost(item.usage),
    )
    label = f'<mark class="label">{_text(item.label)}</mark>' if item.label else ""
    parts = [
        f'<article class="{classes}" id="{escape(item.id)}" data-parent="{escape(item.parent or "")}">',
        f'<h2>{KIND_LABELS[item.kind]}{label}<span class="facts">{" · ".join(_text(f) for f in facts if f)}</span></h2>',
    ]
    if item.thinking:
        parts.append(f"<details><summary>Thinking</summary><pre>{_text(item.thinking)}</pre></details>")
    if item.text:
        parts.append(f'<div class="text">{_render_text(item.text)}</div>')
    parts += [_image(image) for image in item.images]
    parts += [_call(call) for call in item.calls]
    if item.error:
        parts.append(f'<p class="problem">{_text(item.error)}</p>')
    return "".join(parts) + "</article>"


def _call(call: TranscriptCall) -> str:
    state = "no result" if call.output is None else "failed" if call.is_error else "ok"
    seconds = f", {call.seconds:.1f}s" if call.seconds >= 0.05 else ""
    difference = edit_diff(call)
    parts = [
        f'<details class="call{" failed" if call.is_error else ""}"{" open" if difference else ""}>',
        f'<summary><code>{_text(call_headline(call))}</code> <span class="facts">{state}{seconds}</span></summary>',
        f'<pre class="arguments">{_text(format_arguments(call))}</pre>',
    ]
    if difference:
        parts.append(f'<pre class="diff">{_diff(difference)}</pre>')
    if call.output:
        parts.append(f"<pre>{_text(call.output)}</pre>")
    parts += [_image(image) for image in call.images]
    return "".join(parts) + "</details>"


def _diff(text: str) -> str:
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines: list[str] = []
    for line in text.splitlines():
        kind = kinds.get(line[:1])
        lines.append(f'<span class="{kind}">{_text(line)}</span>' if kind else _text(line))
    return "\n".join(lines)


def _render_text(text: str) -> str:
    """Escape a text and mark up its code; other Markdown stays as typed."""
    parts: list[str] = []
    at = 0
    for match in _FENCE.finditer(text):
        parts += [_render_inline(text[at : match.start()]), f"<pre><code>{_text(match[3])}</code></pre>"]
        at = match.end()
    return "".join([*parts, _render_inline(text[at:])])


def _render_inline(text: str) -> str:
    escaped = _CODE.sub(r"<code>\1</code>", _text(text))
    return _BOLD.sub(r"<strong>\1</strong>", escaped)


def _image(image: ImageBlock) -> str:
    if image.media_type not in _IMAGES or not _BASE64.fullmatch(image.data):
        return f"<p>[{_text(image.media_type)}]</p>"
    return f'<img alt="" src="data:{image.media_type};base64,{"".join(image.data.split())}">'


def _text(text: str) -> str:
    return escape(escape_invisible(text, prose=True))


def _first_words(items: Sequence[TranscriptItem]) -> str:
    prompt = next((item.text for item in items if item.kind == "user" and item.text), "")
    return " ".join(prompt.split())[:_TITLE]


def _read_asset(name: str) -> str:
    return files("mainspring.app.export").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
