"""The string formats that are checked; any other name in `format` is a remark and checks nothing."""

import re
from collections.abc import Callable

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_LOCAL = rf'(?:{_ATOM}(?:\.{_ATOM})*|"(?:[ !#-\[\]-~]|\\[ -~])*")'
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_URI_TEXT = r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
_AUTHORITY = r"(?:[^@\[\]]*@)?(?:\[(?P<ip>[^\[\]]*)\]|[^@:\[\]]*)(?::[0-9]*)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_IPV4 = r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}"


def _is_email(text: str) -> bool:
    local, at, domain = text.rpartition("@")
    if not at or len(local) > 64 or len(domain) > 255 or not re.fullmatch(_LOCAL, local):
        return False
    if domain.startswith("[") and domain.endswith("]"):
        inner = domain[1:-1]
        return _is_ipv6(inner[5:]) if inner.lower().startswith("ipv6:") else _is_ipv4(inner)
    return re.fullmatch(_DOMAIN, domain) is not None


def _is_uri(text: str) -> bool:
    scheme = re.match(_SCHEME, text)
    if not scheme or not re.fullmatch(_URI_TEXT, text):
        return False
    rest, _, fragment = text[scheme.end() :].partition("#")
    if "#" in fragment:
        return False
    if not rest.startswith("//"):
        return "[" not in rest and "]" not in rest
    authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0]
    tail = rest[2 + len(authority) :]
    found = re.fullmatch(_AUTHORITY, authority)
    if not found or "[" in tail or "]" in tail:
        return False
    host = found["ip"]
    return (
        host is None or _is_ipv6(host) or re.fullmatch(r"v[0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+", host) is not None
    )


def _is_date(text: str) -> bool:
    if not re.fullmatch(_DATE, text):
        return False
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:])
    if not 1 <= month <= 12:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    return 1 <= day <= days


def _is_time(text: str) -> bool:
    found = re.fullmatch(_TIME, text)
    if not found:
        return False
    hour, minute, second = int(found[1]), int(found[2]), int(found[3])
    away_hour, away_minute = int(found[5] or 0), int(found[6] or 0)
    if hour > 23 or minute > 59 or second > 60 or away_hour > 23 or away_minute > 59:
        return False
    if second < 60:
        return True
    away = (away_hour * 60 + away_minute) * (-1 if found[4] == "-" else 1)
    return (hour * 60 + minute - away) % (24 * 60) == 23 * 60 + 59  # a leap second ends a UTC day


def _is_date_time(text: str) -> bool:
    return len(text) > 11 and text[10] in "Tt" and _is_date(text[:10]) and _is_time(text[11:])


def _is_uuid(text: str) -> bool:
    return re.fullmatch(_UUID, text) is not None


def _is_ipv4(text: str) -> bool:
    return re.fullmatch(_IPV4, text) is not None


def _is_ipv6(text: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address

    try:
        IPv6Address(text)
    except (AddressValueError, ValueError):
        return False
    return "%" not in text


SUPPORTED_FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "email": _is_email,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "time": _is_time,
    "uri": _is_uri,
    "uuid": _is_uuid,
}
"""Name of a format to the test that a string of it passes."""
