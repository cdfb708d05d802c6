"""Secrets out of text before anybody reads it: logs, errors, sessions, telemetry."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, cast

MASK = "[redacted]"

_KEYS = r"""(?x)
    \b(?:
        sk-(?:ant-|proj-|or-|svcacct-)?[A-Za-z0-9_-]{6,}   # OpenAI, Anthropic, OpenRouter and those who copy them
      | (?:gsk|csk|xai|nvapi|hf|r8|tgp|pplx|fw|key|lsv2_pt|lsv2_sk)[-_][A-Za-z0-9_-]{16,}
      | (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
      | AIza[0-9A-Za-z_-]{30,} | ya29\.[0-9A-Za-z_-]{20,}
      | (?:AKIA|ASIA)[0-9A-Z]{16}
      | xox[abprs]-[A-Za-z0-9-]{10,}
      | eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}
    )"""
_HEADERS = r"""(?ix)
    ( ["']? (?: (?:proxy-)?authorization | x-api-key | api-key | x-goog-api-key | ocp-apim-subscription-key | (?:set-)?cookie )
      ["']? \s* [:=] \s* ["']? (?: (?:bearer|basic|token) \s+ )? )
    ( [^\s"',;}\]]+ )"""
_BEARER = r"(?i)\b(bearer\s+)(?=[A-Za-z0-9._~+/=-]*\d)[A-Za-z0-9._~+/=-]{12,}"
_FIELDS = r"""(?ix)
    ( ["']? \b [a-z0-9_-]* (?: api[_-]?key | secret | password | passwd | access[_-]?token | refresh[_-]?token
      | client[_-]?secret | private[_-]?key ) ["']? \s* [:=] \s* ["']? )
    (?!\[redacted) ( [^\s"',;&}\]]{6,} )"""
_QUERY = r"(?i)([?&](?:key|api[_-]?key|access_token|token|sig|signature|code)=)[^&\s\"']+"
_USERINFO = r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/]+@"
_PRIVATE = r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"

_ALL = (
    (_KEYS, MASK),
    (_HEADERS, rf"\g<1>{MASK}"),
    (_BEARER, rf"\g<1>{MASK}"),
    (_FIELDS, rf"\g<1>{MASK}"),
    (_QUERY, rf"\g<1>{MASK}"),
    (_USERINFO, rf"\g<1>{MASK}@"),
    (_PRIVATE, MASK),
)

_SURE = r"""(?x)
    \b(?:
        (?:sk|gsk|csk|xai|nvapi|hf|r8|tgp|pplx|fw|lsv2_pt|lsv2_sk)[-_](?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{24,}
      | (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,} | github_pat_[A-Za-z0-9_]{30,}
      | AIza[0-9A-Za-z_-]{30,} | ya29\.[0-9A-Za-z_-]{20,}
      | (?:AKIA|ASIA)[0-9A-Z]{16}
      | xox[abprs]-(?=[A-Za-z-]*\d)[A-Za-z0-9-]{20,}
      | eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}
    )"""
KEY_MARKS = (
    b"sk-", b"sk_", b"xai-", b"nvapi-", b"hf_", b"r8_", b"tgp_", b"pplx-", b"fw_", b"lsv2_pt", b"ghp_", b"gho_", b"ghu_", b"ghs_",
    b"ghr_", b"github_pat_", b"AIza", b"ya29.", b"AKIA", b"ASIA", b"xox", b"eyJ",
)  # fmt: skip
"""What a text must hold for `redact_keys` to find a key: a look for these is much cheaper."""


def redact_keys(text: str, *secrets: str) -> str:
    """The text with only that masked which is surely a secret: known values, and long keys of a known shape.

    For text that must stay what it is otherwise: a conversation, source code.

    Args:
        text: Any text.
        secrets: Values known to be secret, masked wherever they stand.
    """
    return _compiled(_SURE).sub(MASK, _without(text, secrets))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when first needed: most runs start without any secret to mask, and compiling takes milliseconds."""
    return re.compile(pattern)


def _without(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, MASK)
    return text


def masked_repr(value: Any, *secret: str) -> str:
    """How settings are shown to people: what holds a secret is masked, what is not set is left out.

    Args:
        value: A struct.
        secret: Its fields that hold secrets; of a mapping the names stay.
    """
    shown: list[str] = []
    for name in value.__struct_fields__:
        given = getattr(value, name)
        if given is None or given == {}:
            continue
        if name in secret and given:
            given = dict.fromkeys(cast("dict[str, Any]", given), MASK) if isinstance(given, dict) else MASK
        shown.append(f"{name}={given!r}")
    return redact(f"{type(value).__name__}({', '.join(shown)})")


def redact(text: str, *secrets: str) -> str:
    """The text with everything masked that looks like a key, a token or a password.

    Args:
        text: Any text.
        secrets: Values known to be secret, masked wherever they stand.
    """
    text = _without(text, secrets)
    for pattern, replacement in _ALL:
        text = _compiled(pattern).sub(replacement, text)
    return text
