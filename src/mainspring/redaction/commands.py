"""Secrets that show by the program or the function that takes them: ``mysql -p...``, ``gh secret set NAME --body ...``, ``auth=(...)``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mainspring.redaction.shapes import Span, compiled, is_reference

_ANY = r"(?:\\{0,7}[\"'])?([^\s\"'$<>|\\({-][^\s\"'\\]{3,256})"
_VALUE = _ANY.replace("([", r"((?=[A-Za-z]{0,256}[^A-Za-z\s\"'\\])[", 1)
_REST = r"(?:\.exe)?\\{0,7}[\"']?(?=[ \t])(?:[^\r\n|\\]|\\(?!n)){0,200}?\s"

_COMMANDS = (
    # Words that name a program, and the pattern behind such a word: "…" is the rest of the command before an option, "§" the secret, "¤" also one of letters.
    ("7z 7za 7zr 7zz rar unrar", "…-h?p§"),
    ("zip unzip", "…-P ?§"),
    ("mysql mysqldump mysqlimport mysqlshow mariadb smbclient sshpass mongo mongosh mongodump mongorestore redis_cli", "…-(?:p|w|a) ?§"),
    ("mysqladmin", "…(?:-p|password )§"),
    ("login", "… ?-(?:p|w|a) ?§"),
    ("cli", r"(?<=redis-cli)…-a ?§"),
    ("ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapmodrdn security", "…-w ?§"),
    ("twine ncftpput ncftpget ncftp nuget useradd psexec steghide cqlsh", "…-p §"),
    ("ipmitool mosquitto_pub mosquitto_sub sqlcmd bcp", "…-P ?§"),
    ("keygen", "…-[NP] ?§"),
    ("snmpwalk snmpget snmpset", "…-[AX] §"),
    ("snmp", "-server community §"),
    ("htpasswd", r" -\w*b\w*(?: [^\s-]\S*)? \S+ §"),
    ("openssl", r"…-pass(?:in|out)? (?:\\{0,7}[\"'])?pass:§"),
    ("cmdkey xfreerdp wfreerdp schtasks", "…/(?:pass:|p:|rp )§"),
    ("net", r" (?:user \S{1,64}|use[^\r\n|]{1,120} /user:\S{1,64}) (?!/)§"),
    ("sqlplus impdp expdp", r" [\w$]{1,64}/([^\s@/\"'\\]{4,256})"),
    ("qpdf", r" --encrypt \S{1,64} §"),
    ("pdftk", "…(?:user|owner)_pw §"),
    ("lftp", r"…-u [^\s,]{1,64},§"),
    ("secret secrets secretsmanager", r"…(?:--body[ =]|-b|--value[ =]|--secret-string[ =]|--from-literal=[^\s=]{1,64}=)§"),
    ("ssm", "…--value[ =]§"),
    ("variable", " set…(?:--body[ =]|-b)§"),
    ("secrets kv", r" (?:set|put)(?: -?\w\S{0,64}){0,3} [\w./-]{1,64}=§"),
    ("snyk", " auth §"),
    ("cargo vault", r" login(?: -\S{1,64}){0,4} §"),
    ("ngrok", "…(?:add-)?authtoken §"),
    ("cloudflared", " service install §"),
    ("wpa_passphrase", r" \S{1,64} §"),
    ("poetry", r" config (?:pypi-token\.\S{1,64}|http-basic\.\S{1,64} \S{1,64}) §"),
    ("requirepass masterauth psk", " §"),
    ("enable", r" secret(?: [0-9])? §"),
    ("gem", " push…--key §"),
    ("rclone", " (?:obscure|config…pass) §"),
    ("dsonar", r"\.login=§"),
    ("http", r" -a ?[\"']?([^\s\"':$]{1,128}:[^\s\"'$]{3,256})"),
    ("npmauthident", ": §"),
    ("curl", r"…(?:-b|--cookie)[ =]?[\"']?([\w.-]{1,64}=[^\"'\r\n]{6,2048})"),
    ("echo printf", r" (?:-n |'%s' )?¤(?:\\{0,7}[\"'])?\s{0,8}\|[^|\r\n]{0,200}(?:-stdin|sudo -\w{0,6}S|-fd 0|secret set)"),
    ("echo", r" \\{0,7}[\"']?[\w-]{1,64}:([^\s\"'\\$]{4,256})\\{0,7}[\"']?\s{0,8}\| ?(?:sudo )?chpasswd"),
    ("echo", r"(?<=<\(echo) §(?=\))"),
    ("expect", r"…-c \\{0,7}[\"']send \\{0,7}[\"']([^\s\"'\\$]{6,256})\\{1,7}[rn]"),
    ("smbclient cifs rpcclient", r"…-U ?[\"']?[^\s%\"']{1,64}%([^\s\"'$]{4,256})"),
    ("auth basicauth digestauth credential credentials networkcredential pscredential withcredentials login", r"(?: ?= ?)?\(\s{0,8}\\{0,7}[\"'][^\"'\r\n]{1,128}[\"'],\s{0,8}\\{0,7}[\"']([^\"'\r\n\\]{6,256})\\{0,7}[\"']"),
    ("securestring", " (?:-String )?§"),
    ("digest", r" [^\r\n]{0,400}?\bresponse=\\{0,3}\"?([0-9a-f]{32,128})"),
    ("identified", r"(?i: with \w{1,40})?(?i: by) \\{0,7}['\"](?=[A-Za-z]{0,256}[^A-Za-z'\"])([^'\"\r\n\\]{4,256})\\{0,7}['\"]"),
    ("pgp_sym_encrypt pgp_sym_decrypt", r"\([^()\r\n]{1,80}, ?'([^'\r\n]{4,256})'"),
)  # fmt: skip

_PATTERNS: dict[bytes, list[str]] = {}
for _words, _pattern in _COMMANDS:
    for _word in _words.split():
        _PATTERNS.setdefault(_word.encode(), []).append(
            _pattern.replace("…", _REST).replace("§", _VALUE).replace("¤", _ANY)
        )

_WORDS = frozenset(_PATTERNS)
_SEPARATORS = bytes.maketrans(
    bytes(i for i in range(128) if not (chr(i).isalnum() or i == ord("_"))),
    b" " * 65,
)

_LOGINS = (
    # What the text must contain, and the pattern.
    (("curl", '"-u', "'-u"), r"-(?:(?<![\w-]-)[a-zA-Z]{0,3}[uU]|-(?:proxy-)?user(?:pwd)?)(?:[ =]|[\"'],?\s{0,8})?(?:\\{0,7}[\"'])?([^\s:\"'$<{(|\[]{1,128}:[^\s\"'$<{\\]{3,256})"),
    (("<<<",), rf"(?:secret|token|vercel|luks)[^\r\n|<]{{0,160}}<<< ?{_VALUE}"),
    (("basic",), r"(?i)basic(?<![a-z]basic)[ \t]+(?=[A-Za-z+/]{0,80}[0-9=])([A-Za-z0-9+/]{8,}={0,2})"),
    ((":5432:", ":*:"), r"(?<![\w.:-])[\w.*-]{1,64}:(?:[0-9]{4}|\*):[\w*-]{1,64}:[\w*-]{1,64}:([^\s:\"'\\]{4,256})"),
)  # fmt: skip


def find_logins(text: str, low: str) -> Iterator[Span]:
    """Find passwords of commands, arguments of functions that log in, and basic authentication.

    Args:
        text: Any text.
        low: The same in small letters; see `to_lower`.
    """
    words = low.replace("\\n", "  ").encode("utf-8", "replace").translate(_SEPARATORS).split()
    for word in _WORDS.intersection(words):
        yield from _arguments(text, low, word.decode(), [compiled(pattern) for pattern in _PATTERNS[word]])
    for marks, pattern in _LOGINS:
        if any(mark in low for mark in marks):
            for match in compiled(pattern).finditer(text):
                if _is_literal(match[1]):
                    yield match.span(1)


def _arguments(text: str, low: str, program: str, patterns: Sequence[re.Pattern[str]]) -> Iterator[Span]:
    """Find the secrets behind a word that names a program."""
    at = low.find(program)
    while at >= 0:
        end = at + len(program)
        for pattern in patterns:
            match = pattern.match(text, end)
            if match is not None and _is_literal(match[1]):
                yield match.span(1)
        at = low.find(program, end)


def _is_literal(value: str) -> bool:
    return not value.isdigit() and not is_reference(value)
