"""Invented secrets of every kind, and ordinary texts that look similar.

The secrets are generated at import, so that no repository scanner reports them.
"""

from __future__ import annotations

import base64
import json
import random
import string
from typing import NamedTuple

_random = random.Random(20_261_128)
UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
ALNUM, HEX = UPPER + LOWER + DIGITS, "0123456789abcdef"


class Sample(NamedTuple):
    """A text that contains a secret.

    Attributes:
        name: The kind of secret.
        text: The text of a tool, a user, or a model.
        secret: The part that must not reach any sink.
    """

    name: str
    text: str
    secret: str


def pick(count: int, alphabet: str = ALNUM) -> str:
    """Return random characters, including a digit if the alphabet has one."""
    characters = [_random.choice(alphabet) for _ in range(count)]
    if any(c in DIGITS for c in alphabet):
        characters[_random.randrange(1, count)] = _random.choice(DIGITS)
    return "".join(characters)


def _tokens() -> dict[str, str]:
    url = ALNUM + "_-"
    part = base64.urlsafe_b64encode
    return {
        "openai": "sk-" + pick(20) + "T3BlbkFJ" + pick(20),
        "openai project": "sk-proj-" + pick(80, url),
        "openai service account": "sk-svcacct-" + pick(60, url),
        "anthropic": "sk-ant-api03-" + pick(93, url),
        "openrouter": "sk-or-v1-" + pick(64, HEX),
        "deepseek": "sk-" + pick(32, HEX),
        "google api": "AIza" + pick(35, url),
        "google access": "ya29.a0" + pick(60, url),
        "google client": "GOCSPX-" + pick(28, url),
        "google refresh": "1//0" + pick(40, url),
        "aws key id": "AKIA" + pick(16, UPPER + "234567"),
        "aws temporary key id": "ASIA" + pick(16, UPPER + "234567"),
        "aws session": "IQoJb3JpZ2lu" + pick(120),
        "entra client secret": pick(3) + "8Q~" + pick(34, ALNUM + "_-"),
        "azure ai": pick(52) + "JQQJ99" + pick(26),
        "github": "ghp_" + pick(36),
        "github oauth": "gho_" + pick(36),
        "github user": "ghu_" + pick(36),
        "github server": "ghs_" + pick(36),
        "github refresh": "ghr_" + pick(36),
        "github fine-grained": "github_pat_" + pick(22) + "_" + pick(59),
        "gitlab": "glpat-" + pick(20, url),
        "gitlab deploy": "gldt-" + pick(20, url),
        "gitlab runner": "glrt-" + pick(20, url),
        "slack bot": f"xoxb-{pick(12, DIGITS)}-{pick(12, DIGITS)}-{pick(24)}",
        "slack app": f"xapp-1-A{pick(10, UPPER + DIGITS)}-{pick(13, DIGITS)}-{pick(64, HEX)}",
        "slack webhook": f"https://hooks.slack.com/services/T{pick(8, UPPER + DIGITS)}/B{pick(8, UPPER + DIGITS)}/{pick(24)}",
        "discord bot": f"M{pick(23)}.{pick(6)}.{pick(38, url)}",
        "discord webhook": f"https://discord.com/api/webhooks/{pick(18, DIGITS)}/{pick(68, url)}",
        "telegram": f"{pick(10, DIGITS)}:AA{pick(33, url)}",
        "stripe": "sk_live_" + pick(24),
        "stripe restricted": "rk_live_" + pick(24),
        "stripe webhook": "whsec_" + pick(32),
        "twilio": "SK" + pick(32, HEX),
        "sendgrid": f"SG.{pick(22, url)}.{pick(43, url)}",
        "mailgun": "key-" + pick(32, HEX),
        "mailchimp": pick(32, HEX) + "-us12",
        "npm": "npm_" + pick(36),
        "pypi": "pypi-AgEIcHlwaS5vcmcCJ" + pick(120, url),
        "rubygems": "rubygems_" + pick(48, HEX),
        "docker hub": "dckr_pat_" + pick(27, url),
        "hugging face": "hf_" + pick(34),
        "replicate": "r8_" + pick(37),
        "groq": "gsk_" + pick(52),
        "cerebras": "csk-" + pick(48, LOWER + DIGITS),
        "xai": "xai-" + pick(80),
        "nvidia": "nvapi-" + pick(64, url),
        "perplexity": "pplx-" + pick(48),
        "fireworks": "fw_" + pick(24),
        "together": "tgp_v1_" + pick(43, url),
        "langsmith": f"lsv2_pt_{pick(32, HEX)}_{pick(10, HEX)}",
        "digitalocean": "dop_v1_" + pick(64, HEX),
        "heroku": "HRKU-AA" + pick(58, url),
        "cloudflare origin": f"v1.0-{pick(24, HEX)}-{pick(146, HEX)}",
        "netlify": "nfp_" + pick(36),
        "vercel": "vcp_" + pick(52),
        "databricks": "dapi" + pick(32, HEX),
        "new relic": "NRAK-" + pick(27, UPPER + DIGITS),
        "sentry": "sntrys_eyJ" + pick(90),
        "grafana": f"glsa_{pick(32)}_{pick(8, HEX)}",
        "grafana cloud": "glc_eyJ" + pick(80),
        "linear": "lin_api_" + pick(40),
        "notion": "ntn_" + pick(46),
        "notion old": "secret_" + pick(43),
        "figma": "figd_" + pick(40, url),
        "airtable": f"pat{pick(14)}.{pick(64, HEX)}",
        "shopify": "shpat_" + pick(32, HEX),
        "square": "sq0atp-" + pick(22, url),
        "doppler": "dp.pt." + pick(43),
        "vault": "hvs." + pick(90, url),
        "terraform cloud": f"{pick(14)}.atlasv1.{pick(67, url)}",
        "age": "AGE-SECRET-KEY-1" + pick(58, UPPER + DIGITS),
        "tailscale": f"tskey-auth-{pick(12)}-{pick(32)}",
        "supabase": "sbp_" + pick(40, HEX),
        "planetscale": "pscale_tkn_" + pick(43, url),
        "postman": f"PMAK-{pick(24, HEX)}-{pick(34, HEX)}",
        "atlassian": "ATATT3xFfGF0" + pick(180, url),
        "jwt": ".".join([part(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("="), part(json.dumps({"sub": pick(12)}).encode()).decode().rstrip("="), pick(43, url)]),
    }  # fmt: skip


def pem(kind: str, begin: str = "") -> tuple[str, str]:
    """Return a private key with line breaks, and one line of its body."""
    body = begin + pick(1600 - len(begin))
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"]), lines[7]


_NAMED = (
    ("dotenv password", "DB_PASSWORD=@@\nDB_USER=app", pick(14)),
    ("dotenv password with symbols", "DB_PASSWORD=@@\n", "p(" + pick(8) + ")&;9!x"),
    ("dotenv words", "export MAIL_PASSWORD='@@'", "correct-horse-battery"),
    ("dotenv key", "STRIPE_API_KEY=@@", pick(20)),
    ("compose", "environment:\n  - REDIS_PASSWORD=@@\n", pick(12)),
    ("yaml", "database:\n  user: app\n  password: @@\n  port: 5432", pick(12)),
    ("yaml quoted", 'smtp:\n  pass: x\n  password: "@@"\n', pick(12)),
    ("json", '{"user": "app", "password": "@@", "port": 5432}', pick(12)),
    ("json camel", '{"clientSecret": "@@"}', pick(30)),
    ("json in json", '{"arguments": "{\\"apiKey\\": \\"@@\\"}"}', pick(30)),
    ("python", 'client = Client(api_key="@@")', pick(32)),
    ("javascript", "const config = { authToken: '@@' };", pick(32)),
    ("php", "'db_password' => '@@',", pick(12)),
    ("toml", 'access_token = "@@"', pick(24)),
    ("ini", "[mysql]\npassword = @@\n", pick(12)),
    ("xml", "<server><password>@@</password></server>", pick(12)),
    ("aws secret", "aws_secret_access_key = @@", pick(40, ALNUM + "/+")),
    ("aws environment", "AWS_SECRET_ACCESS_KEY=@@", pick(38) + "/+"),
    ("azure storage", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=@@;EndpointSuffix=core.windows.net", pick(86) + "=="),
    ("azure sas", "https://a.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig=@@&se=2027", pick(20) + "%2B" + pick(20) + "%3D"),
    ("service bus", "Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=@@", pick(43) + "="),
    ("twilio auth", "TWILIO_AUTH_TOKEN=@@", pick(32, HEX)),
    ("datadog", "DD_API_KEY: @@", pick(32, HEX)),
    ("heroku uuid", "HEROKU_API_KEY=@@", f"{pick(8, HEX)}-{pick(4, HEX)}-4{pick(3, HEX)}-a{pick(3, HEX)}-{pick(12, HEX)}"),
    ("bearer", "curl -H 'Authorization: Bearer @@' https://api.example.com", pick(40)),
    ("bearer json", '{"Authorization": "Bearer @@"}', pick(40)),
    ("basic", "Authorization: Basic @@", base64.b64encode(f"app:{pick(12)}".encode()).decode()),
    ("token header", "Authorization: token @@", pick(40, HEX)),
    ("api key header", "X-Api-Key: @@", pick(24)),
    ("vault header", "curl -H 'X-Vault-Token: @@' http://v:8200", pick(26)),
    ("gitlab header", "PRIVATE-TOKEN: @@", pick(20)),
    ("cookie", "Cookie: theme=dark; session=@@; lang=en", pick(32)),
    ("set-cookie", "Set-Cookie: sid=@@; Path=/; HttpOnly", pick(32)),
    ("url password", "fatal: unable to access 'https://deploy:@@@git.example.com/a.git/'", pick(10)),
    ("short url password", "cannot connect to https://u:@@@host/x", "pw!q"),
    ("url token", "git clone https://@@@github.com/a/b", pick(40)),
    ("postgres", "DATABASE_URL=postgres://app:@@@db:5432/app", pick(10)),
    ("mongodb", "mongodb+srv://app:@@@cluster0.example.net/?retryWrites=true", pick(10)),
    ("redis", "redis://:@@@cache:6379/0", pick(10)),
    ("sql server", "Server=db;Database=app;User Id=sa;Password=@@;Encrypt=true", pick(12)),
    ("query key", "GET https://maps.example.com/v1?key=@@&q=x 403", pick(20)),
    ("query token", "https://example.com/cb?access_token=@@", pick(30)),
    ("query signature", "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=@@", pick(64, HEX)),
    ("netrc", "machine api.example.com\n  login app\n  password @@\n", pick(12)),
    ("npmrc", "//registry.npmjs.org/:_authToken=@@", pick(36)),
    ("kubeconfig", "users:\n- user:\n    token: @@", pick(60)),
    ("kubeconfig key", "    client-key-data: @@", base64.b64encode(b"-----BEGIN RSA PRIVATE KEY-----\n" + pick(60).encode()).decode()),
    ("k8s environment", "- name: API_TOKEN\n  value: @@\n", pick(24)),
    ("flag", "deploy --token @@ --region eu", pick(24)),
    ("flag with equals", "psql --password=@@ -h db", pick(12)),
    ("curl user", "curl -u app:@@ https://example.com", pick(12)),
    ("sshpass", "sshpass -p @@ ssh host", pick(12)),
    ("mysql", "mysql -h db -u root -p@@ app", pick(12)),
    ("sentry dsn", "dsn: https://@@@o1234.ingest.sentry.io/42", pick(32, HEX)),
    ("sql", "CREATE USER app IDENTIFIED BY '@@'", pick(12)),
    ("powershell", '$env:DEPLOY_TOKEN = "@@"', pick(20)),
    ("escaped newline", 'error: "\\nsk-proj-@@"', pick(60)),
    ("colored", "\x1b[31mghp_@@\x1b[0m", pick(36)),
    ("arguments as compact json", '["serve","--token","@@"]', pick(24)),
    ("define", "define('DB_PASSWORD', '@@');", pick(12)),
    ("setx", 'setx API_TOKEN "@@"', pick(24)),
    ("cdata", "<password><![CDATA[@@]]></password>", pick(12)),
    ("another scheme", "Authorization: GenieKey @@", pick(36, HEX + "-")),
    ("digest", 'Authorization: Digest username="a", response="@@"', pick(32, HEX)),
    ("login of requests", "requests.get(url, auth=('app', '@@'))", pick(12)),
    ("sudo", "echo '@@' | sudo -S ls", pick(10)),
    ("key store", "keytool -list -storepass @@", pick(12)),
    ("zip", "zip -P @@ a.zip b", pick(10)),
    ("ssh-keygen", "ssh-keygen -t ed25519 -N '@@' -f k", pick(12)),
    ("samba", "smbclient //h/s -U app%@@", pick(10)),
    ("wireguard", "[Peer]\nPresharedKey = @@", pick(43) + "="),
    ("json web key", '{"kty": "EC", "d": "@@"}', pick(43, ALNUM + "-_")),
    ("putty", "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n@@\nPrivate-MAC: 1", pick(64)),
    ("oracle", "jdbc:oracle:thin:scott/@@@db:1521/x", pick(9)),
    ("alibaba", "id LTAI@@", pick(20)),
    ("tencent", "id AKID@@", pick(32)),
    ("crates", "cargo login cio@@", pick(32)),
    ("facebook", "EAAC@@", pick(120)),
)  # fmt: skip
"""Kinds of secrets that are recognized by a name or a context, texts with ``@@`` in their place, and secrets."""


def _with_context() -> list[Sample]:
    samples = [Sample(name, form.replace("@@", secret), secret) for name, form, secret in _NAMED]
    for kind, begin in (
        ("RSA PRIVATE KEY", "MIIEpAIBAAK"),
        ("PRIVATE KEY", "MIIEvQIBADANBgkqhkiG9w0BAQEF"),
        ("OPENSSH PRIVATE KEY", "b3BlbnNzaC1rZXktdjE"),
        ("EC PRIVATE KEY", "MHcCAQEEI"),
        ("ENCRYPTED PRIVATE KEY", ""),
        ("PGP PRIVATE KEY BLOCK", ""),
    ):
        text, line = pem(kind, begin)
        samples.append(Sample(f"pem {kind}", f"$ cat key\n{text}\ndone", line))
        if kind == "PRIVATE KEY":
            cut, numbered = text.split("\n"), [f"{n:6}\t{part}" for n, part in enumerate(text.split("\n"), 1)]
            samples.append(
                Sample("pem json", json.dumps({"type": "service_account", "private_key": text, "client_id": "1"}), line)
            )
            samples.append(Sample("pem truncated", "\n".join(cut[:14]), line))
            samples.append(Sample("pem without its first line", "\n".join(cut[4:]), line))
            samples.append(Sample("pem body", "\n".join(cut[1:20]), line))
            samples.append(Sample("pem numbered", "\n".join(numbered), line))
            samples.append(Sample("pem numbered, truncated", "\n".join(numbered[:14]), line))
    return samples  # fmt: skip


TOKENS = _tokens()
SAMPLES = [Sample(name, f"the value is {token}, use it", token) for name, token in TOKENS.items()] + _with_context()

_SHA1, _SHA256, _UUID = (
    pick(40, HEX),
    pick(64, HEX),
    f"{pick(8, HEX)}-{pick(4, HEX)}-4{pick(3, HEX)}-a{pick(3, HEX)}-{pick(12, HEX)}",
)
_IMAGE = base64.b64encode(_random.randbytes(6000)).decode()
_PUBLIC = "\n".join(
    [
        "-----BEGIN PUBLIC KEY-----",
        "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA" + pick(20),
        pick(64),
        "-----END PUBLIC KEY-----",
    ]
)
_CERTIFICATE = "\n".join(["-----BEGIN CERTIFICATE-----", "MIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBa" + pick(16), pick(64), "-----END CERTIFICATE-----"])  # fmt: skip

ORDINARY = [
    "",
    f"commit {_SHA1}\nAuthor: A <a@example.com>",
    f"{_SHA256}  archive.tar.gz",
    f"sha256:{_SHA256}",
    f"request {_UUID} failed",
    f'"integrity": "sha512-{pick(86)}=="',
    f"data:image/png;base64,{_IMAGE}",
    f"![x](data:image/png;base64,{_IMAGE}) and text",
    _IMAGE,
    f'{{"type": "image", "data": "{_IMAGE}"}}',
    _PUBLIC,
    _CERTIFICATE,
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{pick(43)} me@host",
    f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{pick(300)} me@host",
    f"checksum = \"{_SHA256}\"",
    f"go.sum h1:{pick(43)}=",
    f"ETag: \"{pick(32, HEX)}\"",
    f"docker pull nginx@sha256:{_SHA256}",
    ".sk-fading-circle .sk-circle12 { transform: rotate(330deg); } .sk-cube-grid-item-12-of-the-grid {}",
    "class=sk-folding-cube-with-a-long-name",
    "the secret is out: ask for the password at the desk",
    "Password: at least 8 characters",
    "a password is needed; the token is missing, the key too",
    "password: string; token?: string | undefined; apiKey: Option<String>,",
    "def login(user: str, password: str, token: str | None = None) -> Session:",
    'api_key = os.environ["OPENAI_API_KEY"]',
    "const apiKey = process.env.OPENAI_API_KEY;",
    "token=None, password=None, secret=False",
    "self.token = secrets.token_urlsafe(32)",
    "password = getpass.getpass('Password: ')",
    "auth_token = request.headers['X-Auth-Token']",
    "access_token = await self.client_2.fetch_token(scope)",
    "password = config.database2.password",
    "token = tokens[index2]",
    "client_secret = settings.CLIENT_SECRET_V2",
    "OPENAI_API_KEY=YOUR_API_KEY",
    "OPENAI_API_KEY=sk-...",
    "export TOKEN=<token> SECRET=${SECRET} PASSWORD=$(pass show db)",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer <token>",
    "curl -H \"Authorization: Bearer YOUR_ACCESS_TOKEN\" https://api.example.com",
    "-H 'Authorization: Bearer ${API_TOKEN}'",
    "Bearer token missing; Bearer authentication is required",
    "password: ${{ secrets.DB_PASSWORD }}",
    "password: '{{ vault_db_password }}'",
    "secretKeyRef:\n  name: db-credentials-2\n  key: password",
    "https://host:8080/v1?model=x&page=2&sort_key=created_at",
    "http://[::1]:8080/a@b and http://h:1 me@host",
    "see https://platform.openai.com/account/api-keys.",
    "git@github.com:owner/repo.git ssh://git@github.com/owner/repo",
    "https://user@example.com/path npm i @scope/pkg@1.2.3",
    "postgres://${USER}:${PASSWORD}@localhost/db",
    "hf_hub_download_to_a_local_folder(repo) key_management_service_account_name fw_rules_of_the_internal_network_list",
    "task-1234567890abcdefghij risk-assessment disk-usage-2024-report",
    "test_password_reset_token_2[case-3] PASSED tests/unit/test_tokens.py::test_key_17",
    "max_tokens=4096, total_tokens: 123456, input_tokens=99999999",
    '{"usage": {"prompt_tokens": 1234567, "token_count": 12345678}}',
    'nextPageToken: "CAUQAA12345678901234567890"',
    'primary_key: "user_id_2024_01", sort_key="created_at_2", cache_key="v1-abc123def456ghi789"',
    "eos_token: '</s>', pad_token: '<|endoftext|>'",
    "key: value, key1: value1, KeyError: 'abc123def456'",
    "<input type=\"password\" id=\"password2\" name=\"password\" autocomplete=\"current-password\">",
    'placeholder="Enter your password" label="API key"',
    '"password": "Password must be 8 to 64 characters long."',
    '"password": {"type": "string", "minLength": 12}',
    "GOOGLE_APPLICATION_CREDENTIALS=/home/me/keys/service-1.json SSH_AUTH_SOCK=/tmp/ssh-1/agent.2",
    "SSH_KEY=~/.ssh/id_ed25519 TLS_KEY=certs/server-1.key",
    "eyJust a word. AKIASHORT and xoxb-short, AIzaShort",
    "password_hash: argon2id, token_type: Bearer, secret_name: my-secret-1",
    "if password == 'x' and token != previous_token_2: pass",
    "!function(e,t){var n=e.key1=t.token2,r=n.secret;return r&&r.pass?r:n}(window,document);",
    "for (const [key, token2] of entries) { secret = token2; }",
    "2026-11-28T12:00:00Z INFO token refresh took 1234567 us key=cache hits=99",
    "version 1.2.3-beta.20261128+build.7f3c9d2 of pkg-name-2.0.0-py3-none-any.whl",
    "/api/v1/users/1234567890/tokens/9876543210 200 OK",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:db-AbCdEf",
    "const SECRET_KEY_LENGTH = 32; TOKEN_TTL_SECONDS = 86400;",
    "The keys 1234567890 and abcdefghij1234567890 are in the cache.",
    "cookie: SimpleCookie[str], document.cookie = \"theme=dark\"",
    "Cookie: theme=dark; lang=en",
    "Set the environment variable OPENAI_API_KEY, or the setting providers.openai.apiKey",
    "Basic authentication and basic types are in section 4.2.1",
    "me@example.com, +1 555 0100, 4111-1111-1111-1111",
    "call_4f2b9c1d8e7a6b5c4d3e2f1a toolu_01A09q90qw90lq917835lq9 msg_013Zva2CMHLNnjNjJKqJ2EF",
    "token: str = Field(min_length=20, description='A token of 20 characters')",
]  # fmt: skip
