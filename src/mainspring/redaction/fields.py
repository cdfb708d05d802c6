"""Find secrets by their names: ``DB_PASSWORD=...``, ``"apiKey": "..."``, ``--token ...``, ``Authorization: ...``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Literal

from mainspring.redaction.shapes import REFERENCE, Span, compile_regex, find_logins, is_reference, to_lower

Strength = Literal["", "weak", "key", "strong", "password"]
"""How certainly a name is that of a secret: the value of a ``weak`` name must look random, that of a ``strong`` one may be any word."""

Place = Literal["data", "shell", "quoted", "bare"]
"""The context of a value: a structure or a shell assignment, in which it is a literal; quotes; or bare text that may be code."""

_NOUNS = {
    "pass": "(?:word|wd|phrase|wort|e(?= ?:))?",
    "key": "(?:[-_](?:base|data))?",
    "credential": "s?",
    **dict.fromkeys(("pwd", "pw", "psk", "secret", "token", "auth", "cookie", "honeycomb-team", "art-api", "_pat", "_sas"), ""),
}  # fmt: skip
"""Endings of the names of secrets: the beginning of the noun, and the pattern of its rest."""
_HINTS = ("pass", "pwd", "secret", "token", "key", "credential", "auth", "cookie", "_pw", "_pat", "_sas")
_SECRETS = ("secret", "secrets", "credential", "credentials", "authorization", "cookie")
_ENDS = frozenset([("key", "base"), ("honeycomb", "team"), ("art", "api")])
_PASSWORDS = ("password", "passwd", "passphrase", "pwd")
_HARMLESS_KEYS = frozenset(
    "public primary foreign sort partition cache group row map index hash lookup unique object registry hot short composite "
    "natural surrogate range translation message i18n locale label field column property dict json sorting arrow enter shift "
    "control alt meta ctrl escape tab space up down left right any on verify host known query data metadata header attribute idempotency".split()
)
_KEYS = frozenset(
    "api access secret private signing encryption encrypt decryption master account auth service shared deploy storage "
    "subscription app application consumer ingestion license licence client admin root session cipher aes hmac jwt webhook ingest rest "
    "read write bot server project publishable function functions connection ssh gpg pgp tls ssl rsa sas provisioning "
    "integration personal user team org organization developer merchant seed wallet recovery backup vault preshared".split()
)
_HARMLESS_TOKENS = frozenset(
    "page next continuation cursor sync eos bos pad unk mask sep cls stop start end max min special per input output cached "
    "prompt completion total last first prev previous sos image audio video text json string number ident lex lookahead "
    "cancel cancellation".split()
)
_HOSTS_OF_CODE = frozenset("github gh gitlab azure ado devops ext bitbucket access personal".split())
_RANDOM_LENGTH = 16
_MIN_CHARS = 6

_STAND_INS = frozenset(
    "your my our the a an some any this that here there is of for in to from with and or not no api app access auth key keys token tokens secret secrets "
    "password passwd pass passphrase pwd user username client id name value values placeholder example sample dummy fake test testing "
    "changeme change me insert enter replace put put_your paste todo tbd none null nil undefined true false yes off on required optional string str "
    "text bytes int integer number float bool boolean object array list dict any char varchar nvarchar uuid date type unknown empty default "
    "redacted hidden masked removed omitted missing invalid expired wrong new old current confirm forgot reset strong weak "
    "admin root guest postgres postgresql mysql mariadb redis mongo mongodb rabbitmq sqlite oracle localhost development "
    "production staging local dev prod bearer basic digest bcrypt argon base optional secretstr securestring option self cls "
    "must should can will at least at_least characters long super login signin field input label prompt hash hashed salt "
    "environment env variable config settings file path url credential credentials authorization cookie session private public "
    "process getenv os environ lorem ipsum foo bar baz qux foobar abc abcdef xyz xxx xxxx openai anthropic github gitlab slack aws google azure".split()
)
_CALL = r"[A-Za-z_][\w.:]{0,80}(?:\(|\[).*"
_DOTTED = r"[A-Za-z_]\w{0,60}(?:(?:\.|->|::|\?\.)[A-Za-z_]\w{0,60})+"


@lru_cache(maxsize=4096)
def strength_of(name: str) -> Strength:
    """Return how certainly a name is that of a secret.

    Args:
        name: Name of a variable, a field, a header, or an option: in any case, with ``_``, ``-`` or ``.`` between its words, or camel
            case.
    """
    upper = name.isupper()
    words = [w.lower() for w in compile_regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+").findall(name) if not w.isdigit()]
    if not words:
        return ""
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last.endswith(_PASSWORDS) or last in {"storepass", "keypass", "passwort", "passe"}:
        return "password"
    if last in {"pw", "psk"}:  # random text may end with one of them
        return "password" if name.lower() == last or name[-len(last) - 1] in "_-." else ""
    if last == "pass":
        return "password" if before else "weak"
    if (
        last.endswith(_SECRETS)
        or name == "_auth"
        or tuple(words[-2:]) in _ENDS
        or words[-3:] == ["client", "key", "data"]
    ):
        return "strong"
    if last.endswith("token"):
        return "" if before in _HARMLESS_TOKENS else "strong" if before or upper or last != "token" else "weak"
    if last.endswith("key"):
        return _strength_of_key(last.removesuffix("key") or before, named=upper or "api" in words)
    return "weak" if last in {"auth", "sas"} or (last == "pat" and before in _HOSTS_OF_CODE) else ""


def _strength_of_key(kind: str, *, named: bool) -> Strength:
    """Do the same for a key of some kind; ``named`` means that it is the variable of a program or belongs to an API."""
    if not kind or kind in _HARMLESS_KEYS:
        return ""
    return "strong" if kind in _KEYS else "key" if named else ""


def is_secret_value(value: str, strength: Strength, place: Place) -> bool:
    """Return True if a value with such a name is a secret: not a placeholder, a reference, a path, a type, or another expression."""
    shortest = _MIN_CHARS if strength != "weak" else _RANDOM_LENGTH if place in {"bare", "quoted"} else 10
    if not strength or len(value) < shortest or is_reference(value):
        return False
    digits = len(compile_regex("[^0-9]+").sub("", value))
    if digits == len(value) or compile_regex(r"[0-9][0-9_.,:TZ+/-]*").fullmatch(value):
        return strength == "password" and place != "bare"
    if any(c.isspace() for c in value):
        return place in {"data", "shell"} and strength == "password" and bool(digits) and value.count(" ") < 4
    if is_stand_in(value) or not digits and _is_ordinary(value, strength, place):
        return False
    if place in {"bare", "shell"} and _is_expression(value, place):
        return False
    return strength != "weak" or compile_regex(r"(?=.*[A-Za-z]).*[0-9]").match(value) is not None


def _is_expression(value: str, place: Place) -> bool:
    """Return True if a value without quotes is code: a call, or the name of a variable."""
    if compile_regex(_CALL).fullmatch(value):
        return place == "bare" or value[-1] in ")];,"
    if place == "bare" and (
        compile_regex(_DOTTED).fullmatch(value) or compile_regex(r"[A-Za-z_]+[0-9]{0,2}").fullmatch(value)
    ):
        return _names_a_secret(value)
    return False


def _names_a_secret(value: str) -> bool:
    """Return True if a name contains the name of a secret, so that it is a variable and not a value."""
    return "." in value or "->" in value or "::" in value or any(noun in value.lower() for noun in _HINTS)


def _is_ordinary(value: str, strength: Strength, place: Place) -> bool:
    """Return True if a value without digits is a word, a name, or a placeholder."""
    if strength in {"weak", "key"} or place == "bare":
        return True
    if place in {"data", "shell"}:
        return len(value) < 8 and value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    symbols = sum(not (c.isalnum() or c in "_-.,:;/ ()[]{}<>'\"?!") for c in value)
    turns = len(compile_regex(r"[a-z][A-Z]|[A-Z]{2}[a-z]").findall(value))
    return not symbols and turns < 4


def is_stand_in(value: str) -> bool:
    """Return True if each of its words is a placeholder for a secret, for example, ``YOUR_API_KEY``."""
    if compile_regex(r"[^\w .,:;/()<>\[\]{}'!?-]").search(value) or len(compile_regex("[0-9]").findall(value)) > 2:
        return False
    words = [w.lower() for w in compile_regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+").findall(value)]
    return all(word in _STAND_INS or len(set(word)) == 1 for word in words)


# --- in text ----------------------------------------------------------------------------------------------------------------

_QUOTE = r"\\{0,7}[\"'`]"
_AFTER_NAME = rf"(?:[_-]?[0-9]{{1,2}})?(?:{_QUOTE}|\*\*)?\]?[ \t]{{0,8}}"
_ASSIGN = r"(?P<sign>=>|:=|\?=|\+=|==?|!=|:)"
_VALUE = (
    r"(?:(?P<esc>\\{1,7})(?P<q1>[\"'])(?P<v1>[^\"'\\]{1,1024})"
    r"|(?P<pre>[rbfuN]{0,2})\"(?P<v2>(?:[^\"\\\r\n]|\\.){1,1024})\""
    r"|[rbfuN]{0,2}'(?P<v3>(?:[^'\\\r\n]|\\.){1,1024})'"
    r"|`(?P<v4>[^`\\\r\n]{1,1024})`"
    r"|[\"']?(?P<v5>[^\s\"'`\\]{1,1024}(?:\\(?![nrt\"'\\])[^\s\"'`\\]{1,1024}){0,8}))"
)
_COLOR = r"(?:(?:\x1b|\\u001b)\[[0-9;]{0,12}m)?"
_TAIL = rf"{_AFTER_NAME}{_ASSIGN}(?:[ \t][|>][+-]?(?:\\{{1,3}}n|\s)|[ \t]!!str|\*\*|\{{(?=[^{{}}\s]{{6,}}\}};))?\s{{0,40}}{_COLOR}{_VALUE}"
_TYPED = rf"(?::|[ \t])[ \t]{{0,4}}&?[A-Za-z][\w.<>\[\]|?' ]{{0,40}}?[ \t]{{0,4}}:?=[ \t]{{0,4}}(?={_QUOTE}){_VALUE}"
"""Matches, for example, ``password: str = "..."``."""
_FLAG = rf"(?:{_QUOTE}?,?[ \t\r\n]{{1,8}}|{_QUOTE},(?={_QUOTE}))(?![-|&>]){_VALUE}"
_ARGUMENT = rf"(?:{_QUOTE},[ \t]{{0,4}}|[ \t]{{1,4}})(?={_QUOTE}){_VALUE}"
"""Matches, for example, ``define('DB_PASSWORD', '...')`` and ``setx DB_PASSWORD "..."``."""
_PAIR = (
    rf"{_QUOTE}?,?(?: \{{)?(?:\\{{1,3}}n|\s){{0,40}}{_QUOTE}?(?:value|default){_QUOTE}?\s{{0,4}}[:=]\s{{0,4}}{_VALUE}"
)
_XML = rf"(?:{_QUOTE}|\s[^<>]{{0,200}})?(?:</key>(?:\\{{1,3}}n|\s){{0,40}}<string)?>(?:<!\[CDATA\[)?(?P<v5>[^<\s]{{4,1024}}?)(?:\]\]>)?<"
_LOOSE = (
    rf"{_AFTER_NAME}(?:[ \t|>:`-]|is\b|%3[ADad]|\\t|for [a-z]{{1,20}}){{1,8}}"
    r"(?P<v5>(?=[A-Za-z+/_-]{0,24}[0-9][A-Za-z+/_-]{0,24}[0-9])(?=[a-z0-9+/_-]{0,24}[A-Z])(?=[A-Z0-9+/_-]{0,24}[a-z])[A-Za-z0-9+/_-]{16,256}={0,2}"
    r"|(?=[0-9]{0,24}[a-f])(?=[a-f]{0,24}[0-9])[0-9a-f]{32,256})(?![A-Za-z0-9./])"
)
"""After a space or a bar, only a random-looking text is a value."""
_NETRC = r"[ \t\r\n]{1,8}(?P<v5>[^\s\"'\\]{1,256})"
_SAID = rf"(?: (?:for|of|to)(?: the)? [\w-]{{1,30}})?(?: (?:(?:is|was)(?: now)?(?: (?:changed|set) to)?|to):?)? (?={_QUOTE}){_VALUE}"
_PROSE = rf"(?: (?:for|of|to)(?: the)? [\w-]{{1,30}})? (?:(?:is|was)(?: now)?(?: (?:changed|set) to)?|to):? {_VALUE}"
"""Matches, for example, "the password of the server is ..."."""
_USED = r"(?: [0-7])? (?P<v5>(?=[^\s0-9]{0,60}[0-9]+[^\s0-9]{1,60}[0-9])[^\s\"'\\]{6,256})"
_CALLED = rf"\(\s{{0,4}}(?={_QUOTE}|N'){_VALUE}"
_NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_MAX_NAME_CHARS = 60
_CUT = r"[,;|&<>)}\]]"
_AUTHORIZATION = (
    rf"{_AFTER_NAME}[:=]\s{{0,8}}(?:{_QUOTE})?"
    r"(?P<scheme>(?i:bearer|basic|token|digest|negotiate|bot|apikey|key|aws4-hmac-sha256|[a-z][a-z0-9-]{2,30}(?=[ \t]+[a-z0-9_=/+.-]{20}))[ \t]+)?(?P<v>[^\s\"'`<\\,;}\])]{3,4096})"
)


def find_named_values(text: str, low: str) -> Iterator[Span]:
    """Find values after the name of a secret.

    Args:
        text: Any text.
        low: The same in lower case; see `to_lower`.
    """
    for noun, rest in _NOUNS.items():
        yield from _fields(text, low, noun, rest)
    if "uthorization" in low:
        for match in compile_regex(r"(?i)authorization").finditer(text):
            yield from _authorization(text, match.end())
    if "bearer" in low:
        for match in compile_regex(r"(?i)bearer[ \t]+([A-Za-z0-9._~+/=-]{8,})").finditer(text):
            if _is_bearer(match[1]):
                yield match.span(1)
    yield from _queries(text)


_FOLLOW = frozenset("\"'`]:= \t\n\\><,?+!|%_-0123456789(*")
"""Text that may follow the name of a field."""


_SIGNS = frozenset([":", "*", "`", "=", " is", " wa", " | ", " = ", " : "])
"""Text that may follow a name of several words."""


def _fields(text: str, low: str, noun: str, rest: str) -> Iterator[Span]:
    """Return values of fields whose name ends with a noun."""
    at = low.find(noun)
    while at >= 0:
        end = at + len(noun)
        if rest and (match := compile_regex(rest).match(low, end)) is not None:
            end = match.end()
        following = low[end : end + 1]
        if following in _FOLLOW:
            name = _name_before(text, end)
            strength = strength_of(name.lstrip("-."))
            if len(name) < 6 and (following in _SIGNS or low[end : end + 3] in _SIGNS) and _is_kind_of_key(low, at):
                strength = "strong"  # for example, "API key: ..."
            if strength == "password" or (strength and following != "("):
                span, end = _value_after(text, end, name, strength)
                if span is not None:
                    yield span
        at = low.find(noun, end)


def _is_kind_of_key(low: str, at: int) -> bool:
    """Return True if the word before a key or a token means that it is secret, for example, "API key"."""
    return (
        low.startswith(("key", "token"), at) and low[max(0, at - 16) : at - 1].split(" ")[-1].strip("*`|\\\"'") in _KEYS
    )


def _name_before(text: str, end: int) -> str:
    before = text[max(0, end - _MAX_NAME_CHARS) : end]
    name = before[len(before.rstrip(_NAME)) :]
    escaped = name[:1] in {"n", "r", "t"} and before[: -len(name)].endswith("\\")  # the end of a line in JSON
    return name[1:] if escaped else name


def _value_after(text: str, end: int, name: str, strength: Strength) -> tuple[Span | None, int]:
    """Return the value after a name if it is a secret, and the position to continue the search."""
    begin = end - len(name)
    before = text[max(0, begin - 200) : begin]
    if (
        name == "pass"
        and ("user" in before or "login" in before)
        and compile_regex(r"(?i)(?:login|user)[^\r\n]{0,60}\Z").search(before)
    ):
        strength = "password"
    match = compile_regex(_TAIL).match(text, end)
    if match is not None:
        if match["sign"] in {"==", "!="}:
            return None, end
        if name.lower().endswith("cookie"):
            return _cookies(text, match)
        span, next_name = _value(match, strength, _place(text, begin, name, match))
        typed = compile_regex(_TYPED).match(text, end) if span is None and strength != "weak" else None
        return _value(typed, strength, "quoted") if typed is not None else (span, next_name)
    for pattern, place in _contexts(name, before, text[end : end + 1], strength):
        match = compile_regex(pattern).match(text, end)
        if match is not None:
            return _value(match, "strong" if strength == "weak" else strength, place)
    return None, end


_OPENED = frozenset("\"' >=")


def _contexts(name: str, before: str, behind: str, strength: Strength) -> Iterator[tuple[str, Place]]:
    """Return patterns of values after a name without a sign, and the context of such a value."""
    if behind == "(":
        words = compile_regex(r"[A-Z]?[a-z]+|[A-Z]+").findall(name)
        if strength == "password" and (len(words) == 1 or words[0].lower() in {"set", "with"}):
            yield _CALLED, "quoted"
        return
    last = before[-1:]
    hint = before[-24:].lower()
    named = last in _OPENED and ("name" in hint or "key" in hint or "variable" in hint)
    if last in {"<", ":"} or named and compile_regex(r"(?:name|key)(?:=\\{0,7}[\"']|>)\Z").search(hint):
        yield _XML, "data"
    if named and compile_regex("(?:name|key|variable)[^a-z\n]{1,14}$").search(hint):
        yield _PAIR, "data"
    if strength == "password" and "login" in before:
        yield _NETRC, "data"
    if strength == "password" and any(word in hint for word in ("user", "use ", "using ", "with ", "wifi")):
        yield _USED, "bare"
    if name.startswith("-"):
        yield _FLAG, "shell"
    if name.isupper() and before.endswith("ENV "):
        yield _NETRC, "shell"
    if name.isupper() and (last in {"'", '"'} or before.lower().endswith("setx ")):
        yield _ARGUMENT, "quoted"
    if strength == "password" or (strength == "strong" and last != "."):
        yield _SAID, "quoted"
        yield _PROSE, "bare"
    if strength != "weak":
        yield _TYPED, "quoted"
        yield _LOOSE, "quoted"


def _place(text: str, begin: int, name: str, match: re.Match[str]) -> Place:
    """Return the context: a shell assignment (capitals, ``=`` without spaces, at the beginning of a line or after a space) or an option."""
    before = text[begin - 1 : begin]
    if match["sign"] == "=" and match.string[match.start("sign") + 1 : match.start("sign") + 2] not in {" ", "\t"}:
        shell = (
            name.isupper() or name.startswith("-") or before == ":" or (name.startswith("_") and before in {"", "\n"})
        )
        if shell and match["v5"] is not None:
            return "shell"
        if name.startswith("-") or name.isupper():
            return "shell"
    if match["v5"] is not None:
        return "bare"
    if match["sign"] == ":" and before in {'"', "\\"} or (before == "'" and match["sign"] == ":"):
        return "data"
    return "quoted"


def _value(match: re.Match[str], strength: Strength, place: Place) -> tuple[Span | None, int]:
    groups = match.groupdict()
    group = next(name for name in ("v1", "v2", "v3", "v4", "v5") if groups.get(name) is not None)
    begin, value = match.start(group), match[group]
    if group == "v5" and place == "bare":
        cut = compile_regex(_CUT).search(value)
        value = (value[: cut.start()] if cut else value).rstrip(".")
    elif group == "v5" and place == "shell":
        value = value.rstrip(";,")
    end = begin + len(value)
    if is_secret_value(value, strength, place):
        return (begin, end), end
    return None, end if group == "v5" else match.start()


def _authorization(text: str, end: int) -> Iterator[Span]:
    match = compile_regex(_AUTHORIZATION).match(text, end)
    if match is None:
        return
    value, schemed = match["v"], match["scheme"] is not None
    if compile_regex(REFERENCE).match(value) or is_stand_in(value) or compile_regex(_CALL).fullmatch(value):
        return
    if (
        schemed
        and len(value) >= 7
        and compile_regex(r"[a-z-]{1,15}").fullmatch(value) is None
        or any(c.isdigit() for c in value)
        and not compile_regex(_DOTTED).fullmatch(value)
    ):
        yield match.span("v")


def _is_bearer(value: str) -> bool:
    digits = any(c.isdigit() for c in value)
    return len(value) >= 12 and (digits or (len(value) >= 24 and len(compile_regex(r"[a-z][A-Z]").findall(value)) > 3))


def _cookies(text: str, match: re.Match[str]) -> tuple[Span | None, int]:
    """Return the whole header with cookies: any of them may be a session cookie."""
    begin = min(match.start(group) for group in ("v1", "v2", "v3", "v4", "v5") if match[group] is not None)
    found = compile_regex(r"[^\"'\\\r\n]*").match(text, begin)
    cookies = found[0].rstrip() if found else ""
    for pair in cookies.split(";"):
        name, _, value = pair.partition("=")
        random = (
            len(value) >= _MIN_CHARS and any(c.isdigit() for c in value) and not compile_regex(REFERENCE).match(value)
        )
        if random and name.strip().lower() not in _ATTRIBUTES:
            return (begin, begin + len(cookies)), begin + len(cookies)
    return None, begin + len(cookies)


_ATTRIBUTES = frozenset("path domain expires max-age samesite httponly secure priority version".split())
_QUERY = r"[?&;]([A-Za-z0-9_.~-]{1,64})=([^&\s\"'<>\\`;)#]{6,1024})"
QUERY_NAMES = frozenset("key code sig signature hmac auth sas session sid pwd pass apikey token jwt x-amz-signature x-amz-credential x-goog-signature x-amz-security-token".split())  # fmt: skip


def _queries(text: str) -> Iterator[Span]:
    if "=" not in text or not ("?" in text or "&" in text):
        return
    for match in compile_regex(_QUERY).finditer(text):
        name, value = match[1], match[2]
        strength = strength_of(name)
        if strength:
            secret = is_secret_value(value, "strong" if strength == "weak" else strength, "data")
        else:
            random = any(c.isdigit() for c in value) and not value.isdigit()
            secret = name.lower() in QUERY_NAMES and random and not compile_regex(REFERENCE).match(value)
        if secret:
            yield match.span(2)


# --- in the environment -----------------------------------------------------------------------------------------------------


def environment_secrets(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the secrets of an environment, or of other named settings."""
    return _secret_values(
        tuple([(n, v) for n, v in environ.items() if strength_of(n) or "://" in v or "=" in v or "--" in v])
    )


@lru_cache(maxsize=16)
def _secret_values(items: tuple[tuple[str, str], ...]) -> frozenset[str]:
    found: set[str] = set()
    for name, value in items:
        strength = strength_of(name)
        if strength and is_secret_value(value, "strong" if strength != "password" else strength, "data"):
            found.add(value)
        if "://" in value:
            for match in compile_regex(r"://[^\s/@:]{0,256}:([^\s/@]{1,1024})@").finditer(value):
                if is_secret_value(match[1], "password", "data"):
                    found.add(match[1])
        low = to_lower(value)
        found.update(value[a:b] for a, b in (*find_named_values(value, low), *find_logins(value, low)))
        if "PRIVATE KEY" in value:
            found.update(line for line in value.split() if len(line) > 30)
    return frozenset(found)
