"""Secrets out of text."""

import pytest

from mainspring.redaction import redact

X = "[redacted]"


@pytest.mark.covers("BYD-19")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key sk-proj-abcDEF123456_-x is wrong", f"key {X} is wrong"),
        ("sk-ant-api03-abcdefghijklmnop", X),
        ("gsk_abcdefghijklmnopqrstuvwx", X),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", X),
        ("github_pat_11ABCDEFG0123456789_abcdef", X),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuv", X),
        ("AKIAIOSFODNN7EXAMPLE", X),
        ("xoxb-123456789012-abcdef", X),
        ("hf_abcdefghijklmnopqrst", X),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef123456", X),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {X}"),
        ('{"authorization": "Basic dXNlcjpwYXNz"}', f'{{"authorization": "Basic {X}"}}'),
        ("x-api-key: 12345", f"x-api-key: {X}"),
        ("'api-key': 'abc'", f"'api-key': '{X}'"),
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
def test_what_looks_like_a_secret_is_masked(text: str, clean: str) -> None:
    assert redact(text) == clean


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
def test_other_text_stays(text: str) -> None:
    assert redact(text) == text


def test_known_secrets_are_masked_wherever_they_stand() -> None:
    assert redact("my hunter2 and hunter22", "hunter2") == f"my {X} and {X}2"
    assert redact("abc", "", "ab") == "abc"
