"""Every kind of secret is redacted in every form, and ordinary text is unchanged."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from mainspring.redaction import Redactor, environment_secrets, redact_environment, redact_value
from tests.rows import each_row
from tests.secret_forms import FORMS, ORDINARY_FORMS
from tests.secret_samples import ORDINARY, SAMPLES, Sample, pem

X = "[redacted]"


@pytest.mark.covers("BYD-19")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key sk-proj-abcDEF123456_-x is wrong", f"key {X} is wrong"),
        ("sk-ant-api03-abcdefghijklmnop", X),
        ("gsk_abcdefghijk1mnopqrstuvwx", X),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", X),
        ("github_pat_11ABCDEFG0123456789_abcdef", X),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", X),
        ("AKIAIOSFODNN7EXAMPLE", X),
        ("xoxb-123456789012-abcdef", X),
        ("hf_abcdefghijk1mnopqrst", X),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef123456", X),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {X}"),
        ('{"authorization": "Basic dXNlcjpwYXNz"}', f'{{"authorization": "Basic {X}"}}'),
        ("x-api-key: a12345", f"x-api-key: {X}"),
        ("'api-key': 'abc123'", f"'api-key': '{X}'"),
        ("Bearer 0123456789abcdef", f"Bearer {X}"),
        ("OPENAI_API_KEY=abcdef123", f"OPENAI_API_KEY={X}"),
        ('"client_secret": "s3cr3t-value"', f'"client_secret": "{X}"'),
        ("https://h/v1?key=abc123&x=1", f"https://h/v1?key={X}&x=1"),
        ("https://user:pass@h/v1", f"https://{X}@h/v1"),
        ("https://user:p@ss@h/v1?a=b@c", f"https://{X}@h/v1?a=b@c"),
        ("redis://:hunter2@cache:6379/0", f"redis://{X}@cache:6379/0"),
        ("a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b", f"a {X} b"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE", X),
    ],
)
def test_secret_patterns_are_redacted(text: str, clean: str) -> None:
    assert redact_environment(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "risk-assessment of the task",
        "Bearer token missing",
        "set the environment variable OPENAI_API_KEY, or the setting providers.openai.apiKey",
        "the key is missing",
        "https://host:8080/v1?model=x",
        "http://[::1]:8080/a@b and http://h:1 me@host",
        "see https://platform.openai.com/account/api-keys.",
        "a password is needed",
        "",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    assert redact_environment(text) == text


def test_known_secrets_are_redacted_everywhere() -> None:
    assert redact_environment("my hunter2 and hunter22", "hunter2") == f"my {X} and {X}2"
    assert redact_environment("abc", "", "ab") == "abc"


def encode_forms(text: str) -> list[str]:
    """Return a text unchanged, in JSON, and in JSON within JSON."""
    once = json.dumps({"text": text})
    return [text, once, json.dumps([once])]


@pytest.mark.covers("BYD-19")
@each_row("sample", [*SAMPLES, *FORMS])
def test_each_sample_is_redacted(sample: Sample) -> None:
    for form in encode_forms(sample.text):
        clean = redact_environment(form)
        assert sample.secret not in clean
        assert X in clean
        assert redact_environment(clean) == clean


@pytest.mark.covers("BYD-19")
@each_row("text", [*ORDINARY, *ORDINARY_FORMS])
def test_ordinary_text_is_unchanged(text: str) -> None:
    for form in encode_forms(text):
        assert redact_environment(form) == form
    assert redact_value({"text": text, "items": [text]}) == {"text": text, "items": [text]}


LOOK_LIKE_SECRETS = (
    "name:word",  # a user and a password in a URL of a docstring
    "([0-9a-f]{32}(?::[0-9a-f]{32})?)",  # patterns of the tables themselves
    "(?=[A-Za-z_-]{0,80}[0-9])([A-Za-z0-9_.~%=-]{16,512})(?::(?:x-oauth-basic)?)?",
)


def test_project_sources_and_docs_have_no_secrets() -> None:
    root = Path(__file__).parents[3]
    files = [f for f in (*root.glob("src/**/*.py"), *root.glob("docs/**/*.md"), root / "uv.lock") if f.is_file()]
    found: dict[str, list[str]] = {}
    for file in files:
        text = file.read_text(encoding="utf-8")
        spans = [text[a:b] for a, b in Redactor().spans(text)]
        if others := [span for span in spans if span not in LOOK_LIKE_SECRETS]:
            found[file.name] = others
    assert len(files) > 500
    assert found == {}


def test_text_around_a_secret_is_unchanged() -> None:
    text, _ = pem("RSA PRIVATE KEY")
    assert redact_environment(f"before\n{text}\nafter") == f"before\n{X}\nafter"
    assert redact_environment("DB_PASSWORD=abc123xyz\nDB_USER=app") == f"DB_PASSWORD={X}\nDB_USER=app"
    assert redact_environment('connect("h", password="abc123xyz", port=1)') == f'connect("h", password="{X}", port=1)'


def test_values_are_redacted_by_field_or_option_name() -> None:
    given: dict[str, Any] = {
        "password": "correcthorse",
        "user": "correcthorse",
        "env": [{"name": "API_TOKEN", "value": "abcdef123456"}, {"name": "MODE", "value": "abcdef123456"}],
        "args": ["--token", "abcdef123456", "--region", "abcdef123456", "-u", "me:abc123"],
        "nested": '{"clientSecret": "abcdef123456"}',
        "port": 5432,
    }
    assert redact_value(given) == {
        "password": X,
        "user": "correcthorse",
        "env": [{"name": "API_TOKEN", "value": X}, {"name": "MODE", "value": "abcdef123456"}],
        "args": ["--token", X, "--region", "abcdef123456", "-u", f"me:{X}"],
        "nested": f'{{"clientSecret": "{X}"}}',
        "port": 5432,
    }


def test_signatures_and_images_are_unchanged() -> None:
    key = "sk-proj-" + "a1B2" * 10
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": key},
        {"type": "redacted_thinking", "data": key},
        {"type": "image", "media_type": "image/png", "data": key},
        {"type": "base64", "media_type": "image/png", "data": key},
        {"functionCall": {"name": "f"}, "thoughtSignature": key},
        {"inlineData": {"mimeType": "image/png", "data": key}},
        {"type": "reasoning", "encrypted_content": key},
    ]
    assert redact_value(blocks) == blocks


def test_secret_environment_variables_are_recognized_by_name() -> None:
    environ = {
        "DB_PASSWORD": "correct-horse",
        "MY_TOKEN": 'tok"en-value',
        "SOME_KEY": "abc123def",
        "DATABASE_URL": "postgres://app:pg-pass-1@db/app",
        "PGPASSWORD": "postgres",
        "DEBUG_TOKEN": "true",
        "MAX_TOKENS": "40960000",
        "SORT_KEY": "created_at_2",
        "SSH_KEY": "/home/me/.ssh/id_1",
        "HOME": "/home/abc123def",
    }
    assert environment_secrets(environ) == {"correct-horse", 'tok"en-value', "abc123def", "pg-pass-1"}
    redactor = Redactor.of(environ)
    assert redactor.text('is tok"en-value or tok\\"en-value or tok%22en-value') == f"is {X} or {X} or {X}"
    assert redactor.text("in abc123def, not in 0abc123def0") == f"in {X}, not in 0abc123def0"


def test_variables_of_the_process_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "xyzzy-plugh")
    assert redact_environment("say xyzzy-plugh") == f"say {X}"
    assert Redactor.of({}).text("say xyzzy-plugh") == "say xyzzy-plugh"


HOSTILE = [
    "a", "token=", "token ", "password:", "sk-", "sk-a", "://", "a://b:", "://a:b", "eyJ", "eyJaaaaaaaaa.", "-", "-1", '"', 'key="',
    "\\", "password\\", "authorization: ", "cookie: a=1;", "basic ", "bearer ", "?a=1&", "curl -u a:", "mysql -p ", "mysql ", "M", "0",
    "<password>", "login password ", "name: token\n ", "\n", "token\t\t\t\t\t\t\t", "MIIEIBAAK", "http://a:b@", " ", 'api_key = "', "=",
    "sl.", "do.", "zip ", "secret ", "echo a", "login(", "key", "my password ", "user password is ", "net user ", "<<< ", "a:*:a:", "password: a ", "PASSWORD = ", "--api-key ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", ";base64,", "A" * 64 + "\n",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_redaction_is_fast_for_any_text(piece: str) -> None:
    text = (piece * (1_000_000 // len(piece)))[:250_000]
    started = time.process_time()
    Redactor().text(text)
    assert time.process_time() - started < 9  # a quarter of a second, on a machine that is not busy


@settings(max_examples=150)
@given(st.lists(st.sampled_from([*HOSTILE, *ORDINARY[:20], *[s.text for s in SAMPLES[::5]]]), max_size=8).map("".join))
def test_spans_are_ordered_and_disjoint(text: str) -> None:
    spans = Redactor().spans(text)
    assert all(0 <= begin < end <= len(text) for begin, end in spans)
    assert all(end < begin for (_, end), (begin, _) in zip(spans, spans[1:], strict=False))
