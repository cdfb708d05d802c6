"""Secrets out of text before anybody reads it: logs, errors, sessions, telemetry."""

from __future__ import annotations

import re

MASK = "[redacted]"

_KEYS = re.compile(
    r"""(?x)
    \b(?:
        sk-(?:ant-|proj-|or-|svcacct-)?[A-Za-z0-9_-]{6,}   # OpenAI, Anthropic, OpenRouter and those who copy them
      | (?:gsk|csk|xai|nvapi|hf|r8|tgp|pplx|fw|key|lsv2_pt|lsv2_sk)[-_][A-Za-z0-9_-]{16,}
      | (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,}
      | AIza[0-9A-Za-z_-]{30,} | ya29\.[0-9A-Za-z_-]{20,}
      | (?:AKIA|ASIA)[0-9A-Z]{16}
      | xox[abprs]-[A-Za-z0-9-]{10,}
      | eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}
    )"""
)
_HEADERS = re.compile(
    r"""(?ix)
    ( ["']? (?: (?:proxy-)?authorization | x-api-key | api-key | x-goog-api-key | ocp-apim-subscription-key | (?:set-)?cookie )
      ["']? \s* [:=] \s* ["']? (?: (?:bearer|basic|token) \s+ )? )
    ( [^\s"',;}\]]+ )"""
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)(?=[A-Za-z0-9._~+/=-]*\d)[A-Za-z0-9._~+/=-]{12,}")
_FIELDS = re.compile(
    r"""(?ix)
    ( ["']? \b [a-z0-9_-]* (?: api[_-]?key | secret | password | passwd | access[_-]?token | refresh[_-]?token
      | client[_-]?secret | private[_-]?key ) ["']? \s* [:=] \s* ["']? )
    ( [^\s"',;&}\]]{6,} )"""
)
_QUERY = re.compile(r"(?i)([?&](?:key|api[_-]?key|access_token|token|sig|signature|code)=)[^&\s\"']+")
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]+:[^\s/@]+@")


def redact(text: str, *secrets: str) -> str:
    """The text with everything masked that looks like a key, a token or a password.

    Args:
        text: Any text.
        secrets: Values known to be secret, masked wherever they stand.
    """
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, MASK)
    text = _KEYS.sub(MASK, text)
    text = _HEADERS.sub(rf"\g<1>{MASK}", text)
    text = _BEARER.sub(rf"\g<1>{MASK}", text)
    text = _FIELDS.sub(rf"\g<1>{MASK}", text)
    text = _QUERY.sub(rf"\g<1>{MASK}", text)
    return _USERINFO.sub(rf"\g<1>{MASK}@", text)
