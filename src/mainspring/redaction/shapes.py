"""Find secrets by their shape: tokens of issuers, private keys, credentials in URLs, arguments of programs and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

Span = tuple[int, int]

_WORD = r"[A-Za-z0-9_-]"
_DIGIT = r"(?=[A-Za-z_-]{0,80}[0-9])"
_HEX = r"[0-9a-fA-F]"

ISSUERS = (
    # Models
    ("sk-", rf"(?:(?:ant|proj|or|svcacct|admin|lf)-{_DIGIT}{_WORD}{{8,}}|(?!ssh-|ecdsa-|(?:[a-z]{{1,20}}-|[0-9]{{1,3}}-){{1,12}}[a-z]{{0,20}}[0-9]{{0,3}}(?!{_WORD})){_DIGIT}{_WORD}{{12,}})"),
    ("sk_", rf"(?!live_|test_){_DIGIT}[A-Za-z0-9]{{24,}}"),
    ("gsk_", rf"{_DIGIT}{_WORD}{{16,}}"),
    ("csk-", rf"{_DIGIT}{_WORD}{{16,}}"),
    ("xai-", rf"{_DIGIT}{_WORD}{{16,}}"),
    ("nvapi-", rf"{_DIGIT}{_WORD}{{16,}}"),
    ("hf_", rf"{_DIGIT}[A-Za-z0-9]{{16,}}|hf_(?=[a-z]*[A-Z][A-Z]*[a-z])[A-Za-z]{{34,40}}(?!{_WORD})"),
    ("api_org_", r"[A-Za-z0-9]{30,}"),
    ("r8_", rf"{_DIGIT}{_WORD}{{16,}}"),
    ("tgp_v1_", rf"{_WORD}{{16,}}"),
    ("pplx-", rf"{_DIGIT}{_WORD}{{16,}}"),
    ("fw_", rf"{_DIGIT}[A-Za-z0-9]{{16,}}"),
    ("lsv2_", rf"(?:pt|sk)_{_WORD}{{16,}}"),
    ("tvly-", rf"{_DIGIT}{_WORD}{{16,}}"),
    ("jina_", r"[A-Za-z0-9]{32,}"),
    ("pcsk_", r"[A-Za-z0-9_]{30,}"),
    # Google, Amazon, Microsoft
    ("AIza", rf"{_WORD}{{30,}}"),
    ("AQ.Ab", rf"{_WORD}{{30,}}"),
    ("ya29.", r"[A-Za-z0-9_.-]{20,}"),
    ("GOCSPX-", rf"{_WORD}{{20,}}"),
    ("1//0", rf"{_WORD}{{28,}}"),
    ("AKIA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("ASIA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("ABIA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("ACCA", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("ABSK", r"[A-Za-z0-9+/]{80,}={0,2}"),
    ("LTAI", rf"{_DIGIT}[A-Za-z0-9]{{16,26}}(?![A-Za-z0-9+/=])"),
    ("AKID", rf"{_DIGIT}[A-Za-z0-9]{{32}}(?![A-Za-z0-9+/=])"),
    ("IQoJb3JpZ2lu", r"[A-Za-z0-9+/%]{40,}={0,2}"),
    ("FwoGZXIvYXdz", r"[A-Za-z0-9+/%]{40,}={0,2}"),
    # Code hosts and packages
    ("ghp_", r"[A-Za-z0-9]{20,}"),
    ("gho_", r"[A-Za-z0-9]{20,}"),
    ("ghu_", r"[A-Za-z0-9]{20,}"),
    ("ghs_", r"[A-Za-z0-9]{20,}"),
    ("ghr_", r"[A-Za-z0-9]{20,}"),
    ("github_pat_", r"[A-Za-z0-9_]{20,}"),
    ("gl", rf"(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|ffct|oas|rtr)-{_WORD}{{16,}}(?:\.[0-9a-z.]{{2,40}})?"),
    ("npm_", rf"{_DIGIT}[A-Za-z0-9]{{30,}}"),
    ("pypi-", rf"{_WORD}{{40,}}"),
    ("rubygems_", rf"{_HEX}{{40,}}"),
    ("oy2", r"[a-z0-9]{43}(?![a-z0-9])"),
    ("dckr_", rf"(?:pat|oat)_{_WORD}{{20,}}"),
    ("cio", rf"{_DIGIT}[A-Za-z0-9]{{32}}(?![A-Za-z0-9_+/=-])"),
    ("bkua_", r"[0-9a-f]{40}"),
    ("CLOJARS_", r"[0-9a-z]{50,}"),
    ("AKCp", r"[A-Za-z0-9]{60,}"),
    ("CCIPAT_", r"[A-Za-z0-9_]{40,}"),
    ("sq", r"[upa]_[0-9a-f]{40}"),
    # Chat
    ("xox", rf"[a-z](?:\.xox[a-z])?-{_DIGIT}[A-Za-z0-9-]{{10,}}"),
    ("xapp-", rf"{_DIGIT}[A-Za-z0-9-]{{20,}}"),
    ("xwfp-", rf"{_DIGIT}[A-Za-z0-9-]{{20,}}"),
    ("hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}"),
    ("/api/webhooks/", r"[0-9]{10,}/[A-Za-z0-9_-]{30,}"),
    (".webhook.office.com/", r"[A-Za-z0-9/@_-]{40,}"),
    ("EAA", r"(?=[A-Za-z]{0,80}[0-9])[B-Z][A-Za-z0-9]{80,}(?![A-Za-z0-9+/=])"),
    # Payment
    ("sk_live_", r"[A-Za-z0-9]{10,}"),
    ("sk_test_", r"[A-Za-z0-9]{10,}"),
    ("rk_live_", r"[A-Za-z0-9]{10,}"),
    ("rk_test_", r"[A-Za-z0-9]{10,}"),
    ("whsec_", r"[A-Za-z0-9+/=]{16,}"),
    ("sq0", rf"(?:atp|csp|idp)-{_WORD}{{20,}}"),
    ("EAAA", rf"(?=[A-Za-z_-]{{0,80}}\d){_WORD}{{56,}}(?![A-Za-z0-9+/=])"),
    ("shp", rf"(?:at|ca|pa|ss|tka)_{_HEX}{{32}}"),
    ("FLWSECK", rf"(?:_TEST)?-{_WORD}{{20,}}"),
    # Mail and telephone
    ("SK", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("SG.", rf"{_WORD}{{16,}}\.{_WORD}{{16,}}"),
    ("key-", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("xkeysib-", rf"{_HEX}{{64}}-{_WORD}{{16}}"),
    ("re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    # Hosting and operations
    ("do", r"[opr]_v1_[0-9a-f]{40,}"),
    ("HRKU-", rf"{_WORD}{{30,}}"),
    ("v1.0-", r"[0-9a-f]{24}-[0-9a-f]{60,}"),
    ("cf", rf"(?:ut|at|k)_{_DIGIT}[A-Za-z0-9]{{36,}}"),
    ("vc", rf"[pkaci]_{_DIGIT}[A-Za-z0-9]{{24,}}"),
    ("ddp_", r"[A-Za-z0-9]{36}"),
    ("nf", rf"[pcobu]_{_DIGIT}[A-Za-z0-9]{{30,}}"),
    ("dapi", r"[0-9a-f]{32}(?:-[0-9])?(?![0-9A-Za-z])"),
    ("NR", rf"(?:AK|JS|II|AL)-{_WORD}{{19,}}"),
    ("sntry", r"[su]_[A-Za-z0-9+/=_-]{40,}"),
    ("glsa_", rf"[A-Za-z0-9]{{32}}_{_HEX}{{8}}"),
    ("glc_", r"[A-Za-z0-9+/=]{32,}"),
    ("dp.", r"(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{36,}"),
    ("hv", rf"[sbr]\.{_WORD}{{20,}}"),
    (".atlasv1.", r"[A-Za-z0-9_=-]{50,}"),
    ("AGE-SECRET-KEY-1", r"[0-9A-Z]{50,}"),
    ("AGE-PLUGIN-", r"[0-9A-Z-]{50,}"),
    ("tskey-", rf"[a-z]+-{_WORD}{{16,}}"),
    ("ops_eyJ", r"[A-Za-z0-9_=-]{60,}"),
    ("pul-", r"[0-9a-f]{40}"),
    ("dt0", r"[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{40,}"),
    ("pscale_", r"(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}"),
    ("sbp_", r"[0-9a-f]{40}"),
    ("sb_secret_", rf"{_WORD}{{20,}}"),
    ("FlyV1 ", r"fm[12][ar]?_[A-Za-z0-9+/=,_-]{40,}"),
    # Work
    ("lin_", r"(?:api|oauth)_[A-Za-z0-9]{30,}"),
    ("ntn_", r"[A-Za-z0-9]{30,}"),
    ("secret_", rf"{_DIGIT}[A-Za-z0-9]{{40,}}"),
    ("figd_", rf"{_WORD}{{30,}}"),
    ("pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("ATATT3", r"[A-Za-z0-9_=-]{60,}"),
    ("ATCTT3", r"[A-Za-z0-9_=-]{60,}"),
    ("ATBB", r"[A-Za-z0-9]{30,}"),
    ("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    ("CFPAT-", rf"{_WORD}{{40,}}"),
    ("phx_", r"[A-Za-z0-9]{40,}"),
    ("sl.", rf"(?:u\.)?{_WORD}{{100,}}"),
    ("sk.eyJ", rf"{_WORD}{{20,}}\.{_WORD}{{20,}}"),
    # Anywhere
    ("eyJ", rf"{_WORD}{{8,}}\.(?:eyJ)?{_WORD}{{8,}}(?:\.{_WORD}*){{1,3}}"),
)  # fmt: skip
"""Prefixes of the tokens of an issuer, and the pattern of the rest."""

_PLAIN = ("AIza", "AKIA", "ASIA", "ABIA", "ACCA", "ABSK", "IQoJ", "FwoG", "AKCp", "SK", "dapi", "ATBB", "ATATT3", "ATCTT3", "oy2", "EAA", "1//0", "LTAI", "AKID", "cio")  # fmt: skip
"""Prefixes without a separator, which `_SEPARATED` does not find."""

_PLAIN_ISSUERS = tuple([row for row in ISSUERS if row[0].startswith(_PLAIN)])

_SEPARATED = r"[-_./](?=[A-Za-z_.+/=-]{0,80}[0-9])[A-Za-z0-9_.+/=-]{10}"
"""Pieces that all other tokens contain. Ordinary text rarely does, and one search is cheaper than one for each issuer."""

_OTHERS = (
    # A mark, and a pattern that need not begin with it: in a group, if there is one.
    ("Q~", r"(?<![A-Za-z0-9_.~-])[A-Za-z0-9_.~-]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,34}"),
    *[
        (
            f"{before}s.",
            rf"{before}(s\.{_DIGIT}(?=[a-z0-9]*[A-Z])(?=[A-Z0-9]*[a-z])[A-Za-z0-9]{{24}}(?![A-Za-z0-9_.(-]))",
        )
        for before in " ="
    ],
    ("atlasv1", r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{50,}"),
    ("JQQJ99", r"(?<![A-Za-z0-9])[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}"),
    ("APA91b", r"(?<![A-Za-z0-9_-])(?:[A-Za-z0-9_-]{11,22}:)?APA91b[A-Za-z0-9_-]{100,}"),
    ("jdbc:oracle:", r"jdbc:oracle:\w{2,6}:[^\s/@\"']{1,64}/([^\s@/\"']{3,256})@"),
    ("kty", r'"(?:d|p|q|dp|dq|qi|k)\\{0,8}"\s{0,4}:\s{0,4}\\{0,8}"([A-Za-z0-9_-]{20,2048})\\{0,8}"'),
    ("Private-Lines:", r"Private-Lines: [0-9]+((?:(?:\\+[nr]|\s){1,4}[A-Za-z0-9+/=]{16,128})+)"),
    (":AA", r"(?<![A-Za-z0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,34}"),
    ("-us", r"(?<![A-Za-z0-9])[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])"),
    ("ingest", r"https?://([0-9a-f]{32}(?::[0-9a-f]{32})?)@[a-z0-9.-]{0,60}sentry"),
    ("access_token$", r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}"),
    (".", r"(?<![A-Za-z0-9_./+-])[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}(?![A-Za-z0-9_-])"),
    ("-", r"(?<![A-Za-z0-9-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![A-Za-z0-9-])"),
    ("LS0tLS1CRUdJTi", r"LS0tLS1CRUdJTi(?!BDRVJU|BQVUJMSUMg)[A-Za-z0-9+/]{20,}={0,2}"),
    ("-us-", r"(?<![A-Za-z0-9])tk-us-[A-Za-z0-9_-]{40,}"),
)
_URLS = (
    r"://(?!\[|[^\s/@:\"'<>`\\]{0,256}:(?:\$|\{|<|%s|\*+@|\[redacted))([^\s/@:\"'<>`\\]{0,256}:[^\s/\"'<>`\\]{1,1024})@",
    r"://(?=[A-Za-z_-]{0,80}[0-9])([A-Za-z0-9_.~%=-]{16,512})(?::(?:x-oauth-basic)?)?@",
)
_BODY = r"(?:{begin})[A-Za-z0-9+/=]{{10,}}(?:(?:\\+[nr]|\s){{1,8}}[A-Za-z0-9+/=]{{20,}})*(?:(?:\\+[nr]|\s){{1,8}}[A-Za-z0-9+/]{{1,64}}={{0,2}}(?![^\s\"'\\]))?"
_BODIES = ("MII[A-Za-z0-9]{1,8}IBAAK", "MII[A-Za-z0-9]{1,8}IBADANBgkqhkiG9w0BAQEF", "MI[GH][A-Za-z0-9]{1,2}A[gh]EA[A-Za-z0-9]BMGByqGSM49", "MC4CAQAwBQYDK2Vw", "M[HG][A-Za-z0-9]{2}AgEBB[CD]", "MHcCAQEEI", "b3BlbnNzaC1rZXktdjE")  # fmt: skip
"""Beginnings of private keys in base64, without the line that names their type."""
_BODY_MARKS = ("IBAAK", "hkiG9w0BAQEF", "ByqGSM49", "CAQAwBQYDK2Vw", "AgEBB", "HcCAQEEI", "b3BlbnNzaC1rZXk")

_LINE_BEGIN = r"(?:[ \t>+|:*#-]|\\+t|[0-9]{1,6}[ \t]*(?:[\t:|→-]|\\+t))*"
_KEY_LINE = 16
_MAX_KEY_BYTES = 16_384
_LINES = r"((?:\\+[nrt]|[\r\n])+)"


_ALGORITHMS = r"(?i)(?:[ui](?:nt)?\d{1,3}|float\d\d|(?:n?var)?char2?|utf-?\d+|sha-?\d{1,3}|md5|ed25519|x25519|argon2(?:id)?|pbkdf2|[hrep]s\d{3}|aes-?\d{3}(?:-?[a-z]{3})?|base\d\d|oauth-?[12](?:\.0)?|int_?\d+|v\d+)(?:-[a-z]{2,}ed)?"
REFERENCE = r"[$<{%^]|\[[a-z]+\]|\[\^|\[redacted|\*{3}|\.{3}|…|#\{|@\{|\(|(?:process|os|import)\.|env[.:(\[]|!(?:Ref|Sub|vault|GetAtt)|ref\+|op://|vault:|secrets?[.:/]|keyring:|file:|https?://[^?@]*$|arn:|data:"
_PATH = r"(?:[A-Za-z]:\\|~?\.{0,2}/)[\w.@+ -]{0,20}(?:[/\\][\w.@+ -]{0,24})*|[\w.-]+/[\w./-]+\.[a-z]{2,5}|[\w-]{1,40}\.(?:pem|key|json|ya?ml|txt|toml|env|py|js|ts|crt|p12|pub|cfg|conf|ini|md|html|css|go|rs|sh)"


@cache
def compile_regex(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: most runs start without any secret, and compiling takes milliseconds."""
    return re.compile(pattern)


@cache
def _issuer(begin: str, rest: str) -> re.Pattern[str]:
    """Return a pattern with the literal first, since `re` searches for literals much faster; the text before it is checked afterward."""
    literal = re.escape(begin)
    if not begin[0].isalnum():
        return compile_regex(f"{literal}(?:{rest})")
    before = ("(?<![A-Za-z0-9]{0})", r"(?<=\\[bfnrt]{0})", r"(?<=\\u[0-9a-fA-F]{{4}}{0})", "(?<=%[0-9a-fA-F]{{2}}{0})", r"(?<=\[[0-9]m{0})", r"(?<=[0-9;][0-9]m{0})")  # fmt: skip
    return compile_regex(f"{literal}(?:{'|'.join(each.format(literal) for each in before)})(?:{rest})")


def is_reference(value: str) -> bool:
    """Return True if a value is a reference to a secret, a placeholder, a path, or the name of an algorithm."""
    return bool(
        compile_regex(REFERENCE).match(value)
        or compile_regex(_PATH).fullmatch(value)
        or compile_regex(_ALGORITHMS).fullmatch(value)
        or (compile_regex(r"\.{3}|…|[xX]{4}|\*{3}").search(value) and len(compile_regex("[0-9]").findall(value)) < 4)
    )


def to_lower(text: str) -> str:
    """Return a text in lower case, in which every character has the same position as before."""
    low = text.lower()
    return low if len(low) == len(text) else text  # some capital letters become two lowercase ones


def find_tokens(text: str) -> Iterator[Span]:
    """Find tokens of issuers."""
    separated = compile_regex(_SEPARATED).search(text) is not None
    for begin, rest in ISSUERS if separated else _PLAIN_ISSUERS:
        if begin in text:
            for match in _issuer(begin, rest).finditer(text):
                yield match.span()
    for mark, pattern in _OTHERS:
        if (separated or len(mark) > 1) and mark in text:
            for match in compile_regex(pattern).finditer(text):
                yield match.span(match.lastindex or 0)


def find_credentials_in_urls(text: str) -> Iterator[Span]:
    """Find user names with passwords in URLs, and tokens in the same position."""
    if "://" in text and "@" in text:
        for pattern in _URLS:
            for match in compile_regex(pattern).finditer(text):
                yield match.span(1)


def find_private_keys(text: str) -> Iterator[Span]:
    """Find private keys, including those that are truncated at either end, have line numbers, or are written as a JSON string."""
    if "PRIVATE KEY" in text:
        marks = compile_regex(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----")
        begun: int | None = None
        last = 0
        for match in marks.finditer(text):
            if match[1] == "END" and begun is None:
                begin = _key_begin(text, last, match.start())
                if begin < match.start():
                    yield begin, match.end()
            elif match[1] == "END" and _is_key(text, last, match.start()):
                yield begun or 0, match.end()
            elif begun is not None and (end := _key_end(text, last, match.start())) > last:
                yield begun, end
            begun, last = match.start() if match[1] == "BEGIN" else None, match.end()
        if begun is not None and (end := _key_end(text, last, len(text))) > last:
            yield begun, end
    if any(mark in text for mark in _BODY_MARKS):
        for begin in _BODIES:
            for match in compile_regex(_BODY.format(begin=begin)).finditer(text):
                yield match.span()


def _is_key(text: str, begin: int, end: int) -> bool:
    """Return True if the text between the first and the last line of a key is a key, and not code that names these lines."""
    inner = text[begin:end]
    return compile_regex(r"[A-Za-z0-9+/=]{20}").search(inner) is not None or not compile_regex(r"[\"'_({]").search(
        inner
    )


def _key_end(text: str, begin: int, limit: int) -> int:
    """Return the end of the lines of a key without a last line."""
    at = begin
    for match in compile_regex(rf"{_LINES}?{_LINE_BEGIN}([A-Za-z-]+: [^\r\n\\]*|[A-Za-z0-9+/=]*)").finditer(
        text, begin, limit
    ):
        line = match[2]
        if match.start() != at or (line and len(line) < _KEY_LINE and match.end() != limit and ": " not in line):
            break
        at = match.end()
        if at > begin and not match[0]:
            break
    return at


def _key_begin(text: str, limit: int, end: int) -> int:
    """Return the beginning of the lines of a key without a first line."""
    pieces = compile_regex(_LINES).split(text[max(limit, end - _MAX_KEY_BYTES) : end])
    line = compile_regex(rf"{_LINE_BEGIN}([A-Za-z0-9+/=]*)")
    at = begin = end
    for number in range(len(pieces) - 1, -1, -2):
        match = line.fullmatch(pieces[number])
        is_whole_line = match is not None and (len(match[1]) >= _KEY_LINE or number >= len(pieces) - 3)
        if not is_whole_line:
            tail = compile_regex(r"[A-Za-z0-9+/=]{16,}\Z").search(pieces[number][-80:])
            return at - len(tail[0]) if tail else begin
        begin = at - len(pieces[number])
        at = begin - (len(pieces[number - 1]) if number else 0)
    return begin


# --- arguments of programs and functions: ``mysql -p...``, ``gh secret set NAME --body ...``, ``auth=(...)`` ---------------------

_ANY = r"(?:\\{0,7}[\"'])?([^\s\"'$<>|\\({-][^\s\"'\\]{3,256})"
_VALUE = _ANY.replace("([", r"((?=[A-Za-z]{0,256}[^A-Za-z\s\"'\\])[", 1)
_REST = r"(?:\.exe)?\\{0,7}[\"']?(?=[ \t])(?:[^\r\n|\\]|\\(?!n)){0,200}?\s"

_COMMANDS = (
    # Words that name a program, and the pattern after such a word: "…" is the rest of the command before an option, "§" the secret, "¤" also one of letters.
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
    # A piece that the text must contain, and the pattern.
    (("curl", '"-u', "'-u"), r"-(?:(?<![\w-]-)[a-zA-Z]{0,3}[uU]|-(?:proxy-)?user(?:pwd)?)(?:[ =]|[\"'],?\s{0,8})?(?:\\{0,7}[\"'])?([^\s:\"'$<{(|\[]{1,128}:[^\s\"'$<{\\]{3,256})"),
    (("<<<",), rf"(?:secret|token|vercel|luks)[^\r\n|<]{{0,160}}<<< ?{_VALUE}"),
    (("basic",), r"(?i)basic(?<![a-z]basic)[ \t]+(?=[A-Za-z+/]{0,80}[0-9=])([A-Za-z0-9+/]{8,}={0,2})"),
    ((":5432:", ":*:"), r"(?<![\w.:-])[\w.*-]{1,64}:(?:[0-9]{4}|\*):[\w*-]{1,64}:[\w*-]{1,64}:([^\s:\"'\\]{4,256})"),
)  # fmt: skip


def find_logins(text: str, low: str) -> Iterator[Span]:
    """Find passwords of commands, arguments of functions that log in, and basic authentication.

    Args:
        text: Any text.
        low: The same in lower case; see `to_lower`.
    """
    words = low.replace("\\n", "  ").encode("utf-8", "replace").translate(_SEPARATORS).split()
    for word in _WORDS.intersection(words):
        yield from _arguments(text, low, word.decode(), [compile_regex(pattern) for pattern in _PATTERNS[word]])
    for marks, pattern in _LOGINS:
        if any(mark in low for mark in marks):
            for match in compile_regex(pattern).finditer(text):
                if _is_literal(match[1]):
                    yield match.span(1)


def _arguments(text: str, low: str, program: str, patterns: Sequence[re.Pattern[str]]) -> Iterator[Span]:
    """Find the secrets after a word that names a program."""
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
